"""What every benchmark's result file says of where it came from."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

from pidual.files import write_json


def write_result(path: Path, results, **settings):
    """Write results with the command's settings, commit, date, versions and hardware."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "benchmark": path.stem,
        "settings": settings,
        "commit": commit.stdout.strip() or None,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores, no GPU" if not torch.cuda.is_available() else "GPU",
        "threads": torch.get_num_threads(),
    }
    write_json(path, {**about, "results": results})
    print(f"written: {path}")
