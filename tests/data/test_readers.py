import datetime
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pidual.data import keys, open_source, spelled_like
from pidual.data.columns import values
from pidual.errors import DataError, UsageError


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_all(path):
    source = open_source(path)
    return source.read(source.columns)


def names_of(source, column):
    found = keys(source, column, source.read([column])[column])
    listed = found.names.to_pylist()
    return [listed[code] if code >= 0 else None for code in found.codes]


def encode(array):
    source = open_source(pd.DataFrame())
    found = keys(source, "c", pa.chunked_array([array]))
    listed = found.names.to_pylist()
    return [listed[code] if code >= 0 else None for code in found.codes]


@pytest.mark.parametrize(
    "content",
    [
        "item,label\na,1\nb,2\n",
        "\ufeffitem,label\na,1\nb,2\n",
        "item,label\r\na,1\r\nb,2\r\n\r\n\r\n",
        "item,label\ra,1\rb,2\r",
        "\n\nitem,label\n\na,1\n   \nb,2\n \n",
        ' item , label\n"a","1"\n" b ", 2 ',
        "item;label\na;1\nb;2\n",
        "item\tlabel\na\t1\nb\t2\n",
    ],
)
def test_untidy_csv_reads_like_a_tidy_one(tmp_path, content):
    source = open_source(write(tmp_path, "t.csv", content))
    assert source.columns == ["item", "label"]
    assert names_of(source, "item") == ["a", "b"]
    assert names_of(source, "label") == [1, 2]


def test_quoted_commas_and_newlines_stay_in_their_cell(tmp_path):
    source = open_source(write(tmp_path, "t.csv", 'item,"label\n(raw)"\n"a, b","x\ny"\nc,"say ""hi"""\n'))
    assert source.columns == ["item", "label\n(raw)"]
    assert names_of(source, "item") == ["a, b", "c"]
    assert names_of(source, "label\n(raw)") == ["x\ny", 'say "hi"']


def test_line_numbers_count_quoted_newlines_and_blank_lines(tmp_path):
    source = open_source(write(tmp_path, "t.csv", '\nitem,label\n"a\n\nb",1\n\n  \nc,2\r\nd,3\n'))
    assert names_of(source, "label") == [1, 2, 3]
    assert [source.place(row).rsplit(", ")[-1] for row in range(3)] == ["line 3", "line 8", "line 9"]


def test_blank_cell_of_a_single_column_is_a_row(tmp_path):
    source = open_source(write(tmp_path, "t.csv", "label\na\n\n  \nb\n"))
    assert names_of(source, "label") == ["a", None, "b"]
    assert source.place(2).endswith("line 5")


