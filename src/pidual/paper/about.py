"""Where and when results are made: commit, date, versions and hardware."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from .. import __version__


def about() -> dict[str, Any]:
    """Commit, date, versions and hardware of what runs now."""
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "pidual": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "hardware": f"{processor() or platform.machine()}, {os.cpu_count()} cores, {cuda}",
    }


@cache
def processor() -> str:
    """Name of the processor, on which the last digits of a result depend; "" where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


@cache
def commit() -> str | None:
    """Commit of the checkout this package is part of, "-dirty" where files have been changed; None outside of one."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    except OSError:  # no git
        return None
    return found.stdout.strip() or None
