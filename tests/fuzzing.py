"""Files as people have them, and as nobody should: what `test_fuzz` gives to the readers."""

import csv
import datetime
import decimal
import gzip
import io
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from PIL import Image

SPECIAL = [
    *("", " ", "NaN", "null", "=1+1", "-", "+x", "@y", "a,b", "a:b", "a;b", 'q"q', '"', "'", "l\nl", "r\rr", "t\tt"),
    *("\x00", "\x1b[31m", "\u202ex", "é", "日本", "e\u0301", "👩‍🔬", "1e5", "007", "1.0", "01"),
    *("True", "<b>&", "{{x}}", "$x$", "a/b", "\ufeff", "\\N", "../up"),
    *("2020-01-01", "2020-01-01T12:00:00Z", "x" * 300, "-1", "9" * 30, "inf", "1,5", "85%"),
]
ODD_TEXT = st.sampled_from(SPECIAL) | st.text(st.characters(codec="utf-8"), max_size=6)
NAME = st.sampled_from(["seconds", "time", "note", "device", "n", "score", "gate", "pi_gate", "row", "email", "id"])
FORMATS = [*["csv"] * 6, *["parquet"] * 5, *["jsonl"] * 3, "tsv", "txt", "csv.gz", "jsonl.gz", "ndjson"]


