"""A file is parsed once, and what was read of it is not kept longer than needed."""

import contextlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli

from pidual.data import load_inputs, open_source, read_table, table_inputs
from pidual.data.features import expect_inputs
from pidual.data.sources.csv_file import CsvFile

IO = Path("/proc/self/io")
needs_proc = pytest.mark.skipif(not IO.exists(), reason="the system does not count what a process reads")


def bytes_read():
    return int(IO.read_text().split("rchar:")[1].split()[0])


@contextlib.contextmanager
def at_most(passes, path, monkeypatch):
    """Parsed once, and not read more often than that, except for the header and the first thousand lines."""
    parsed = []
    real = CsvFile.scan
    monkeypatch.setattr(CsvFile, "scan", lambda *given: parsed.append(given) or real(*given))
    before = bytes_read()
    yield
    assert len(parsed) == 1
    assert bytes_read() - before < (passes + 0.5) * path.stat().st_size


@pytest.fixture
def wide(tmp_path):
    """A table of two answers an item, with six features, of a few megabytes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(15_000, 6))
    frame = pd.DataFrame({"item": np.arange(30_000) // 2, "label": rng.choice(["cat", "dog"], 30_000)})
    frame["annotator"] = rng.integers(0, 20, 30_000) + 20 * (np.arange(30_000) % 2)  # two people an item
    frame["seconds"] = rng.gamma(2, 4, 30_000).round(2)
    frame = frame.join(pd.DataFrame(x[frame["item"]], columns=[f"f{j}" for j in range(6)]))
    frame["note"] = "a longer text about the answer"
    frame.to_csv(tmp_path / "wide.csv", index=False)
    return tmp_path / "wide.csv"


FEATURES = ["f0", "f1", "f2", "f3", "f4", "f5"]


def read_both(path, columns=FEATURES, text=None, **roles):
    source = open_source(path)
    expect_inputs(source, None, columns, text)
    table = read_table(source, keep_ids=True, x_columns=columns or [text], **roles)
    return source, table, table_inputs(source, columns=columns, text=text)


@needs_proc
def test_a_table_and_its_inputs_take_one_pass_to_check_and_one_to_parse(wide, monkeypatch):
    with at_most(2, wide, monkeypatch):
        source, table, inputs = read_both(wide, pi=["annotator", "seconds"])
    apart = table_inputs(wide, columns=FEATURES)
    np.testing.assert_array_equal(inputs.array, apart.array)
    np.testing.assert_array_equal(inputs.names, apart.names)
    assert inputs.schema == apart.schema
    pd.testing.assert_frame_equal(table.frame, read_table(wide, keep_ids=True, pi=["annotator", "seconds"]).frame)
    assert not source._kept


@needs_proc
def test_annotators_by_another_name_take_no_pass_of_their_own(wide, monkeypatch):
    pd.read_csv(wide).rename(columns={"annotator": "completed by"}).to_csv(wide, index=False)
    with at_most(2, wide, monkeypatch):
        source, table, inputs = read_both(wide, pi=["seconds", "completed by"])
    assert table.pi_columns == ["seconds", "annotator"]
    assert len(inputs) == 15_000
    assert not source._kept


@needs_proc
def test_inputs_of_a_file_of_their_own(wide, monkeypatch):
    pd.read_csv(wide)[["item", *FEATURES]].drop_duplicates("item").to_csv(wide, index=False)
    with at_most(2, wide, monkeypatch):
        assert len(load_inputs(wide).names) == 15_000


def test_the_command_streams_its_table_twice(wide, monkeypatch):
    frame = pd.read_csv(wide).head(400).rename(columns={"note": "note: long"})
    frame.to_csv(wide, index=False)
    streams = []

    def counted(real):
        return lambda file, *given: streams.append(file.name) or real(file, *given)

    for name in ("_blocks", "scan"):  # to check its quotes, and to parse it
        monkeypatch.setattr(CsvFile, name, counted(getattr(CsvFile, name)))
    options = ["--x-columns", ",".join(FEATURES), "--pi", "annotator,seconds:duration,note: long", "--keep-ids"]
    training = ["--method", "ce", "--epochs", "1", "--accelerator", "cpu"]
    code, _, err = run_cli(["fit", wide, *options, *training, "--out", wide.parent / "run"])
    assert code == 0, err
    assert streams == [str(wide)] * 2


def test_a_column_that_is_pi_and_input_is_read_both_ways(wide):
    source, table, inputs = read_both(wide, ["f0", "f1"], pi=["f0"])
    frame = pd.read_csv(wide, dtype=str)[["f0", "f1"]].map(float)  # pandas 2 parses floats to the last digit but one
    np.testing.assert_array_equal(table.frame["f0"], frame["f0"])
    np.testing.assert_array_equal(inputs.array, frame[::2].astype(np.float32))
    assert not source._kept


def test_what_nobody_expects_is_not_kept(wide):
    source = open_source(wide)
    source.expect(["item", "f0", "nothing"], numeric=["f0"])
    column = source.read(["label"])["label"]
    assert list(source._kept) == [("item", False), ("f0", True)]
    assert len(column) == len(source.read(["f0"], numeric=["f0"])["f0"]) == 30_000
    assert list(source._kept) == [("item", False)]
    assert source.read(["f0"])["f0"].type == "string"  # expected as numbers, and read as text
    assert source.read(["item"])["item"][3].as_py() == "1"
    assert not source._kept


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_column_comes_in_parts_whatever_the_length_of_its_records(tmp_path, quote):
    lengths = [10, 600_000, 5, 3_000_000, 7, 1_100_000, 3] * 5
    cells = [f"{number}{'x' * length}" for number, length in enumerate(lengths)]
    rows = "".join(f"{number},{quote}{cell}{quote}\n" for number, cell in enumerate(cells))
    (tmp_path / "long.csv").write_text("item,text\n" + rows)
    parts = [*open_source(tmp_path / "long.csv").batches("text")]
    assert len(parts) > 1
    assert [value for part in parts for value in part.to_pylist()] == cells
