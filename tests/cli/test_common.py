"""Freed memory stays with the process: taking it again faults in no new pages."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import ctypes, resource, sys
from pidual.cli.common import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
for number in range(21):
    if number == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(8 << 20) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, 8 << 20)
    for block in blocks:
        libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(kind, **variables):
    environment = {"PYTHONPATH": ":".join(sys.path), **variables}
    command = [sys.executable, "-c", FAULTS, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so eagerly")
def test_freed_memory_is_kept_but_the_users_variables_win():
    kept, given_back = page_faults("keep"), page_faults("give back")
    assert given_back > 1000
    assert kept < given_back / 10
    assert page_faults("keep", MALLOC_TRIM_THRESHOLD_="0") > 1000
