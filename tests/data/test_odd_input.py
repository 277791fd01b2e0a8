"""Odd input: read as it is meant where that is clear, and refused in one sentence where it is not."""

import csv
import gzip
import io
import json
import os
import re
import socket
import uuid
import warnings
import zipfile
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import change, fit, refused, refused_and_nothing_written, run_cli, write_pictures
from PIL import Image

from pidual.cli.job import name_and_kind
from pidual.cli.options import names, unquoted
from pidual.data import AnnotationTable, images, keys, load_inputs, open_source, read_table, x_rows
from pidual.data.pi import PIEncoder
from pidual.data.sources.json_lines import MAX_DEPTH
from pidual.errors import DataError, DataWarning, UsageError
from pidual.errors.messages import listed, printable, quoted
from pidual.files import plain_cell, plain_cells, write_csv
from pidual.options.launcher import Place, is_first_process, place_among_processes
from pidual.run.predictions import Predictions, read_frame

pytestmark = pytest.mark.shapes_unchecked


def fitted(folder, *options, **files):
    """Fit, and return the predictions and what was said."""
    code, _, err = fit(folder, "--quiet", *options, **files)
    assert code == 0, err
    return read_frame(folder / "run" / "predictions.parquet"), err


def unreadable(read, *parts, error=DataError):
    """Check that a reader refuses what it is given, in one sentence with these parts."""
    with pytest.raises(error) as caught:
        read()
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    assert [part for part in parts if part not in said] == [], said
    return said


# --- arrays ---


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i2", ">u8", "float128", "float16", "uint64", "bool"])
def test_arrays_of_any_number_type_are_read_alike(crowd_files, kind):
    if kind == "float128" and not hasattr(np, "float128"):
        pytest.skip("this machine has no longer floats than float64")
    x = (np.load(crowd_files / "x.npy") * 8).round().clip(0)
    np.save(crowd_files / "x.npy", x.astype(kind))
    wanted = x.astype(kind).astype(np.float64)
    np.testing.assert_array_equal(load_inputs(crowd_files / "x.npy").array.astype(np.float64), wanted)


@pytest.mark.parametrize(
    ("value", "kind", "parts"),
    [
        (1e300, np.float64, ["row 7, column 2", "1e+300", "3.4e38", "scale"]),
        (-1e39, np.float64, ["row 7, column 2", "-1e+39"]),
        (1e300, np.longdouble, ["row 7, column 2", "1e+300"]),
        (np.inf, np.float16, ["row 7, column 2", "inf", "replace"]),
    ],
)
def test_numbers_beyond_single_precision(crowd_files, value, kind, parts):
    x = np.load(crowd_files / "x.npy").astype(kind)
    x[7, 2] = value
    np.save(crowd_files / "x.npy", x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unreadable(lambda: load_inputs(crowd_files / "x.npy"), *parts)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage that is not an array",
        b"\x93NUMPY",
        npy(np.ones((60, 4)))[:-10],
        npy(np.array([[1, "a"]], object)),
        npy(np.ones((60, 4))).replace(b"(60, 4)", b"(6\xff,  4)"),
        npy(np.ones((60, 4))).replace(b"(60, 4)", b"((((((("),
        npy(np.ones((60, 4))).replace(b"'<f8'", b"'<zz'"),
        npy(np.ones((60, 4))).replace(b"'shape'", b"'shxpe'"),
    ],
    ids=range(9),
)
def test_files_that_are_no_arrays(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    said = unreadable(
        lambda: load_inputs(tmp_path / "x.npy"), "x.npy", "cannot be read as a plain NumPy file", "numpy.save"
    )
    assert "pickle" not in said  # NumPy's advice would have the user run what is in the file


def archive(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content if isinstance(content, bytes) else npy(content))


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        (np.zeros((60, 2)), ["'item'", "(60, 2)"]),
        (np.array(5), ["'item'", "()"]),
        (np.zeros(60, complex), ["'item'", "complex128"]),
        (np.zeros(60, [("a", "i4")]), ["'item'"]),
        (np.array([b"a\xff%d" % i for i in range(60)]), ["'item'", "not UTF-8"]),
        (np.frombuffer(b"\xff\xff\xff\x7f" * 60, "<U1"), ["'item'", "not UTF-8"]),
        (np.array([f"\ud800{i}" for i in range(60)]), ["'item'", "not UTF-8"]),
        (b"this is not an array", ["item is not an array"]),
        (np.arange(50), ["60 rows in 'x' and 50 in 'item'"]),
    ],
    ids=range(9),
)
def test_names_of_inputs_that_are_none(tmp_path, item, parts):
    name = "item.npy" if not isinstance(item, bytes) else "item"
    archive(tmp_path / "x.npz", {"x.npy": np.ones((60, 4)), name: item})
    unreadable(lambda: load_inputs(tmp_path / "x.npz"), "x.npz", *parts)


