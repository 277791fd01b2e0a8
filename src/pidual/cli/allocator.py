"""Memory that one training step frees is kept for the next."""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT = 1 << 30
LARGE = 32 << 20  # allocations from here on still come from the system and go back to it


def keep_freed_memory() -> None:
    """Let the C library keep up to a gigabyte that is freed, where it is glibc; elsewhere nothing happens.

    glibc gives large blocks back to the system and asks for them again, zeroed page by page, at every step of training
    on the CPU: a tenth to a fifth of the processor time of a small CNN (benchmarks/allocator.py). For the process of a
    command; a library must not change its host's. MALLOC_* variables of the user's win.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    for option, variable, value in (
        (M_MMAP_THRESHOLD, "MALLOC_MMAP_THRESHOLD_", LARGE),
        (M_TRIM_THRESHOLD, "MALLOC_TRIM_THRESHOLD_", KEPT),
    ):
        if variable not in os.environ:
            mallopt(option, value)
