"""Fits on two processes at once; to start them takes longer than most fits, so one start does several.

torchrun --nproc-per-node 2 tests/on_two_processes.py OUT CASE ...   # of contract.py, or one of OTHERS
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import by_item
import contract
import own_loop
import torch
from command_line import environment, run_cli


def fit_crowd(crowd, *options):
    """Words of the command that fits a crowd written by `write_crowd`."""
    args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--pi", "annotator,seconds", "--epochs", 6]
    return [*args, "--method", "pi_dual", "--set", "random_pi=2", *options]


# In single precision rounding may grow to a thousandth within six epochs, on some processors and not on others.
EXACT = ("--set", "network.dropout=0.0", "--precision", "64-true")


def run_command(out):
    """`pidual fit` of OUT/crowd, on either of two processes: OUT/command; what each says: OUT/command-<rank>.json.

    The second process is late: it must not take what the first has written for an earlier run.
    """
    time.sleep(int(os.environ["RANK"]))
    answer = run_cli(fit_crowd(out / "crowd", *EXACT, "--out", out / "command"))
    (out / f"command-{os.environ['RANK']}.json").write_text(json.dumps(answer))


OTHERS = {"by_item": by_item.fit_on_two, "command": run_command, "own_loop": own_loop.run}


def fit_on_two(folder, cases):
    """Run this file under torchrun, and return the folder that it has written to."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    how = {"env": environment(), "capture_output": True, "text": True, "timeout": 300, "check": False}
    done = subprocess.run([*command, str(folder), *cases], **how)
    assert done.returncode == 0, done.stderr
    return folder


if __name__ == "__main__":
    out = Path(sys.argv[1])
    for case in sys.argv[2:]:
        OTHERS[case](out) if case in OTHERS else contract.fit_on_two(case, out)
    torch.distributed.barrier()  # a process that ends while another still talks to it may abort
    torch.distributed.destroy_process_group()