@dataclass
class Case:
    """A folder's files."""

    files: dict[str, bytes]
    table: str
    x: str | None = None  # the file or folder of inputs
    rows: int | None = None  # of the table; None where the file is damaged
    inputs: int | None = None  # rows of x; None where that is not known

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@st.composite
def cases(draw) -> Case:
    """A table and inputs: most of it sound, some of it not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, 5) if rng.random() < 0.1 else st.integers(8, 24))
    columns = draw(key_columns(rng, n))
    pi = draw(st.lists(pi_columns(rng, n), max_size=3, unique_by=lambda column: column[0]))
    columns |= {name: values for name, values in pi if name not in columns}
    case = Case({}, "", rows=n)
    draw(add_inputs(rng, n, columns, case))
    kind = draw(st.sampled_from(FORMATS))
    content = draw(table_file(columns, kind))
    if rng.random() < 0.12:
        content, case.rows = draw(damages())(content), None
    case.table = f"labels.{kind}"
    case.files[case.table] = content
    return case


# --- columns ---


@st.composite
def key_columns(draw, rng, n):
    """item, label, annotator, y and split, of which some may be missing."""
    classes = draw(ODD_CLASSES if rng.random() < 0.15 else CLASSES)
    codes = np.arange(n) % len(classes)
    rng.shuffle(codes)
    columns = {"label": [classes[code] for code in codes]}
    if n and rng.random() < 0.05:
        columns["label"][int(rng.integers(n))] = draw(ODD_TEXT)
    items = draw(st.sampled_from(["none", "number", "number", "text", "repeated", "odd", "float"]))
    ids = np.arange(n) // 2 if items == "repeated" else rng.permutation(n)
    if items == "odd":
        columns["item"] = [f"{draw(st.shared(ODD_TEXT, key='item'))}{i}" for i in ids]
    elif items != "none":
        columns["item"] = [f"i{i}" if items == "text" else float(i) if items == "float" else int(i) for i in ids]
    who = draw(st.sampled_from(["none", "text", "text", "number", "odd"]))
    if who != "none":
        first = draw(st.shared(ODD_TEXT, key="who")) if who == "odd" else "person"
        numbers = rng.integers(0, 4, n).tolist()
        columns["annotator"] = numbers if who == "number" else [f"{first}{number}" for number in numbers]
    if rng.random() < 0.25:
        columns["y"] = [classes[code] for code in np.roll(codes, 1)]
    if rng.random() < 0.1:
        columns["split"] = rng.choice(["train", "train", "valid", "test", "dev", "Train"], n).tolist()
    if rng.random() < 0.1:  # of any type
        columns[draw(st.sampled_from(list(columns)))] = draw(st.sampled_from([*PLAIN_PI, *ARROW_PI]))(rng, n)
    renamed = {}
    if rng.random() < 0.07:
        renamed = draw(st.dictionaries(st.sampled_from(list(columns)), ODD_TEXT, max_size=1))
    return {renamed.get(name, name): values for name, values in columns.items()}


CLASSES = st.sampled_from([["cat", "dog"], ["a", "b", "c"], [0, 1], [1, 2, 3], [True, False], [-4, 7], [0.5, 1.5]])
ODD_CLASSES = st.lists(ODD_TEXT, min_size=2, max_size=4, unique=True)


@st.composite
def pi_columns(draw, rng, n):
    """Name and values of a PI column; an Arrow array where only Parquet has the type."""
    name = draw(NAME if rng.random() < 0.8 else ODD_TEXT.map(str.strip).filter(bool))
    make = draw(st.sampled_from(PLAIN_PI if rng.random() < 0.7 else ARROW_PI))
    values = make(rng, n)
    if isinstance(values, list) and n and rng.random() < 0.15:
        values[int(rng.integers(n))] = draw(st.none() | ODD_TEXT | st.floats() | st.integers(-(2**70), 2**70))
    return name, values


def repeated(*values):
    """A maker of columns that repeat these values."""
    return lambda rng, n: [values[code] for code in rng.integers(0, len(values), n)]


PLAIN_PI = [
    lambda rng, n: rng.normal(size=n).round(3).tolist(),
    lambda rng, n: rng.gamma(2, 3, n).round(2).tolist(),
    lambda rng, n: rng.integers(-5, 5, n).tolist(),
    lambda rng, n: [f"row {i}" for i in range(n)],
    repeated("phone", "desk", "pad"),
    repeated(True, False),
    repeated(1.5),
    repeated(None),
    repeated(None, 1.0, 2.5),
    repeated(1e300, 0.0, -1e300),
    repeated(1e-320, 1.0),
    repeated(float("inf"), 1.0, 2.0),
    repeated(2**63 - 1, 0, 5),
    repeated("2020-01-01", "2021-03-04 05:06:07", "1677-01-01"),
    repeated("1,5", "2,5"),
    repeated("85%", "7.3 s", "0:45"),
    repeated("=1+1", "-x", "\x1b[31m"),
    repeated("1", "1.0", "01"),
]
ARROW_PI = [
    lambda rng, n: pa.array((rng.integers(0, 5, n).astype(np.uint64) + np.uint64(2**63)), pa.uint64()),
    lambda rng, n: pa.array(rng.integers(0, 2**40, n), pa.int64()).cast(pa.duration("s")),
    lambda rng, n: pa.array(rng.integers(-(2**50), 2**50, n), pa.int64()).cast(pa.timestamp("ms", "UTC")),
    lambda rng, n: pa.array(rng.integers(0, 80_000, n).astype(np.int32)).cast(pa.time32("s")),
    lambda rng, n: pa.array([decimal.Decimal(int(i)) / 8 for i in rng.integers(0, 50, n)], pa.decimal128(20, 4)),
    lambda rng, n: pa.array([rng.bytes(16) for _ in range(n)], pa.binary()),
    lambda rng, n: pa.array([rng.bytes(2) for _ in range(n)], pa.binary(2)),
    lambda rng, n: pa.array([b"\xff" * int(i) for i in rng.integers(0, 3, n)], pa.large_binary()),
    lambda rng, n: pa.array([rng.bytes(16) for _ in range(n)], pa.uuid()),
    lambda rng, n: pa.array([[1, 2]] * n),
    lambda rng, n: pa.array([{"a": 1}] * n),
    lambda rng, n: pa.nulls(n),
    lambda rng, n: pa.array(rng.normal(size=n).astype(np.float16)),
    lambda rng, n: pa.array([["a", "b", None][i] for i in rng.integers(0, 3, n)], pa.string()).dictionary_encode(),
    lambda rng, n: pa.array([datetime.date(2020, 1, 1 + int(i)) for i in rng.integers(0, 9, n)], pa.date32()),
    lambda rng, n: unchecked_text([[b"a", b"\xe4", b"b"][i] for i in rng.integers(0, 3, n)]),
]


def unchecked_text(values):
    """An Arrow array of strings with these bytes, whether they are UTF-8 or not."""
    column = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers())


# --- files ---


@st.composite
def table_file(draw, columns, kind):
    """The bytes of a table."""
    kind, _, zipped = kind.partition(".")
    if kind == "parquet":
        return parquet_file(columns)
    plain = {name: values for name, values in columns.items() if not is_unchecked(values)}
    plain = {name: as_list(values) for name, values in plain.items()}
    rows = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)] if plain else []
    if kind in ("jsonl", "ndjson"):
        text = "".join(json.dumps(row, default=str, ensure_ascii=draw(st.booleans())) + "\n" for row in rows)
        return packed(text.encode(), zipped)
    delimiter = {"tsv": "\t", "txt": draw(st.sampled_from("\t,;"))}.get(kind, draw(st.sampled_from([*",,,,,;"])))
    buffer = io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    ending = draw(st.sampled_from(["\n", "\n", "\n", "\r\n"]))
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator="\r\n")
    writer.writerows([list(plain), *([shown(row[name]) for name in plain] for row in rows)])
    text = buffer.getvalue()
    text = text if ending == "\r\n" else text.replace("\r\n", "\n")
    encoding = draw(st.sampled_from([*["utf-8"] * 15, "utf-8-sig", "utf-8-sig", "utf-16", "latin-1"]))
    return packed(text.encode(encoding, errors="replace"), zipped)


def is_known(values):
    """Whether a column can be compared with others value by value."""
    return (
        values is not None
        and not is_unchecked(values)
        and all(isinstance(v, int | float | str) for v in as_list(values))
    )


def as_list(values):
    """The values of a column; moments beyond Python's are numbers."""
    try:
        return values.to_pylist() if isinstance(values, pa.Array) else values
    except OverflowError:
        return values.cast(pa.int64()).to_pylist()


