"""`pidual export --to hf`: the cleaned table as a dataset of Hugging Face."""

import contextlib
import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_crowd

from pidual.api.run import Run
from pidual.run.decisions import Store
from pidual.show.export.hugging_face import with_sources

pytestmark = pytest.mark.shapes_unchecked

try:
    MISSING = importlib.util.find_spec("datasets.arrow_dataset") is None  # not a folder of this name
except ImportError:
    MISSING = True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of which one label was changed and one kept by a reviewer; the table has a column of our name."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"))
    frame = pd.read_csv(folder / "labels.csv").assign(label_quality="own")
    frame.to_csv(folder / "labels.csv", index=False)
    with contextlib.chdir(folder):
        code, _, err = run_cli(["fit", "labels.csv", "--no-x", "-q", "--out", "run"])
        assert code == 0, err
    run = Run.open(folder / "run")
    issue = int(np.flatnonzero(run.predictions.is_issue)[0])
    store = Store(run)
    store.add(issue, "keep", frame["label"][issue], reviewer="ann", request="1")
    other = {"cat": "dog", "dog": "owl", "owl": "cat"}[frame["label"][0 if issue else 1]]
    store.add(0 if issue else 1, "change", other, reviewer="ann", request="2")
    store.close()
    return folder


def test_every_row_says_where_its_label_comes_from(folder):
    from pidual.show.export import decide

    run, frame = Run.open(folder / "run"), pd.read_csv(folder / "labels.csv")
    changes = decide(run)
    cleaned = frame.copy()
    cleaned.loc[changes["row"], "label"] = changes["new_label"].astype(str).to_numpy()
    made = with_sources(run, cleaned, changes)
    assert made["given_label"].tolist() == frame["label"].tolist()
    assert made["table_label_quality"].tolist() == ["own"] * len(frame)
    np.testing.assert_array_equal(made["label_quality"], run.predictions.label_quality)
    changed = (made["label"] != made["given_label"]).to_numpy()
    assert changed.sum() == len(changes) > 3
    assert (made["label_source"][~changed] == "given").all()
    assert made["label_source"][changed].value_counts().to_dict() == changes["source"].value_counts().to_dict()
    assert (made["label_source"] == "reviewed").sum() == 1


@pytest.mark.skipif(not MISSING, reason="the extra is installed")
def test_without_the_extra_it_says_what_to_install(folder, tmp_path):
    words = ["export", folder / "run", tmp_path / "clean", "--to", "hf", "--table", folder / "labels.csv"]
    code, _, err = run_cli(words)
    assert (code, "pip install 'pidual[hf]'" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(MISSING, reason="needs the extra hf")
def test_the_dataset_is_the_cleaned_table(folder, tmp_path):
    from datasets import ClassLabel, load_from_disk

    words = ["export", folder / "run", tmp_path / "clean", "--to", "hf", "--table", folder / "labels.csv", "--json"]
    code, out, err = run_cli(words)
    assert code == 0, err
    read, frame = load_from_disk(str(tmp_path / "clean")), pd.read_csv(folder / "labels.csv")
    assert read.features["label"] == ClassLabel(names=["cat", "dog", "owl"])
    assert read["given_label"][:] == frame["label"].tolist()
    assert read["annotator"][:] == frame["annotator"].tolist()
    labels = [read.features["label"].int2str(code) for code in read["label"]]
    as_csv = ["export", folder / "run", tmp_path / "table.csv", "--to", "csv", "--table", folder / "labels.csv"]
    assert run_cli(as_csv)[0] == 0
    assert labels == pd.read_csv(tmp_path / "table.csv")["label"].tolist()
    told = json.loads(out)
    assert sum(source != "given" for source in read["label_source"]) == told["n_changed"]
    assert run_cli(words)[0] == 2  # it is there
    assert run_cli([*words, "--force"])[0] == 0
    assert list(tmp_path.glob(".*")) == []
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    words[2] = tmp_path / "other"
    code, _, err = run_cli([*words, "--force"])
    assert (code, "is not a dataset of Hugging Face" in err) == (2, True)
    code, _, err = run_cli(["data", "import", tmp_path / "clean", tmp_path / "again.csv"])  # and we read it again
    assert code == 0, err
    assert pd.read_csv(tmp_path / "again.csv")["label"].tolist() == labels


@pytest.mark.skipif(MISSING, reason="needs the extra hf")
def test_the_dataset_in_this_folder_is_fitted_and_exported_under_its_name(folder, tmp_path):
    words = ["export", folder / "run", tmp_path / "mine", "--to", "hf", "--table", folder / "labels.csv"]
    assert run_cli(words)[0] == 0
    with contextlib.chdir(tmp_path / "mine"):
        code, out, err = run_cli(["fit", ".", "--no-x", "-q"])
        assert code == 0, err
        assert "Report: runs/mine/report.html" in out
        assert (tmp_path / "mine" / ".pidual.key").is_file()
        code, out, err = run_cli(["export", "runs/mine", "--to", "csv"])
        assert code == 0, err
        assert (tmp_path / "mine" / "mine.clean.csv").is_file()


@pytest.mark.skipif(MISSING, reason="needs the extra hf")
def test_whole_numbers_that_are_written_as_floats_are_classes(folder, tmp_path):
    from datasets import load_from_disk

    frame = pd.read_csv(folder / "labels.csv")
    frame["label"] = frame["label"].map({"cat": 0.0, "dog": 1.0, "owl": 2.0})
    frame.to_csv(tmp_path / "labels.csv", index=False)
    with contextlib.chdir(tmp_path):
        assert run_cli(["fit", "labels.csv", "--no-x", "-q", "--out", "run"])[0] == 0
        code, _, err = run_cli(["export", "run", "clean", "--to", "hf"])
    assert code == 0, err
    read = load_from_disk(str(tmp_path / "clean"))
    assert read.features["label"].names == ["0", "1", "2"]
    changed = np.asarray(read["label_source"][:]) != "given"
    assert changed.any()
    labels = np.asarray(read["label"][:])
    np.testing.assert_array_equal(labels[~changed], frame["label"][~changed])
    assert (labels[changed] != frame["label"][changed]).all()
