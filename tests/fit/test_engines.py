"""The programs of docs/for/scale.md, as they stand there, on Ray, Spark and torchrun: the list of one process.

Nothing is installed here: a test is skipped where its engine is missing.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import environment, run_cli, write_crowd

import pidual
from pidual.learn.closed_form import ridge
from pidual.run.predictions import read_frame

pytestmark = [pytest.mark.slow, pytest.mark.shapes_unchecked]

PAGE = (Path(__file__).parents[2] / "docs" / "for" / "scale.md").read_text()
# sums of a small table are shared too
SHARED = "    from pidual.learn.closed_form import ridge; ridge.CACHED, ridge.PART = 1000, 200\n"
KILLED_ONCE = """
    def stop(folder=os.path.dirname(files["out"])):
        if os.environ["RANK"] == "1" and os.path.exists(f"{folder}/alive"):
            os.rename(f"{folder}/alive", f"{folder}/killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return False
"""


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder with a crowd, and the run that one process makes of it."""
    folder = write_crowd(tmp_path_factory.mktemp("shared"), n_items=1500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ridge, "CACHED", 1000)
        patch.setattr(ridge, "PART", 200)
        fit = ["fit", folder / "labels.csv", "--x", folder / "x.npy", "--pi", "annotator,seconds", "--quiet"]
        code, _, err = run_cli([*fit, "--out", folder / "one"])
    assert code == 0, err
    x = pd.DataFrame(np.load(folder / "x.npy")).add_prefix("x")
    x.assign(item=np.arange(len(x))).to_parquet(folder / "x.parquet")
    return folder


def program(heading, folder):
    """The first program below a heading of the page, on files of this folder."""
    (block,) = re.findall(rf"^#+ {re.escape(heading)}\n.*?^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[:1]
    return block.replace("/shared", str(folder))


def run(code, folder):
    """Run a program as a process of its own, in this folder."""
    path = folder / "program.py"
    path.write_text(code)
    more = {"RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "300", "PYSPARK_PYTHON": sys.executable}
    how = {"env": environment(**more), "cwd": folder, "text": True, "timeout": 900, "check": False}
    done = subprocess.run([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def check_same(folder, name):
    """Every answer is there once, and what is said about it is what one process says."""
    one, found = (read_frame(folder / each / "predictions.parquet") for each in ("one", name))
    assert found["row"].tolist() == list(range(len(one)))
    np.testing.assert_allclose(found["label_quality"], one["label_quality"], atol=1e-6)
    assert found["is_label_issue"].equals(one["is_label_issue"])
    items = read_frame(folder / name / "items.parquet")
    assert items["num_annotations"].sum() == len(one)


@needs("ray")
def test_ray_train_starts_a_killed_worker_again(shared):
    """The second worker is killed after its first round; Ray starts both again, and they go on from the state."""
    code = program("Ray Train", shared).replace(
        "    table = read_table", f"{SHARED}{KILLED_ONCE}    table = read_table"
    )
    code = code.replace("resume=True)", "resume=True, stop=stop)")
    assert code.count("stop=stop") == code.count("ridge.PART") == 1
    (shared / "alive").touch()
    said = run("import os\nimport signal\n" + code, shared)
    assert (shared / "killed").exists()
    assert len(re.findall("Started training worker group of size 2", said)) == 2, said[-4000:]
    check_same(shared, "ray")


@needs("pyspark")
def test_spark_s_distributor(shared):
    code = program("Spark: TorchDistributor", shared).replace(
        "    table = read_table", f"{SHARED}    table = read_table"
    )
    assert code.count("ridge.PART") == 1
    run(code, shared)
    check_same(shared, "spark")


def check_judged(folder, name):
    """Parts say what one call says about all answers, and so do their sums."""
    frame = pd.read_csv(folder / "labels.csv")
    expected = pidual.Run.open(folder / "one").judge(folder / "labels.csv", folder / "x.parquet")
    parts = [pd.read_parquet(path) for path in sorted((folder / name).glob("*.parquet"))]
    parts = [part for part in parts if len(part)]
    assert len(parts) > 1
    assert len(expected) == len(frame) == sum(map(len, parts))
    keys = ["item", "annotator", "given_label"]
    one, found = (each.astype(dict.fromkeys(keys, str)).sort_values(keys) for each in (expected, pd.concat(parts)))
    for key in keys:
        assert one[key].tolist() == found[key].tolist()
    np.testing.assert_allclose(found["label_quality"], one["label_quality"], atol=1e-6)
    assert found["is_label_issue"].tolist() == one["is_label_issue"].tolist()
    whole, sums = pidual.merge([expected]), pidual.merge(parts)
    assert (sums.n_rows, sums.n_items, sums.n_issues) == (whole.n_rows, whole.n_items, whole.n_issues)


@needs("ray")
def test_ray_data(shared):
    run("import ray\n\nray.init(num_cpus=4, include_dashboard=False)\n" + program("Ray Data", shared), shared)
    check_judged(shared, "by_ray")


@needs("pyspark")
def test_spark_in_arrow(shared):
    run(program("Spark: mapInArrow", shared), shared)
    check_judged(shared, "by_spark")


@pytest.mark.parametrize("n", [2, 4])
def test_torchrun(shared, n):
    code = (
        f"import runpy, sys\nif 1:\n{SHARED}sys.argv[0] = 'pidual'\nrunpy.run_module('pidual', run_name='__main__')\n"
    )
    (shared / "started.py").write_text(code)
    fit = ["fit", "labels.csv", "--x", "x.npy", "--pi", "annotator,seconds", "--quiet", "--out", f"processes-{n}"]
    command = ["torch.distributed.run", "--standalone", f"--nproc-per-node={n}", "started.py", *fit]
    how = {"env": environment(), "cwd": shared, "text": True, "timeout": 600, "check": False, "capture_output": True}
    done = subprocess.run([sys.executable, "-m", *command], **how)
    assert done.returncode == 0, done.stderr[-4000:]
    check_same(shared, f"processes-{n}")