def test_archives_that_cannot_be_read(tmp_path):
    path = tmp_path / "x.npz"
    archive(path, {"x.npy": np.ones((60, 4))})
    whole = path.read_bytes()
    local, central = whole.index(b"PK\x03\x04"), whole.index(b"PK\x01\x02")

    def with_bytes(offset, new):
        changed = bytearray(whole)
        changed[local + offset : local + offset + 2] = changed[central + offset + 2 : central + offset + 4] = new
        return bytes(changed)

    for content, part in [
        (with_bytes(6, b"\x01\x00"), "encrypted"),
        (with_bytes(8, b"\x63\x00"), "compression"),
        (whole[:-30], "zip"),
        (whole.replace(b"(60, 4)", b"(10**9,"), "x.npz"),
    ]:
        path.write_bytes(content)
        unreadable(lambda: load_inputs(path), "x.npz", part, "numpy.save")
    archive(path, {"x.npy": npy(np.ones((60, 4))).replace(b"(60, 4), }" + b" " * 12, b"(10000000000000, 400), }"[:22])})
    unreadable(lambda: load_inputs(path), "x.npz", "numpy.save")
    archive(path, {"x": b"text"})
    unreadable(lambda: load_inputs(path), "x is not an array")


# --- images ---


@pytest.fixture
def pictures(tmp_path):
    write_pictures(tmp_path)
    return tmp_path


def read_pictures(folder, **options):
    """Read the pictures, and join them with their table."""
    return x_rows(load_inputs(folder / "pictures", **options), read_table(folder / "pictures.csv"))


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 12 12\n%%EndComments\n12 12 scale\nshowpage\n%%EOF\n"


def test_no_image_starts_another_program(pictures, monkeypatch):
    program = pictures / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {pictures}/started\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None, raising=False)  # what it found before
    (pictures / "pictures" / "p03.png").write_bytes(EPS)
    for size in (None, 8):
        unreadable(lambda size=size: read_pictures(pictures, image_size=size), "p03.png", "cannot be read as an image")
    monkeypatch.setattr(images, "MAX_BYTES", 1)
    with pytest.raises(DataError, match=r"p03\.png cannot be read"):
        load_inputs(pictures / "pictures", max_bytes=1)
    assert not (pictures / "started").exists()


@pytest.mark.parametrize("kind", ["TIFF", "ICO", "PPM", "TGA", "PCX", "SGI", "DDS", "ICNS"])
def test_images_of_formats_that_are_not_listed(pictures, kind):
    Image.new("RGB", (16, 16)).save(pictures / "pictures" / "p03.png", kind)
    unreadable(lambda: read_pictures(pictures), "p03.png", "cannot be read as an image")