def is_unchecked(values):
    """Whether only Parquet can hold these bytes."""
    try:
        return isinstance(values, pa.Array) and values.validate(full=True) is not None
    except pa.ArrowInvalid:
        return True


def shown(value):
    """A value as people write it in CSV."""
    return value.hex() if isinstance(value, bytes) else value


def packed(content, zipped):
    return gzip.compress(content) if zipped else content


def parquet_file(columns):
    """A Parquet file; a column of several types is text."""
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = values if isinstance(values, pa.Array) else pa.array(values)
        except (pa.ArrowException, OverflowError):
            arrays[name] = pa.array([None if value is None else str(value) for value in values])
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays), buffer)
    return buffer.getvalue()


def damages():
    """Functions that damage the bytes of a file."""
    places = st.floats(0, 1, exclude_max=True)
    inserted = [b'"', b"\n", b",", b"\x00", b"\xff", b"[" * 600, b'"\n"', b"\r", b"{", b"x" * 200_000, b",,,"]

    def cut(place):
        return lambda old: old[: int(place * len(old))]

    def change(place, byte):
        return lambda old: cut(place)(old) + bytes([byte]) + old[int(place * len(old)) + 1 :]

    def insert(place, new):
        return lambda old: cut(place)(old) + new + old[int(place * len(old)) :]

    return st.one_of(
        st.builds(cut, places),
        st.builds(change, places, st.integers(0, 255)),
        st.builds(insert, places, st.sampled_from(inserted)),
        st.sampled_from([lambda old: b"", lambda old: old + old]),
        st.binary(max_size=40).map(lambda new: lambda old: new),
    )


# --- inputs ---


@st.composite
def add_inputs(draw, rng, n, columns, case):
    """Add inputs to a case: columns of its table, or a file or folder of their own."""
    kinds = ["columns", "columns", "columns", "npy", "npy", "npz", "csv", "parquet", "images", "text", "none"]
    kind = draw(st.sampled_from(kinds))
    items = as_list(columns["item"]) if is_known(columns.get("item")) else list(range(n))
    different = list(dict.fromkeys(items))
    width = draw(st.integers(1, 4))
    if kind == "columns":
        names = draw(st.lists(st.sampled_from(["a", "b", "c,d", 'e"f', "g:h"]), min_size=1, max_size=3, unique=True))
        of_item = {item: rng.normal(size=len(names)).round(3).tolist() for item in different}
        columns |= {name: [of_item[item][place] for item in items] for place, name in enumerate(names)}
        if "item" not in columns and rng.random() < 0.1:
            columns[names[0]] = draw(st.sampled_from(PLAIN_PI))(rng, n)
        return
    if kind == "text":
        words = {item: " ".join(rng.choice(["red", "blue", "new", "old", "b\u202e", "=x"], 3)) for item in different}
        columns["text"] = [words[item] for item in items]
        return
    if kind == "none":
        return
    whole = all(isinstance(item, int) for item in different)
    count = draw(st.sampled_from([n, len(different), len(different), max(1, n - 1), n + 2]))
    if kind == "images":
        draw(add_images(rng, different, case))
    elif kind in ("npy", "npz"):
        x = draw(arrays(rng, n if kind == "npy" and not whole else count, width))
        named = kind == "npz" and draw(st.booleans()) and len(x.shape) and len(x) == len(different)
        case.x = f"x.{kind}"
        case.files[case.x] = array_file(x, draw(names_of_inputs(different)) if named else None, kind)
        case.inputs = len(x) if x.ndim else None
    else:
        frame = {"item": different} if draw(st.integers(0, 3)) else {}
        frame |= {f"x{place}": rng.normal(size=len(different)).round(3).tolist() for place in range(width)}
        if rng.random() < 0.2:
            frame[draw(NAME | ODD_TEXT)] = draw(st.sampled_from([*PLAIN_PI, *ARROW_PI]))(rng, len(different))
        case.x, case.inputs = f"x.{kind}", len(different)
        case.files[case.x] = draw(table_file(frame, kind))
    if case.x in case.files and rng.random() < 0.1:
        case.files[case.x], case.inputs = draw(damages())(case.files[case.x]), None