@pytest.mark.parametrize("name", ["t.tsv", "t.txt", "t.tsv.gz", "t.TSV"])
def test_tab_separated(tmp_path, name):
    content = b"item\tlabel, raw\na\tx,y\n"
    path = write(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    assert names_of(open_source(path), "label, raw") == ["x,y"]


def test_json_lines(tmp_path):
    content = '\ufeff{"item": "2020-01-01", "label": true}\n\n{"item": "2020-01-02", "label": null, "t": 1.5}\n'
    source = open_source(write(tmp_path, "t.jsonl", content))
    assert names_of(source, "item") == ["2020-01-01", "2020-01-02"]
    assert names_of(source, "label") == ["True", None]
    assert source.place(1).endswith("line 3")
    assert source.numeric_columns() == ["label", "t"]


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("t.csv", b"", ["is empty", "header"]),
        ("t.csv", b'a,b\n"1\n1",2\n3,4,5\n', ["line 4 has 3 cells", "header has 2", "double quotes"]),
        ("t.csv", b"a,b\n1,2\n3,caf\xe9\n", ["line 3", "0xe9", "position 6", "UTF-8"]),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), ["line 1", "0xff", "UTF-8"]),
        ("t.csv", b'a,b\n1,2\n3,"4\n5,6\n7,8\n', ["quote", "after line 2", "never closed"]),
        ("t.csv", b'a,"b\n1,2\n', ["quote", "header"]),
        ("t.jsonl", b"", ["is empty", "JSON object"]),
        ("t.jsonl", b'{"a": 1}\n\n{"a": \n', ["line 3", "not a JSON object"]),
        ("t.json", b'[{"a": 1},\n {"a": ', ["line 2 is not JSON", "whole"]),
        ("t.json", b'[{"a": 1}\n {"a": 2}]', ["line 2 is not JSON", "Expecting ','"]),
        ("t.json", b'[{"a": 1}', ["line 1 is not JSON", "whole"]),
        ("t.json", b'[{"a": 1}] []', ["line 1 is not JSON", "Extra data"]),
        ("t.json", b'[{"a": 1}, 5]', ["record 2 is a number, not an object"]),
        ("t.json", b'[{"a": "caf\xe9"}]', ["line 1", "0xe9"]),
        ("t.json", b"[" * 100_000, ["line 1", "too deep"]),
        ("t.json", b"[]", ["is empty", "list of objects"]),
        ("t.json", b'[{"a": ' + b"1" * 5000 + b"}]", ["line 1 is not JSON", "digits"]),
        ("t.json", b'[{"a": "\\ud800"}]', ["'a'", "surrogate"]),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', ["line 2", "column 'a'", "'x' is text", "a number"]),
        ("t.jsonl", b'{"a": "caf\xe9"}\n', ["line 1", "0xe9"]),
        ("t.jsonl", b"null", ["line 1", "not a JSON object"]),
        ("t.jsonl", b'{"a": 1}\n null \n{"a": 2}\n', ["line 2", "not a JSON object"]),
        ("t.parquet", b"PAR1 no", ["Parquet", "write it again"]),
    ],
)
def test_broken_files(tmp_path, name, content, parts):
    path = write(tmp_path, name, content)
    with pytest.raises(DataError) as caught:
        read_all(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_missing_file_folder_and_unknown_format(tmp_path):
    with pytest.raises(UsageError, match=r"no\.csv does not exist"):
        open_source(tmp_path / "no.csv")
    with pytest.raises(UsageError, match=r"holds no table; .* of one kind: \.csv"):
        open_source(tmp_path)
    with pytest.raises(UsageError, match=r"'\.xlsx'.*convert it to \.csv"):
        open_source(write(tmp_path, "t.xlsx", "x"))
    with pytest.raises(UsageError, match="does not read"):
        open_source(write(tmp_path, "gz", "x"))


def test_require_suggests_a_column_and_lists_all(tmp_path):
    source = open_source(write(tmp_path, "t.csv", "item,label,b,b\n1,2,3,4\n"))
    with pytest.raises(UsageError, match=r"no column 'lable' .*did you mean 'label'\?.* item, label, b, b"):
        source.require("lable", "the labels")
    with pytest.raises(DataError, match="more than one column named 'b'"):
        source.require("b", "x")
    assert source.require("item", "x") == "item"


def test_find_prefers_the_exact_spelling():
    assert open_source(pd.DataFrame(columns=["Label", "label"])).find("label") == "label"
    assert open_source(pd.DataFrame(columns=["Task"])).find("item", "task") == "Task"
    assert open_source(pd.DataFrame(columns=["x"])).find("item", "task") is None


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["7", " 8", "7 ", "7.0"]), [7, 8, 7, 7]),
        (pa.array(["007", "8"]), ["007", "8"]),
        (pa.array(["-1", "0"]), [-1, 0]),
        (pa.array(["12345678901234567890", "1"]), ["12345678901234567890", "1"]),
        (pa.array(["a", "", " ", "NA", None, " nan "]), ["a", None, None, None, None, None]),
        (pa.array(["cat ", "cat", "\tdog"]), ["cat", "cat", "dog"]),
        (pa.array([1, None, 3], pa.int8()), [1, None, 3]),
        (pa.array([1.0, float("nan"), None, 3.0]), [1, None, None, 3]),
        (pa.array([0.5, 1.0]), ["0.5", "1"]),
        (pa.array([True, False, None]), ["True", "False", None]),
        (pa.array([5, 2**63], pa.uint64()), ["5", "9223372036854775808"]),
        (pa.array(["x", "y", "x", None]).dictionary_encode(), ["x", "y", "x", None]),
        (pa.array([b"x", b"y"]), ["x", "y"]),
        (pa.array(["x"], pa.string_view()), ["x"]),
        (pa.array([None, None]), [None, None]),
        (pa.array(["none"]), ["none"]),
        (pa.array([]), []),
    ],
)
def test_keys(array, expected):
    assert encode(array) == expected