def test_images_that_are_no_regular_files(pictures):
    path = pictures / "pictures" / "p03.png"
    path.unlink()
    os.mkfifo(path)
    unreadable(lambda: read_pictures(pictures), "p03.png", "not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    unreadable(lambda: read_pictures(pictures), "p03.png", "not a regular file")
    path.unlink()
    path.symlink_to(pictures / "nothing.png")
    unreadable(lambda: read_pictures(pictures), "p03.png", "a link to a file that does not exist")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
        unreadable(lambda: read_pictures(pictures), "p03.png", "not a regular file")


def test_a_pipe_in_the_place_of_a_table_or_an_array(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.npy")
    for read, name, what in [
        (read_table, "pipe.csv", "pipe.csv is not a regular file"),
        (load_inputs, "pipe.npy", "pipe.npy is not a regular file"),
        (load_inputs, "a" * 5000, "is not a path"),
    ]:
        unreadable(lambda read=read, name=name: read(tmp_path / name), what, error=UsageError)


def test_images_with_too_many_pixels(pictures, monkeypatch):
    for size in [
        (7100, 7100),
        (9500, 9500),
        (20_000, 20_000),
    ]:  # the second is over Pillow's warning, the third its error
        Image.new("1", size).save(pictures / "pictures" / "p03.png")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            unreadable(
                lambda: read_pictures(pictures, image_size=8), "p03.png", "50 million pixels", "shrink it", "thumbnail"
            )
    with pytest.raises(DataError, match="million pixels"):
        load_inputs(pictures / "pictures", image_size=8, max_bytes=1)
    monkeypatch.setattr(images, "MAX_PIXELS", 144)
    Image.new("RGB", (12, 12)).save(pictures / "pictures" / "p03.png")
    assert len(load_inputs(pictures / "pictures")) == 24


def test_a_size_of_images_that_no_memory_holds(pictures):
    parts = ("100000x100000", "--image-size", "224")
    unreadable(lambda: read_pictures(pictures, image_size=100_000), *parts, error=UsageError)


def test_names_of_images_that_are_not_utf8(pictures):
    os.rename(pictures / "pictures" / "p03.png", os.fsencode(pictures / "pictures") + b"/b\xe4r.png")
    unreadable(lambda: read_pictures(pictures), "name is not UTF-8", "b\\udce4r.png", "rename it")


# --- Parquet ---


def parquet(folder, **columns):
    """labels.parquet with 180 rows, some of its columns replaced."""
    frame = pd.read_csv(folder / "labels.csv")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name, column in columns.items():
        table = (
            table.set_column(table.column_names.index(name), name, column)
            if name in frame
            else table.append_column(name, column)
        )
    pq.write_table(table, folder / "labels.parquet")
    return folder


def not_utf8(values):
    """An Arrow array of strings with these bytes, unchecked."""
    column = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers())


UUIDS = [uuid.UUID(int=i * 2**64 + 2**127) for i in range(60)]


@pytest.mark.parametrize("kind", ["binary", "fixed", "uuid"])
def test_uuids_name_items_and_annotators(crowd_files, kind):
    types = {"binary": pa.binary(), "fixed": pa.binary(16), "uuid": pa.uuid()}
    ids = pa.array([UUIDS[i // 3].bytes for i in range(180)], types[kind])
    people = pa.array([UUIDS[i % 6].bytes for i in range(180)], types[kind])
    table = read_table(parquet(crowd_files, item=ids, annotator=people) / "labels.parquet")
    written = UUIDS[1].hex if kind != "uuid" else str(UUIDS[1])
    assert table.frame["item"].iloc[3] == written
    assert table.frame["annotator"].nunique() == 6
    pq.write_table(
        pa.table({"item": pa.array([one.bytes for one in UUIDS], types[kind]), "a": np.arange(60.0) % 7}),
        crowd_files / "x.parquet",
    )
    assert load_inputs(crowd_files / "x.parquet").names[1] == written


def test_bytes_that_are_text_and_bytes_that_are_none(crowd_files):
    change(crowd_files, lambda frame: frame.drop(columns="y"))
    labels = [name.encode() for name in pd.read_csv(crowd_files / "labels.csv")["label"]]
    folder = parquet(crowd_files, label=pa.array(labels, pa.large_binary()))
    assert read_table(folder / "labels.parquet").classes == ["cat", "dog", "owl"]
    labels = [label.replace(b"cat", b"c\xe4t").replace(b"owl", b"kauz") for label in labels]
    folder = parquet(crowd_files, label=pa.array(labels, pa.binary()))
    with pytest.warns(DataWarning, match=r"column 'label' holds bytes .* hexadecimal"):
        assert read_table(folder / "labels.parquet").classes == ["0x63e474", "0x646f67", "0x6b61757a"]


@pytest.mark.parametrize("column", ["label", "annotator", "item", "seconds"])
def test_text_in_parquet_that_is_not_utf8(crowd_files, column):
    parquet(crowd_files, **{column: not_utf8([b"x", b"y"] * 3 + [b"secret\xe4"] * 2 + [b"x", b"y"] * 86)})
    path = crowd_files / "labels.parquet"
    parts = ("row 6", f"column '{column}'", "not UTF-8")
    assert "secret" not in unreadable(lambda: read_table(path, pi=["annotator", "seconds"]), *parts)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**64 - 1 - i % 5 * 10**15 for i in range(180)], pa.uint64()),
        pa.array([2**62 + i if i % 7 else None for i in range(180)], pa.int64()),
        pa.array([10**17 + i for i in range(180)], pa.int64()).cast(pa.duration("s")),
        pa.array([i % 5 for i in range(180)], pa.int64()).cast(pa.duration("ms")),
        pa.array([10**17 + i for i in range(180)], pa.int64()).cast(pa.timestamp("ms")),
        pa.array([i % 9 for i in range(180)], pa.int32()).cast(pa.time32("s")),
        pa.array([i % 5 for i in range(180)], pa.int64()).cast(pa.decimal256(40, 3)),
        pa.array([b"\xff\x00" if i % 2 else b"\xfe" for i in range(180)], pa.binary()).dictionary_encode(),
        pa.array([["a", "b"][i % 2] for i in range(180)], pa.string_view()),
        pa.array(np.arange(180, dtype=np.float16)),
        pa.array([bool(i % 2) for i in range(180)]).cast(pa.int8()),
    ],
    ids=lambda column: str(column.type),
)
def test_types_of_pi_that_few_files_have(crowd_files, column):
    try:
        parquet(crowd_files, seconds=column)
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow writes no such file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        table = read_table(crowd_files / "labels.parquet", pi=["annotator", "seconds"])
        encoded = PIEncoder().fit(table).transform(table)
    assert np.isfinite(encoded.numbers).all()
    assert encoded.codes.shape[1] + encoded.numbers.shape[1] >= 2


