import gc
import importlib
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import jaxtyping
import numpy as np
import pandas as pd
import pytest
from command_line import write_key

# As with `make test`, what is compiled is kept for the next run, and for the processes that tests start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config):
    config.option.loadscopereorder = False  # pytest-xdist would begin with the files of most tests
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):  # tests run in this process
        with mock.patch.dict(os.environ, OMP_WAIT_POLICY="passive"):  # heard when torch is loaded: threads do not spin
            import torch
        torch.set_num_threads(1)  # the tests' networks are tiny; two threads only wait for each other


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("runs_first") is None)


def pytest_collection_finish():
    """The half million objects of the imported packages stay: to look through them for garbage takes a twentieth."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seeded():
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _no_callbacks_of_other_packages():
    """Fabric reads the metadata of every installed package, in every fit, in search of callbacks."""
    with mock.patch("lightning_fabric.fabric._load_external_callbacks", return_value=[], create=True):
        yield


@pytest.fixture(autouse=True, scope="session")
def _embeddings_are_kept_here(tmp_path_factory):
    with mock.patch.dict(os.environ, PIDUAL_CACHE=str(tmp_path_factory.mktemp("cache"))):
        yield


@pytest.fixture(autouse=True, scope="session")
def _files_need_not_outlive_the_machine():
    """Tests find a file whether or not it has reached the disk, and to wait until it has takes long."""
    with mock.patch("os.fsync"):
        yield


@pytest.fixture(autouse=True, scope="module")
def _figures_are_drawn_where_they_are_looked_at(request):
    from figures import drawn, not_drawn

    with drawn() if request.node.get_closest_marker("draws_figures") else not_drawn():
        yield


@pytest.fixture(autouse=True, scope="module")
def _shapes_are_checked_but_where_fits_repeat(request):
    """Checking the shapes of every call takes a third of a small fit; other files check those of all methods."""
    is_unchecked = request.node.get_closest_marker("shapes_unchecked") is not None
    with mock.patch.object(jaxtyping.config, "jaxtyping_disable", is_unchecked):
        yield


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """Folder with published datasets: PIDUAL_DATA, else made from ../shared beside the checkout."""
    if "PIDUAL_DATA" in os.environ:
        return Path(os.environ["PIDUAL_DATA"])
    script = Path(__file__).parents[2] / "shared" / "tools" / "prepare_data.py"
    if not script.is_file():
        pytest.skip("no published datasets: PIDUAL_DATA is not set")
    import fcntl

    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place  # workers share what one of them has made
    folder, made = place / "data", place / "data-made"
    with (place / "data.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not made.exists():
            subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
            made.touch()
    return folder


@pytest.fixture(scope="module")
def benchmark():
    """Imports a module of benchmarks/; they leave nothing behind that other tests could import."""
    folder, before = str(Path(__file__).parents[1] / "benchmarks"), set(sys.modules)
    sys.path.insert(0, folder)
    yield importlib.import_module
    sys.path.remove(folder)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


@pytest.fixture
def rows():
    """240 annotations of 80 items in three classes; two of six annotators guess; PI: who answered, numbers."""
    from contract import make_rows

    return make_rows()


@pytest.fixture
def crowd_files(tmp_path):
    """A CSV of annotations and an .npy of features, as a user has them."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 60)
    np.save(tmp_path / "x.npy", (rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32))
    item = np.repeat(np.arange(60), 3)
    who = rng.permuted(np.tile(np.arange(6), (60, 1)), axis=1)[:, :3].ravel()  # nobody answers an item twice
    label = np.where(who < 2, rng.integers(0, 3, 180), y[item])
    names = np.array(["cat", "dog", "owl"])
    frame = pd.DataFrame(
        {
            "item": item,
            "label": names[label],
            "annotator": [f"person{w}@example.org" for w in who],
            "seconds": rng.gamma(2, 3, 180).round(2),
            "y": names[y[item]],
        }
    )
    frame.to_csv(tmp_path / "labels.csv", index=False)
    write_key(tmp_path)
    return tmp_path