def test_lists_cannot_be_keys():
    with pytest.raises(DataError, match=r"table, column 'c' holds list"):
        encode(pa.array([[1], [2]]))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["1", " 2"]), np.array([1, 2])),
        (pa.array(["1", "NA", "2.5"]), np.array([1, np.nan, 2.5])),
        (pa.array([1, None]), np.array([1, np.nan])),
        (pa.array([1, 2], pa.int16()), np.array([1, 2])),
        (pa.array([0.5, None], pa.float32()), np.array([0.5, np.nan])),
        (pa.array([1500, None], pa.duration("ms")), np.array([1.5, np.nan])),
    ],
)
def test_values_that_are_numbers(array, expected):
    got = values(open_source(pd.DataFrame()), "c", pa.chunked_array([array]))
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (
            pa.array(["2024-01-01 10:00:01", "", "2024-01-02T03:04:05.5"]),
            ["2024-01-01T10:00:01", "NaT", "2024-01-02T03:04:05.5"],
        ),
        (
            pa.array(["2024-01-01T10:00:01+02:00", "2024-01-01T10:00:01Z"]),
            ["2024-01-01T08:00:01", "2024-01-01T10:00:01"],
        ),
        (pa.array(["2024-01-01", None]), ["2024-01-01", "NaT"]),
        (pa.array([datetime.date(2024, 1, 1), None]), ["2024-01-01", "NaT"]),
        (pa.array([0, 1], pa.timestamp("ns", "Asia/Tokyo")), ["1970-01-01", "1970-01-01"]),
    ],
)
def test_values_that_are_moments(array, expected):
    got = values(open_source(pd.DataFrame()), "c", pa.chunked_array([array]))
    np.testing.assert_array_equal(got, np.array(expected, "datetime64[us]"))


@pytest.mark.parametrize(
    "cells", [["01", "2"], ["a", "1"], ["0x1F", "1"], ["True", "False"], ["2024-01-01", "May"], ["2024-01-01", "2"]]
)
def test_values_that_are_names(cells):
    got = values(open_source(pd.DataFrame()), "c", pa.chunked_array([pa.array(cells)]))
    assert isinstance(got, pd.Categorical)
    assert list(got) == cells


def test_categories_stay_categories(tmp_path):
    frame = pd.DataFrame({"number": pd.Categorical([3, 1, None, 3]), "text": pd.Categorical(["3", "1", None, "3"])})
    frame.to_parquet(tmp_path / "t.parquet")  # which forgets that numbers were categories
    here, there = open_source(frame), open_source(tmp_path / "t.parquet")
    for source, name in (here, "number"), (here, "text"), (there, "text"):
        got = values(source, name, source.read([name])[name])
        assert isinstance(got, pd.Categorical)
        assert got.codes.tolist() == [0, 1, -1, 0]


def test_numeric_columns_and_a_cell_that_is_no_number(tmp_path):
    rows = "".join(f'{i},"n\n{i}",{i}.5,\n' for i in range(1200))
    source = open_source(write(tmp_path, "t.csv", f"a,name,b,empty\n{rows}x1,n,2,\n"))
    assert source.numeric_columns() == ["a", "b"]
    np.testing.assert_array_equal(source.read(["b"], numeric=["b"])["b"].to_numpy()[:2], [0.5, 1.5])
    with pytest.raises(DataError, match=r"line 2402, column 'a': 'x1' is not a number"):
        source.read(["a", "b"], numeric=["a", "b"])


def test_decimal_commas_between_semicolons(tmp_path):
    rows = "".join(f"{i};-{i},5;{i};a,{i}\n" for i in range(1200))
    source = open_source(write(tmp_path, "t.csv", f"item;a;b;name\n{rows}1;2.5;1;a\n"))
    assert source.numeric_columns() == ["item", "a", "b"]
    np.testing.assert_array_equal(source.read(["b"], numeric=["b"])["b"].to_numpy()[:2], [0, 1])
    with pytest.raises(DataError, match=r"line 1202, column 'a': '2.5' is not a number"):
        source.read(["a"], numeric=["a"])