def test_frames_of_any_order_of_bytes():
    frame = pd.DataFrame(
        {"label": ["a", "b"] * 4, "time": np.arange(8, dtype=">f8"), "long": np.arange(8, dtype=np.longdouble)}
    )
    table = AnnotationTable.from_frame(frame, pi=["time", "long"])
    assert table.frame["time"].tolist() == table.frame["long"].tolist() == list(range(8))
    with pytest.raises(DataError, match="surrogate"):
        AnnotationTable.from_frame(frame.assign(label=pd.Series(["a", "\ud800"] * 4, dtype=object)))


# --- text files ---


def test_a_cell_of_any_length_does_not_hide_an_error(crowd_files):
    change(crowd_files, lambda frame: frame.assign(text=["word " * 30_000, *["short"] * 179]))
    text = (crowd_files / "labels.csv").read_text().splitlines()
    text[5] = text[5].replace("cat", "None").replace("dog", "None").replace("owl", "None")
    (crowd_files / "labels.csv").write_text("\n".join(text))
    unreadable(lambda: read_table(crowd_files / "labels.csv"), "line 6", "label is missing")
    assert csv.field_size_limit() >= 16 << 20


def nested(depth):
    return '{"item": %d, "label": "cat", "deep": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def test_json_nested_too_deeply(tmp_path):
    path = tmp_path / "deep.jsonl"
    plain = '{"item": 1, "label": "cat", "deep": null}\n'
    path.write_text(plain * 3 + nested(MAX_DEPTH + 1) % 4 + "\n")
    with pytest.raises(DataError, match=rf"line 4 .* more than {MAX_DEPTH} deep"):
        open_source(path)
    path.write_text(plain + nested(10_000) % 2 + "\n{broken\n")
    with pytest.raises(DataError, match=r"line 2 .* deep"):
        open_source(path)
    path.write_text('{"item": 1, "label": "cat", "deep": ' + "[\n" * 10_000 + "]" * 10_000 + "}\n")
    with pytest.raises(DataError, match="deep"):
        open_source(path)
    text = "[[{" * 1000
    path.write_text(f'{{"item": 1, "label": "{text}", "note": "a \\" {text}"}}\n' * 3)
    assert open_source(path).columns == ["item", "label", "note"]
    path.write_text(nested(MAX_DEPTH) % 1 + "\n")
    assert open_source(path).columns == ["item", "label", "deep"]


