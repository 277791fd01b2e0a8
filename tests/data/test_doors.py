"""One reader for all doors: files, folders, patterns, addresses, and tables in memory that speak Arrow."""

import functools
import gzip
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_cli

from pidual import (
    CrowdClassifier,
    PiDualClassifier,
    UsageError,
    find_label_issues,
    fit_table,
    judge,
    load_inputs,
    read_table,
)
from pidual.data import key_path, open_source, read_truth
from pidual.data.paths import beside
from pidual.errors import DataError, PidualError

fsspec = pytest.importorskip("fsspec")
FRAME = pd.DataFrame(
    {
        "item": [f"i{k // 2}" for k in range(40)],
        "label": ["cat", "dog"] * 20,
        "annotator": [f"w{k % 4}" for k in range(40)],
        "seconds": np.arange(40) / 4,
    }
)


def write_parts(folder, ending, frame=FRAME, first=20):
    """Two parts of the table, and what Spark writes beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in {"a": frame[:first], "b": frame[first:]}.items():
        path = folder / f"{name}{ending}"
        if ending.startswith(".parquet"):
            part.to_parquet(path)
        elif ending.startswith(".json"):
            part.to_json(path, orient="records", lines=True)
        else:
            part.to_csv(path, index=False)
    (folder / "_SUCCESS").touch()
    (folder / ".a.crc").write_bytes(b"\0")
    return folder


def check(source):
    table = read_table(source, pi=["annotator", "seconds"], keep_ids=True)
    frame = table.frame.astype({"item": str, "label": str, "annotator": str})
    pd.testing.assert_frame_equal(frame[[*FRAME]], FRAME.astype(dict(frame.dtypes[[*FRAME]])))


ENDINGS = [".csv", ".csv.gz", ".parquet", ".jsonl", ".json.gz"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_a_pattern_and_an_address(tmp_path, ending):
    folder = write_parts(tmp_path / "parts", ending)
    memory = fsspec.filesystem("memory")
    name = f"/doors{ending}"
    memory.rm(name, recursive=True) if memory.exists(name) else None
    memory.put(str(folder), name, recursive=True)
    places = [folder, f"{folder}/*{ending}", f"{tmp_path}/*/[ab]{ending}", f"file://{folder}", f"memory:/{name}"]
    for place in [*places, f"memory:/{name}/*{ending}"]:
        check(place)
    one = read_table(f"memory:/{name}/a{ending}", keep_ids=True)
    assert len(one) == 20
    assert one.source == f"memory:/{name}/a{ending}"


def test_a_message_names_the_part_the_line_and_the_column(tmp_path):
    folder = write_parts(tmp_path / "parts", ".csv")
    lines = (folder / "b.csv").read_text().splitlines()
    lines[3] = lines[3].replace("cat", "")
    (folder / "b.csv").write_text("\n".join(lines))
    with pytest.warns(match=r"1 row without a label is skipped \(first: .*b\.csv, line 4, column 'label'"):
        assert len(read_table(folder, keep_ids=True)) == 39
    lines[5] = "i1,cat"
    (folder / "b.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"b\.csv, line 6 has 2 cells where the header has 4"):
        read_table(folder, keep_ids=True)


def test_parts_must_be_of_one_table(tmp_path):
    folder = write_parts(tmp_path / "parts", ".parquet")
    FRAME.drop(columns="seconds").to_parquet(folder / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet has no column 'seconds', which .*a\.parquet has"):
        open_source(folder)
    FRAME.assign(seconds="slow").to_parquet(folder / "b.parquet")
    with pytest.raises(DataError, match=r"column 'seconds' is double in .*a\.parquet and .*string in .*b\.parquet"):
        read_table(folder, pi=["seconds"])
    FRAME.to_csv(folder / "c.csv", index=False)
    with pytest.raises(UsageError, match=r"files of several kinds .* give a pattern, such as '\*\.csv'"):
        open_source(folder)


def test_lines_without_a_column_lack_its_values(tmp_path):
    folder = write_parts(tmp_path / "parts", ".jsonl")
    FRAME[20:].drop(columns="seconds").to_json(folder / "b.jsonl", orient="records", lines=True)
    found = read_table(folder, pi=["seconds"], keep_ids=True).frame["seconds"]
    assert found[:20].tolist() == FRAME["seconds"][:20].tolist()
    assert found[20:].isna().all()
    assert open_source(folder).place(25).endswith("b.jsonl, line 6")


def test_columns_in_the_names_of_folders(tmp_path):
    for split, part in {"train": FRAME[:30], "test": FRAME[30:]}.items():
        (tmp_path / "run=3" / "t" / f"split={split}").mkdir(parents=True)
        part.to_parquet(tmp_path / "run=3" / "t" / f"split={split}" / "0.parquet")
    for place in (tmp_path / "run=3" / "t", tmp_path / "run=3" / "t" / "*" / "*.parquet"):
        table = read_table(place, keep_ids=True)
        assert table.frame["split"].value_counts().to_dict() == {"train": 30, "test": 10, "valid": 0}
        assert "run" not in open_source(place).columns  # it is above the table


def test_a_folder_without_tables_and_a_pattern_like_nothing(tmp_path):
    with pytest.raises(UsageError, match=r"holds no table; a folder of parts has files of one kind"):
        open_source(tmp_path)
    with pytest.raises(UsageError, match=r"is like no file there"):
        open_source(tmp_path / "*.csv")
    with pytest.raises(UsageError, match=r"memory://nowhere/t\.csv does not exist; check the address"):
        open_source("memory://nowhere/t.csv")
    with pytest.raises(UsageError, match=r"nosuch://a/b\.csv cannot be opened \(Protocol not known"):
        open_source("nosuch://a/b.csv")


def test_only_the_columns_that_are_needed_are_read(tmp_path):
    long = FRAME.assign(note=[os.urandom(20_000).hex() for _ in range(40)])
    folder = write_parts(tmp_path / "parts", ".parquet", long)
    before = pa.total_allocated_bytes()
    batches = [*open_source(folder).scan(["item", "label"])]
    assert pa.total_allocated_bytes() - before < 100_000
    assert sum(map(len, batches)) == 40


def test_json_lines_whose_kinds_differ_between_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("pidual.data.sources.file.BLOCK", 64)
    lines = [{"item": k, "t": k if k < 9 else k + 0.5, "day": "2020-01-01" if k < 9 else "soon"} for k in range(20)]
    lines[15]["late"] = "x"
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    source = open_source(path)
    assert source.columns == ["item", "t", "day", "late"]
    read = {name: column.to_pylist() for name, column in source.read(source.columns).items()}
    assert read["t"] == [float(line["t"]) for line in lines]
    assert read["day"] == [line["day"] for line in lines]
    assert read["late"] == [line.get("late") for line in lines]


# --- every source through every call ---


def on_disk(ending, place="{folder}/a{ending}", copied=False):
    """Write tables to files, in two parts unless it is one file, and give their place."""

    def make(frame, folder):
        folder = folder / f"d{len(list(folder.iterdir()))}"
        write_parts(folder, ending, frame, len(frame) if "/a" in place else len(frame) // 2)
        if copied:
            fsspec.filesystem("memory").put(str(folder), f"/{folder}", recursive=True)
        return place.format(folder=folder, ending=ending)

    return make


def polars_frame(frame, _=None):
    return pytest.importorskip("polars").from_pandas(frame)


def duckdb_relation(frame, _):
    return pytest.importorskip("duckdb").connect().from_df(frame)


def hugging_face(frame, _):
    return pytest.importorskip("datasets").Dataset.from_pandas(frame)


def ray_dataset(frame, _):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init(num_cpus=1, include_dashboard=False, ignore_reinit_error=True, log_to_driver=False)
    return pytest.importorskip("ray.data").from_pandas(frame)


def spark_frame(frame, _):
    sql = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # its workers are others, if there are several on the path
    return sql.SparkSession.builder.master("local[1]").getOrCreate().createDataFrame(frame)


FILES = {
    "CSV": on_disk(".csv"),
    "JSON Lines": on_disk(".jsonl"),
    "Parquet": on_disk(".parquet"),
    "a folder of parts": on_disk(".parquet", "{folder}"),
    "a pattern (`parts/*.parquet`)": on_disk(".parquet", "{folder}/*{ending}"),
    "an address (`s3://`, here `memory://`)": on_disk(".parquet", "memory:/{folder}/*{ending}", copied=True),
}
MAKERS = {
    "pandas": lambda frame, _: frame,
    "pyarrow table": lambda frame, _: pa.Table.from_pandas(frame),
    "pyarrow reader": lambda frame, _: pa.Table.from_pandas(frame).to_reader(max_chunksize=7),
    "polars": polars_frame,
    "polars, lazy": lambda frame, _: polars_frame(frame).lazy(),
    "DuckDB relation": duckdb_relation,
    "Hugging Face dataset": hugging_face,
    "Ray dataset": ray_dataset,
    "Spark frame": spark_frame,
}
SOURCES = FILES | MAKERS
X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"])
PROBS = pd.DataFrame({"cat": np.tile([0.9, 0.2], 20), "dog": np.tile([0.1, 0.8], 20)})
GOLD = pd.DataFrame({"item": ["i3", "i4"], "truth": ["dog", "cat"]})
LABELS, PI = FRAME["label"].to_numpy(), FRAME[["seconds"]]
IN_MEMORY = read_table(FRAME, keep_ids=True)
CALLS = {
    "read_table": lambda make: read_table(make(FRAME), pi=["annotator", "seconds"], keep_ids=True).frame.astype(str),
    "load_inputs": lambda make: load_inputs(make(X)).array,
    "judge": lambda make: judge(make(FRAME), pi=["annotator"]).predictions,
    "CrowdClassifier.fit": lambda make: CrowdClassifier().fit(make(X), LABELS, make(PI)).predict_proba(make(X)),
    "find_label_issues": lambda make: find_label_issues(LABELS, make(PROBS)),
    "read_truth": lambda make: read_truth(make(GOLD), IN_MEMORY),
}
REFUSED = {(source, call) for source in FILES for call in ("CrowdClassifier.fit", "find_label_issues")}


def doors_table():
    """The table of docs/for/scale.md."""
    rows = [["", *(f"`{call}`" for call in CALLS)], ["---"] * (len(CALLS) + 1)]
    rows += [[source, *("-" if (source, call) in REFUSED else "yes" for call in CALLS)] for source in SOURCES]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=pytest.mark.slow) if name[:3] in ("Ray", "Spa") else name for name in SOURCES]
)
def test_every_door(source, call, tmp_path):
    def through(name):
        return CALLS[call](lambda frame: SOURCES[name](frame, tmp_path))

    if (source, call) in REFUSED:
        with pytest.raises((PidualError, ValueError)):  # the latter of scikit-learn
            through(source)
        return
    with warnings.catch_warnings():
        if source.split()[0] in ("Ray", "Spark"):
            warnings.simplefilter("ignore")  # of these packages, about themselves
        found, expected = through(source), through("pandas")
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    else:
        np.testing.assert_array_equal(found, expected)


def test_the_page_has_the_table_of_doors():
    page = (Path(__file__).parents[2] / "docs" / "for" / "scale.md").read_text()
    assert doors_table() in page, f"write this into docs/for/scale.md:\n{doors_table()}"


def test_a_column_of_polars_is_y():
    polars = pytest.importorskip("polars")
    X = polars.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 3})
    fitted = PiDualClassifier(method="ce", epochs=1).fit(X, polars.Series(FRAME["label"].tolist()))
    assert fitted.classes_.tolist() == ["cat", "dog"]


def test_what_is_no_table():
    with pytest.raises(UsageError, match="not int"):
        read_table(5)
    with pytest.raises(DataError, match="gives no columns of Arrow"):
        read_table(pa.chunked_array([[1, 2]]))


# --- what may be opened, and what is said about it ---


def test_credentials_stand_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.pipe("/secret/labels.csv", FRAME.assign(x1=np.arange(40) // 2 % 3).to_csv(index=False).encode())
    opened = fsspec.core.url_to_fs
    monkeypatch.setattr(
        fsspec.core, "url_to_fs", lambda url: opened("memory://secret/" + url.partition("?")[0].rpartition("/")[2])
    )
    memory.pipe("/secret/gold.csv", b"item,truth\ni0,cat\n")
    address = "sftp://ann:Secr3t@host/labels.csv?sig=S1gnature&X-Amz-Credential=Kred"
    args = ["fit", address, "--x-columns", "x1", "--out", "run"]
    code, out, err = run_cli([*args, "--truth", address.replace("labels", "gold")])
    assert code == 0, err
    said = out + err + "".join(p.read_text(errors="replace") for p in tmp_path.rglob("*") if p.is_file())
    for secret in ("Secr3t", "S1gnature", "Kred"):
        assert secret not in said
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["source"]["table"] == "sftp://ann:***@host/labels.csv?sig=***&X-Amz-Credential=***"
    assert (tmp_path / ".pidual.key").exists()  # an address has no folder beside it


def test_an_address_in_a_run_is_not_opened_by_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.pipe("/far/labels.csv", FRAME.assign(x1=np.arange(40) // 2 % 3).to_csv(index=False).encode())
    run_cli(["fit", "memory://far/labels.csv", "--x-columns", "x1", "--out", "run"])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["source"]["table"] == "memory://far/labels.csv"
    asked = []
    opened = fsspec.core.url_to_fs
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda url, **more: asked.append(url) or opened(url, **more))
    code, _, err = run_cli(["fit", "--from", "run", "--out", "again"])
    assert code == 2, err
    assert "opened only where you give it; give it again as TABLE" in err
    code, _, err = run_cli(["export", "run", "out.csv", "--to", "csv"])
    assert code == 2, err
    assert "say where it is" in err
    assert not asked
    code, _, err = run_cli(["export", "run", "out.csv", "--to", "csv", "--table", "memory://far/labels.csv"])
    assert code == 0, err
    assert asked == ["memory://far/labels.csv"]
    assert pd.read_csv("out.csv")["item"].tolist() == FRAME["item"].tolist()
    code, _, err = run_cli(["fit", "memory://far/labels.csv", "--from", "run", "--out", "again"])
    assert "Nobody has decided" in err  # it was opened


def test_the_key_is_beside_the_table(tmp_path):
    assert beside(tmp_path / "t.csv") == tmp_path
    assert beside(tmp_path / "*" / "t*.csv") == tmp_path
    assert str(beside("s3://bucket/t.csv")) == "."


def test_a_folder_and_a_pattern_of_its_files_have_one_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_parts(tmp_path / "parts", ".parquet", FRAME)
    people = [read_table(place).frame["annotator"].astype(str).tolist() for place in ("parts/*.parquet", "parts")]
    assert people[0] == people[1] != FRAME["annotator"].tolist()
    assert (tmp_path / ".pidual.key").exists()
    assert not (tmp_path / "parts" / ".pidual.key").exists()
    (tmp_path / ".pidual.key").rename(tmp_path / "parts" / ".pidual.key")  # as versions before made it for a pattern
    for place in ("parts", "parts/*.parquet"):
        assert read_table(place).frame["annotator"].astype(str).tolist() == people[0]
    assert not (tmp_path / ".pidual.key").exists()
    (tmp_path / ".pidual.key").write_text("ab" * 32)
    (tmp_path / ".pidual.key").chmod(0o600)
    assert read_table("parts/*.parquet").frame["annotator"].astype(str).tolist() == people[0]  # its own comes first
    assert read_table("parts").frame["annotator"].astype(str).tolist() != people[0]
    assert key_path("s3://bucket/parts/*.csv") == key_path("t.csv") == Path(".pidual.key")


def test_a_folder_is_fitted_and_exported_as_one_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_parts(tmp_path / "parts", ".parquet", FRAME.assign(x1=np.arange(40) // 2 % 3))
    code, out, err = run_cli(["fit", "parts/*.parquet", "--x-columns", "x1", "--pi", "annotator", "--keep-ids"])
    assert code in (0, 1), err
    assert "runs/parts" in out  # called like the folder
    code, _, err = run_cli(["export", "runs/parts", "--to", "parquet"])
    assert code == 0, err
    assert len(pq.read_table("parts.clean.parquet")) == 40


def test_many_numbers_are_read_from_a_file_as_they_are_needed(tmp_path, monkeypatch):
    frame = pd.DataFrame({"item": [f"i{k}" for k in range(20)], "a": np.arange(20) / 8, "b": np.arange(20) % 3})
    frame["label"] = np.where(frame["a"] > 1, "dog", "cat")
    folder = write_parts(tmp_path / "parts", ".parquet", pd.concat([frame, frame.assign(item="j" + frame["item"])]))
    expected = load_inputs(f"{folder}/*.parquet")
    monkeypatch.setattr("pidual.data.features.IN_MEMORY", 50)
    found = load_inputs(f"{folder}/*.parquet")
    assert isinstance(found.array, np.memmap)
    np.testing.assert_array_equal(found.array, expected.array)
    assert found.names.tolist() == expected.names.tolist()
    assert found.digest() == expected.digest()
    table = read_table(folder, keep_ids=True)
    runs = [fit_table(table, x, tmp_path / name) for name, x in {"file": found, "memory": expected}.items()]
    assert runs[0].predictions.frame.equals(runs[1].predictions.frame)
    monkeypatch.setattr("tempfile.TemporaryFile", functools.partial(open, "/dev/full", "wb"))
    with pytest.raises(UsageError, match=r"do not fit in the temporary folder .*; free some space, or name another"):
        load_inputs(f"{folder}/*.parquet")