def test_decimal_commas_in_privileged_information(tmp_path):
    source = open_source(write(tmp_path, "t.csv", "item;a;b\n1;1,5;0,5\n2;+2,25;fast\n3;;,5\n4;7;2,0\n"))
    columns = source.read(["a", "b"])
    np.testing.assert_array_equal(values(source, "a", columns["a"]), [1.5, 2.25, np.nan, 7])
    assert list(values(source, "b", columns["b"])) == ["0.5", "fast", ".5", "2.0"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("item;a\n1;1,5\n2;2.5\n", ["1,5", "2.5"]),  # numbers have points here
        ('item,a\n1,"1,500"\n2,"2,500"\n', ["1,500", "2,500"]),  # perhaps thousands
        ("item\ta\n1\t1,500\n2\t2,500\n", ["1,500", "2,500"]),
    ],
)
def test_a_comma_that_need_not_be_a_decimal_one_stays(tmp_path, content, expected):
    source = open_source(write(tmp_path, "t.csv", content))
    assert list(values(source, "a", source.read(["a"])["a"])) == expected


def column(folder, content, name="a"):
    source = open_source(write(folder, "x.csv", content))
    return list(values(source, name, source.read([name])[name]))


def test_thousands_are_no_decimals(tmp_path):
    assert column(tmp_path, "a;b\n999;x\n1,036;y\n") == ["999", "1,036"]
    assert column(tmp_path, "a;b\n999;0,5\n1,036;1,5\n", "b") == [0.5, 1.5]


def test_points_between_thousands_where_commas_are_decimal(tmp_path):
    """They are read in groups of three alone, and only in a column that shows both."""
    cells, numbers = ["1.399,50", "2.000", "-12.345.678,5", "", "7,25"], [1399.5, 2000, -12345678.5, np.nan, 7.25]
    rows = "".join(f"{number};{cell};1,5\n" for number, cell in enumerate(cells))
    source = open_source(write(tmp_path, "t.csv", f"item;a;b\n{rows}"))
    assert source.numeric_columns() == ["item", "a", "b"]
    read = source.read(["b", "a"], numeric=["a", "b"])
    np.testing.assert_array_equal(read["a"].to_numpy(), numbers)
    np.testing.assert_array_equal(read["b"].to_numpy(), 1.5)
    np.testing.assert_array_equal(values(source, "a", source.read(["a"])["a"]), numbers)
    for wrong in ("1.39", "1.3995,5", "0.399,5", "1.399.5", "2.5"):
        source = open_source(write(tmp_path, "t.csv", f"item;a;b\n{rows}9;{wrong};1,5\n"))
        with pytest.raises(DataError, match=rf"line 7, column 'a': '{wrong}' is not a number"):
            source.read(["a"], numeric=["a"])
    assert column(tmp_path, "a;b\n1.399;0,5\n2.000;1,5\n") == [1.399, 2.0]  # nothing shows that these are thousands


def test_a_few_points_do_not_turn_commas_off(tmp_path):
    assert column(tmp_path, "a;v;b\n1,5;2.0;0,1\n2,5;2.0;0,3\n") == [1.5, 2.5]


def test_lists_of_codes_stay_as_they_are(tmp_path):
    assert column(tmp_path, "a;b\n1,2;0,5\n1,2,3;0,5\n") == ["1,2", "1,2,3"]


def test_spelled_like():
    assert spelled_like(["1.0", "TRUE", "x", "2", "03"], ["1", "True", "2", "2.0", "3"]) == {
        "1.0": "1",
        "TRUE": "True",
        "x": "x",
        "2": "2",
        "03": "03",
    }
    assert spelled_like(["2.00", 5], ["2", "2.0", 5]) == {"2.00": "2.00", 5: 5}  # two classes it could be


def test_frame_of_mixed_objects_becomes_text():
    source = open_source(pd.DataFrame({"a": [1, "x", None, 2.5], 3: [1, 2, 3, 4]}))
    assert source.columns == ["a", "3"]
    assert names_of(source, "a") == ["1", "x", None, "2.5"]
    assert source.numeric_columns() == ["3"]
    assert source.place(2) == "table, row 2 (counted from 0)"