WHOLE = gzip.compress(b"a,b\n" + np.random.default_rng(0).bytes(3000).hex().encode() + b",1\n")


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00" + b"\x00" * 30, b"no gzip", b"", WHOLE[: len(WHOLE) // 2]])
@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz"])
def test_gzip_that_is_none(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    unreadable(lambda: read_table(tmp_path / name), name)


# --- messages ---


def test_the_guard_is_not_advised_where_it_is_on(crowd_files):
    options = ("--method", "ce", "--epochs", "2", "--lr", "1e30", "--set", "clip=none", "--quiet")
    code, _, err = fit(crowd_files, *options, "--set", "guard=recover")
    assert code == 1
    assert "Training has diverged" in err
    assert "guard=recover" not in err


@pytest.mark.parametrize(
    "option", ["network.in_shape=3", "network.n_classes=3", "network.standardize=1", "network.name=mlp"]
)
def test_what_the_data_decides_is_no_option(crowd_files, option):
    answer = fit(crowd_files, "--network", "mlp", "--set", option)
    refused_and_nothing_written(crowd_files, answer, 2, option.split("=")[0], "leave it out")


@pytest.mark.parametrize(
    "value", ["1" * 5000, "[" * 100_000, "1e400", "NaN", "-Infinity", '{"a": 1}', "\x00", "\ud800"]
)
def test_values_of_options_that_cannot_be(crowd_files, value):
    for name in ("lr", "width", "network.width"):
        answer = fit(crowd_files, "--network", "mlp", "--set", f"{name}={value}")
        refused_and_nothing_written(crowd_files, answer, 2, name.removeprefix("network."))


def test_too_little_memory_is_one_sentence(crowd_files, monkeypatch):
    with pytest.raises(MemoryError) as too_large:
        np.empty(2**57)
    for error, part in [
        (MemoryError(), "none is left"),
        (too_large.value, "Unable to allocate"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"), "alloc_cpu"),
    ]:
        monkeypatch.setattr("pidual.api.fit.prepare", mock.Mock(side_effect=error))
        refused_and_nothing_written(crowd_files, fit(crowd_files), 1, "not enough memory", part, "--batch-size")
    monkeypatch.setattr("pidual.api.fit.prepare", mock.Mock(side_effect=RuntimeError("a fault of ours")))
    with pytest.raises(RuntimeError, match="a fault of ours"):
        fit(crowd_files)


def test_quoted_and_listed():
    assert quoted(np.int64(-4)) == "-4"
    assert quoted("a\x1bb") == "'a\\x1bb'"
    assert quoted("x" * 10**7) == "'" + "x" * 56 + "..."
    assert quoted("x" * 58) == "'" + "x" * 58 + "'"
    assert listed(["a", "b" * 1000, "c"], 2) == "a, " + "b" * 57 + "... and 1 more"


# --- names with commas and colons ---


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        (" a , b ,", ["a", "b"]),
        ("", []),
        ('"time, s":duration,annotator', ['"time, s":duration', "annotator"]),
        ('"a","b ""c"", d"', ['"a"', '"b ""c"", d"']),
        ('5" disk,b" x', ['5" disk', 'b" x']),
        ('"open,b', ['"open', "b"]),
    ],
)
def test_lists_of_names(text, parts):
    assert names(None, None, text) == parts
    assert names(None, None, ",".join(parts)) == parts


def test_names_without_their_quotes():
    assert unquoted('"time, s":duration') == ("time, s", "duration")
    assert unquoted('"b ""c"", d"') == ('b "c", d', "")
    assert unquoted("a:b") == ("a:b", "")


ODD = {"seconds": "time, s", "annotator": "who: id"}


@pytest.mark.parametrize(
    ("pi", "kinds"),
    [
        ('"time, s"', [("time, s", "")]),
        ('"time, s":raw:1.5:2', [("time, s", "raw:1.5:2")]),
        ("seconds:raw:1.5:2", [("seconds", "raw:1.5:2")]),
        ('"time, s":duration,"who: id"', [("time, s", "duration"), ("who: id", "")]),
        ("who: id", [("who: id", "")]),
        ("who: id:category", [("who: id", "category")]),
    ],
)
def test_columns_with_commas_and_colons_are_pi(crowd_files, pi, kinds):
    change(crowd_files, lambda frame: frame.rename(columns=ODD).assign(**{"who: id": [*"abc"] * 60}))
    given = [name_and_kind(open_source(crowd_files / "labels.csv"), part) for part in names(None, None, pi)]
    assert [(name, kind or "") for name, kind in given] == [(name, kind) for name, kind in kinds]
    if len(kinds) == 2:
        fitted(crowd_files, "--pi", pi)
        found = json.loads((crowd_files / "run" / "config.json").read_text())["data"]["pi"]
        assert [(column["name"], column["kind"]) for column in found] == [kinds[0], (kinds[1][0], "category")]