KINDS = ["f4", "f8", "f2", "g", ">f4", ">f8", "i8", ">i4", "u1", "u8", "?"]
NO_NUMBERS = ["c16", "U3", "S3", "M8[s]", "m8[s]", "V4"]
SHAPES = [
    lambda n: (n,),
    lambda n: (n, 0),
    lambda n: (n, 2, 3),
    lambda n: (n, 3, 8, 8),
    lambda n: (n, 1, 1, 1, 2),
    lambda n: (),
]


@st.composite
def arrays(draw, rng, n, width):
    """An array of numbers, most of them."""
    kind = draw(st.sampled_from(KINDS if rng.random() < 0.9 else NO_NUMBERS))
    shape = draw(st.sampled_from(SHAPES))(n) if rng.random() < 0.2 else (n, width)
    x = rng.normal(size=shape) * 20
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.asarray(x.astype("f8").astype("i8").astype(kind) if kind[0] in "MmV" else x.astype(kind))
    if x.size and x.dtype.kind == "f" and rng.random() < 0.1:
        with np.errstate(all="ignore"):
            x.flat[int(rng.integers(x.size))] = draw(st.sampled_from([np.nan, np.inf, 1e30, 1e300, -1e38, 1e-310]))
    return x if rng.random() < 0.8 else np.asfortranarray(x)


@st.composite
def names_of_inputs(draw, items):
    """What an .npz has as `item`, which need not be right."""
    right = np.array([str(item) for item in items] if draw(st.booleans()) else items)
    made = draw(st.sampled_from([*["right"] * 6, "bytes", "2-D", "0-D", "complex", "other", "structured"]))
    return {
        "right": right,
        "bytes": np.array([str(item).encode() + b"\xe4" for item in items]),
        "2-D": right[:, None],
        "0-D": np.array(5),
        "complex": np.arange(len(items)) * 1j,
        "other": np.arange(len(items)) + 1,
        "structured": np.zeros(len(items), [("a", "i4")]),
    }[made]


def array_file(x, item, kind):
    buffer = io.BytesIO()
    if kind == "npy":
        np.save(buffer, x)
    else:
        np.savez(buffer, x=x, **({} if item is None else {"item": item}))
    return buffer.getvalue()


MODES = [*["RGB"] * 6, "L", "1", "P", "LA", "RGBA", "I;16", "CMYK", "F"]
KINDS_OF_IMAGES = [*["PNG"] * 5, "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"]


@st.composite
def add_images(draw, rng, items, case):
    """A folder of images named like the items, one of which may be odd."""
    size = draw(st.sampled_from([(8, 8), (8, 8), (6, 9), (1, 1)]))
    case.x = "images"
    for place, item in enumerate(items):
        name = "".join("_" if c in "/\\\x00" else c for c in str(item))[:40] or "_"
        mode, kind, this = "RGB", "PNG", size
        if place == 0 and rng.random() < 0.5:
            mode, kind = draw(st.sampled_from(MODES)), draw(st.sampled_from(KINDS_OF_IMAGES))
            this = size if rng.random() < 0.8 else draw(st.sampled_from([(5, 5), (1, 300)]))
        content = image_file(rng, mode, this, kind)
        if place == 0 and rng.random() < 0.1:
            content = draw(damages())(content)
        case.files[f"images/{name}.png"] = content
    case.inputs = None


def image_file(rng, mode, size, kind):
    """A picture in the given mode and format, or the nearest that there is."""
    image = Image.fromarray(rng.integers(0, 255, (*size, 3)).astype(np.uint8))
    buffer = io.BytesIO()
    try:
        (Image.new("I;16", size[::-1], 700) if mode == "I;16" else image.convert(mode)).save(buffer, kind)
    except (OSError, ValueError, KeyError):
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
    return buffer.getvalue()