def test_columns_with_commas_are_inputs(crowd_files):
    frame = pd.DataFrame(np.load(crowd_files / "x.npy"), columns=["a,b", 'say "c"', "d:e", "f"])
    frame.assign(item=frame.index).to_csv(crowd_files / "x.csv", index=False)
    fitted(crowd_files, "--x-columns", '"a,b","say ""c""",d:e', x="x.csv")
    code, out, err = run_cli(["predict", crowd_files / "run", crowd_files / "x.csv"])
    assert code == 0, err
    assert len(out.splitlines()) == 61
    answer = fit(crowd_files, "--force", "--x-columns", "a,b", x="x.csv")
    refused(answer, 2, "no column 'a'", "did you mean 'a,b'", "double quotes")


# --- several processes ---

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
TORCHRUN |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, Place()),
        ({"RANK": "1"}, Place()),
        ({"WORLD_SIZE": "abc"}, Place()),
        ({"WORLD_SIZE": "4", "RANK": "1", "LOCAL_RANK": "1"}, Place()),
        ({"WORLD_SIZE": "2", "RANK": "3"}, Place()),
        (TORCHRUN, Place(1, 4, 1, 2)),
        ({name: value for name, value in TORCHRUN.items() if not name.startswith("LOCAL")}, Place(1, 4, 0, 1)),
    ],
)
def test_a_process_is_one_of_several_only_by_all_variables(monkeypatch, variables, place):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert place_among_processes() == place
    assert is_first_process() == (place.rank == 0)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE is 'abc'"),
        ({"RANK": "-1"}, "RANK is '-1'"),
        ({"RANK": "4"}, "RANK=4, WORLD_SIZE=4"),
        ({"LOCAL_WORLD_SIZE": "8"}, "LOCAL_WORLD_SIZE=8"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2"),
    ],
)
def test_variables_of_a_launcher_that_cannot_be(crowd_files, monkeypatch, change, part):
    for name, value in (TORCHRUN | change).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=part):
        place_among_processes()
    refused_and_nothing_written(crowd_files, fit(crowd_files), 2, part, "torchrun")


# --- terminals and spreadsheets ---

HOSTILE = "\x1b[31mred\x1b[0m\x07\x9b\u202eevil\u2066"


def test_printable():
    assert printable(HOSTILE) == "\\x1b[31mred\\x1b[0m\\x07\\x9b\\u202eevil\\u2066"
    assert printable("a\nb\tc") == "a\\nb\\tc"
    assert printable("a\nb", keep="\n") == "a\nb"
    assert printable("\udce4") == "\\udce4"
    assert printable("naïve, 日本, עברית, 👩‍🔬") == "naïve, 日本, עברית, 👩‍🔬"


def test_nothing_from_data_reaches_a_terminal_raw(crowd_files):
    change(crowd_files, lambda frame: frame.rename(columns={"seconds": f"s{HOSTILE}s", "y": "z"}))
    for options in [["--label", "nothing"], ["--pi", HOSTILE], ["--set", f"{HOSTILE}=1"], [f"--{HOSTILE}"], [HOSTILE]]:
        code, out, err = fit(crowd_files, *options)
        assert code == 2, err
        assert out == ""
        assert not set(err) & set(HOSTILE) - set(map(chr, range(32, 127)))
        assert err.strip().splitlines()[-1].startswith("Error: ")
    labels = [f"={HOSTILE}", f"b{HOSTILE}"] * 90
    change(crowd_files, lambda frame: frame.assign(label=labels, **{f"s{HOSTILE}s": 1}))
    _, err = fitted(crowd_files, "--pi", f"annotator,s{HOSTILE}s")
    assert "Warning: PI column 's\\x1b[31m" in err
    assert not set(err) & set(HOSTILE) - set(map(chr, range(32, 127)))
    page = (crowd_files / "run" / "report.html").read_text()
    assert not set(page) & {"\x1b", "\u202e", "\u2066", "\x9b"}
    assert "\\u202eevil" in page
    with mock.patch("pidual.cli.common.is_terminal", return_value=True):
        _, out, _ = run_cli(["detect", crowd_files / "run", "--budget", 5])
    assert "\\x1b[31mred" in out
    assert not set(out) & {"\x1b", "\u202e", "\u2066", "\x9b", "\r"}


FORMULAS = ["=1+1", "+SUM(A1)", "-A1", "@x", "\tx", "\rx", "'=1", "''-x"]
HARMLESS = ["cat", "1", "-4", "+1.5e3", "-.5", "'tis", "", " =1", "a=b"]


def test_formulas_become_text_and_text_stays():
    assert [plain_cell(text) for text in FORMULAS] == ["'" + text for text in FORMULAS]
    assert [plain_cell(text) for text in HARMLESS] == HARMLESS
    frame = pd.DataFrame(
        {"number": [-1.5, 2.0], "text": ["=1+1", None], "=name": pd.Categorical(["-x", "y"]), "mixed": [-3, "@a"]}
    )
    found = plain_cells(frame)
    assert found.columns.tolist() == ["number", "text", "'=name", "mixed"]
    assert found["number"].tolist() == [-1.5, 2.0]
    assert found["text"].iloc[0] == "'=1+1"
    assert pd.isna(found["text"].iloc[1])
    assert found["'=name"].tolist() == ["'-x", "y"]
    assert found["mixed"].tolist() == [-3, "'@a"]
    assert frame["text"].iloc[0] == "=1+1"  # the frame itself is as it was


@pytest.mark.parametrize(
    "frame", [pd.DataFrame({"a": ["r\rr", "x"]}), pd.DataFrame({"a\rb": pd.Categorical(["x", "y"])})]
)
def test_carriage_returns_stay_in_their_cell(frame):
    header, *rows = csv.reader(io.StringIO(write_csv(frame), newline=""))
    assert header == list(frame.columns)
    assert rows == [[cell] for cell in frame.iloc[:, 0]]
    assert write_csv(pd.DataFrame({"a": ["x"]})) == "a\nx\n"


def test_tables_for_people_hold_no_formula_and_can_be_read_again(crowd_files):
    x = np.load(crowd_files / "x.npy")
    classes = {"cat": "=1+1", "dog": "-x", "owl": "'=y"}
    change(
        crowd_files,
        lambda f: f.assign(label=f["label"].map(classes), y=f["y"].map(classes), item="@" + f["item"].astype(str)),
    )
    np.savez(crowd_files / "x.npz", x=x, item=[f"@{i}" for i in range(60)])
    predictions, _ = fitted(crowd_files, x="x.npz")
    known = {*predictions["given_label"].cat.categories}
    assert known == {"=1+1", "-x", "=y"}  # one apostrophe is a spreadsheet's
    predict, path = ["predict", crowd_files / "run", crowd_files / "x.npz"], crowd_files / "out.csv"
    for words in (["detect", crowd_files / "run", "--budget", 30], [*predict, "--out", path]):
        code, text, err = run_cli(words)
        assert code == 0, err
        if "--out" not in words:
            path.write_text(text)
        with path.open(newline="") as lines:
            for row in csv.reader(lines):
                texts = [cell for cell in row if not re.fullmatch(r"-?[\d.]+(e-\d+)?", cell)]
                assert not [cell for cell in texts if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
        source = open_source(path)
        for column, names_ in (("item", {f"@{i}" for i in range(60)}), ("predicted_label", known)):
            assert {*keys(source, column, source.read([column])[column]).names.to_pylist()} <= names_
    frame = pd.read_csv(path).rename(columns={"predicted_label": "y"})[["item", "y"]]
    frame.to_csv(crowd_files / "y.csv", index=False)  # answers can be given as the clean labels of another
    code, text, err = run_cli([*predict, "--y", crowd_files / "y.csv"])
    assert "accuracy 1.0000" in text, err


# --- PI with names of our own columns ---


def test_pi_columns_named_like_those_of_predictions(crowd_files):
    change(
        crowd_files,
        lambda f: f.assign(gate=f["seconds"], pi_gate=f["seconds"] * 2, pi_pi_gate=[*"ab"] * 90, reason=[*"abc"] * 60),
    )
    predictions, _ = fitted(crowd_files, "--pi", "annotator,gate,pi_gate,pi_pi_gate,reason")
    own = pd.read_csv(crowd_files / "labels.csv")
    np.testing.assert_allclose(predictions["pi_gate"], own["pi_gate"])
    np.testing.assert_allclose(predictions["pi_pi_pi_gate"], own["gate"])
    assert predictions["pi_pi_gate"].astype(str).tolist() == own["pi_pi_gate"].tolist()
    assert predictions["pi_reason"].astype(str).tolist() == own["reason"].tolist()
    assert predictions["gate"].between(0, 1).all()
    assert run_cli(["report", crowd_files / "run"])[0] == 0
    assert Predictions.read(crowd_files / "run" / "predictions.parquet").pi_columns[:2] == ["pi_pi_pi_gate", "pi_gate"]
