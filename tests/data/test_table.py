import os
import stat
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pidual.data import AnnotationTable, Inputs, pseudonym, read_table, read_truth, x_rows
from pidual.errors import DataError, DataWarning, KeyNotice, UsageError

CSV = """item,label,annotator,seconds,y,split
00017,cat,ann,1.5,cat,train
00018,dog,bob,,dog,train
00017, dog,ann,3,cat,val
x,cat ,7,4,owl,test
"""


@pytest.fixture
def csv(tmp_path):
    return write(tmp_path, CSV)


def write(folder, content, name="labels.csv"):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_reads_every_column(csv):
    table = read_table(csv, pi=["annotator", "seconds"], keep_ids=True)
    frame = table.frame
    assert list(frame.columns) == ["item", "label", "annotator", "seconds", "y", "split"]
    assert isinstance(frame.index, pd.RangeIndex)
    assert frame["item"].tolist() == ["00017", "00018", "00017", "x"]
    assert table.classes == ["cat", "dog"] == list(frame["label"].cat.categories)
    assert table.label_codes.tolist() == [0, 1, 1, 0]
    assert table.item_codes.tolist() == [0, 1, 0, 2]
    assert table.annotator_codes.tolist() == [0, 1, 0, 2]
    assert frame["annotator"].tolist() == ["ann", "bob", "ann", "7"]
    assert frame["y"].cat.categories.tolist() == ["cat", "dog", "owl"]
    assert table.frame["y"].cat.codes.tolist() == [0, 1, 0, 2]
    assert frame["split"].tolist() == ["train", "train", "valid", "test"]
    assert frame["split"].cat.categories.tolist() == ["train", "valid", "test"]
    np.testing.assert_array_equal(frame["seconds"], [1.5, np.nan, 3, 4])
    assert table.source == str(csv)
    assert table.pi_columns == ["annotator", "seconds"]
    assert len(table) == 4


def test_bare_table_has_row_numbers_for_items(tmp_path):
    table = read_table(write(tmp_path, "label\n1\n0\n1\n0\n"))
    assert table.frame["item"].tolist() == [0, 1, 2, 3]
    assert table.classes == [0, 1]
    assert all(type(label) is int for label in table.classes)
    assert table.pi_columns == []
    assert table.annotator_codes is None
    assert "y" not in table.frame
    assert not (tmp_path / ".pidual.key").exists()


def test_named_columns_are_not_taken_for_others_by_default(tmp_path):
    path = write(tmp_path, "y,worker,annotator\na,1,p\nb,2,q\na,1,p\nb,2,q\n")
    table = read_table(path, label="y", annotator="worker", keep_ids=True)
    assert "y" not in table.frame
    assert table.frame["annotator"].tolist() == ["1", "2", "1", "2"]
    assert read_table(path, label="y", annotator="worker", pi=["worker"]).pi_columns == ["annotator"]


@pytest.mark.parametrize("column", ["annotator_id", "WorkerId", "rater", "Labeler_ID"])
def test_annotators_by_other_names_are_pseudonymised(tmp_path, column):
    path = write(tmp_path, f"label,{column}\na,101\nb,102\na,101\nb,102\n")
    for pi in None, [column]:
        table = read_table(path, pi=pi)
        assert table.pi_columns == ["annotator"]
        assert table.frame["annotator"].str.fullmatch("a-[0-9a-f]{12}").all()


def test_of_two_annotator_columns_the_one_that_is_pi_counts(tmp_path):
    path = write(tmp_path, "label,annotator,worker_id\na,ann,1\nb,bob,2\na,ann,1\nb,bob,2\n")
    table = read_table(path, pi=["worker_id"])
    assert table.pi_columns == ["annotator"]
    assert table.frame["annotator"].nunique() == 2
    both = read_table(path, pi=["annotator", "worker_id"])
    assert both.pi_columns == ["annotator", "worker_id"] == list(both.people)
    assert both.frame["worker_id"].tolist() == table.frame["annotator"].tolist()
    other = write(tmp_path, "worker,rater\na,ann\nb,bob\na,ann\nb,bob\n")
    assert read_table(other, label="worker").pi_columns == ["annotator"]


def test_integer_labels_and_a_clean_label_with_gaps(tmp_path):
    table = read_table(write(tmp_path, "label,y\n10,10.0\n2,\n10,3.0\n2,2.0\n"))
    assert table.classes == [2, 10]
    assert table.frame["y"].cat.categories.tolist() == [2, 10, 3]
    assert table.frame["y"].cat.codes.tolist() == [1, -1, 2, 0]


@pytest.mark.parametrize(
    ("labels", "y", "expected"),
    [
        (["1.0", "2.0", "unsure"], ["1", "2", "2"], ["1.0", "2.0", "2.0"]),
        (["0.5", "1.0", "2.0"], [1, 2, 2], ["1.0", "2.0", "2.0"]),
        (["True", "False", "True"], ["true", "false", "true"], ["True", "False", "True"]),
        pytest.param(
            *(["01", "1", "2"], ["1", "2", "2.0"], ["1", "2", "2"]),
            marks=pytest.mark.filterwarnings("ignore:.*classes that look the same"),
        ),
        (["007", "8", "8"], ["7", "8", "8"], ["7", "8", "8"]),
    ],
)
def test_clean_labels_are_spelled_as_the_labels_are(labels, y, expected):
    table = AnnotationTable.from_frame(pd.DataFrame({"label": labels * 2, "y": y * 2}))
    assert table.frame["y"].astype(str).tolist() == expected * 2


def test_clean_labels_of_which_none_is_a_label_are_told():
    frame = pd.DataFrame({"label": ["cat", "dog"] * 2, "y": ["Katze", None, "Hund", "Hund"]})
    with pytest.warns(
        DataWarning, match=r"'y': no value is a label \(values are such as 'Katze', labels such as 'cat'\)"
    ):
        AnnotationTable.from_frame(frame)


def test_parquet_of_dictionaries_nullable_integers_and_booleans(tmp_path):
    columns = {
        "item": pa.array([1, 2, 1, 2]).dictionary_encode(),
        "label": pa.array([True, False, True, False]),
        "annotator": pa.array(["p", "q", "p", "r"]).dictionary_encode(),
        "n": pa.array([1, None, 3, 4]),
        "who": pa.array([True, None, False, True]),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", pi=["n", "who"])
    assert table.classes == ["False", "True"]
    assert table.frame["item"].tolist() == [1, 2, 1, 2]
    np.testing.assert_array_equal(table.frame["n"], [1, np.nan, 3, 4])
    assert table.frame["who"].cat.codes.tolist() == [0, -1, 1, 0]


def test_same_table_from_every_format(csv, tmp_path):
    frame = pd.read_csv(csv, dtype={"item": str})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    options = {"pi": ["annotator", "seconds"]}
    tables = [read_table(path, **options) for path in (csv, tmp_path / "t.parquet", tmp_path / "t.jsonl")]
    tables.append(AnnotationTable.from_frame(frame, **options))
    assert len({table.fingerprint() for table in tables}) == 1
    pd.testing.assert_frame_equal(tables[0].frame, tables[1].frame)
    pd.testing.assert_frame_equal(tables[0].frame, tables[2].frame)
    assert tables[3].source == "table"


# --- pseudonyms ---


def test_key_file_is_private_kept_and_used_again(csv, tmp_path):
    first = read_table(csv)
    key = tmp_path / ".pidual.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(bytes.fromhex(key.read_text())) == 32
    assert [path.name for path in tmp_path.glob(".pidual*")] == [".pidual.key"]
    assert read_table(csv).frame["annotator"].tolist() == first.frame["annotator"].tolist()
    other = read_table(csv, key_file=tmp_path / "other")
    assert other.frame["annotator"].tolist() != first.frame["annotator"].tolist()
    assert other.fingerprint() == first.fingerprint() == read_table(csv, keep_ids=True).fingerprint()


def test_a_new_key_is_announced_once_and_kept_from_git(csv, tmp_path):
    with pytest.warns(KeyNotice, match=rf"secret key was made at {tmp_path / '.pidual.key'}: .*listed in .gitignore"):
        read_table(csv)
    assert (tmp_path / ".gitignore").read_text() == ".pidual.key\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(csv)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("*.pyc\n", "*.pyc\n.pidual.key\n"),
        ("*.pyc", "*.pyc\n.pidual.key\n"),
        ("# .pidual.key\n", "# .pidual.key\n.pidual.key\n"),
        *[(same, same) for same in (".pidual.key", "/.pidual.key\n", "a\n.*\nb\n", "*.key\n", "!.pidual.key\n")],
    ],
)
def test_a_gitignore_is_added_to_only_where_it_leaves_the_key_out(csv, tmp_path, before, after):
    (tmp_path / ".gitignore").write_text(before)
    read_table(csv)
    assert (tmp_path / ".gitignore").read_text() == after


def test_a_gitignore_that_cannot_be_written(csv, tmp_path):
    (tmp_path / ".gitignore").mkdir()
    with pytest.warns(KeyNotice, match="keep it secret, also from version control"):
        read_table(csv)


def test_no_key_is_made_for_a_table_that_cannot_be_used(tmp_path):
    path = write(tmp_path, "label,annotator,split\na,ann,train\nb,bob,train\na,ann,fold\nb,bob,train\n")
    with pytest.raises(DataError, match="not a split"):
        read_table(path)
    assert not (tmp_path / ".pidual.key").exists()


@pytest.mark.skipif(os.name == "nt", reason="files have no modes")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_can_read_is_refused(csv, tmp_path, mode):
    read_table(csv)
    key = tmp_path / ".pidual.key"
    key.chmod(mode)
    with pytest.raises(UsageError, match=rf"can be read by others.*chmod 600 {key}"):
        read_table(csv)
    key.chmod(0o400)
    read_table(csv)


def test_numeric_ids_have_one_pseudonym_in_every_type():
    names = [
        AnnotationTable.from_frame(
            pd.DataFrame({"label": [0, 1, 0, 1], "annotator": pd.Series([7, 8, 7, 8]).astype(dtype)}), key=b"k"
        ).frame["annotator"][0]
        for dtype in ("int64", "float64", "str", "Int8", "category")
    ]
    assert len(set(names)) == 1


def test_key_that_cannot_be_written_or_read(csv, tmp_path):
    with pytest.raises(UsageError, match=r"--key-file.*--keep-ids"):
        read_table(csv, key_file=tmp_path / "no folder" / "key")
    (tmp_path / "key").touch(mode=0o600)
    for content in b"hello", b"\xff\xfe":
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(UsageError, match=r"key is not a key file.*--key-file"):
            read_table(csv, key_file=tmp_path / "key")


def test_two_annotators_with_one_pseudonym_are_refused(csv, monkeypatch):
    class Same:
        def __init__(self, *args, **options): ...
        def hexdigest(self):
            return "0" * 12

    monkeypatch.setattr("pidual.data.people.hashlib.blake2b", Same)
    with pytest.raises(DataError, match=r"same pseudonym.*--keep-ids"):
        read_table(csv)


def test_fingerprint_follows_the_data():
    frame = pd.DataFrame({"item": list("abcd"), "label": [0, 1, 0, 1], "t": [1.0, 2, 3, 4], "y": [0, 1, 1, 1]})
    seen = {AnnotationTable.from_frame(frame, pi=["t"]).fingerprint()}
    for column, value in {"item": "z", "label": 1, "t": 9.0, "y": 0}.items():
        changed = frame.copy()
        changed.loc[2, column] = value
        changed.loc[0, "label"] = 0
        changed.loc[3, "label"] = 0 if column == "label" else 1
        seen.add(AnnotationTable.from_frame(changed, pi=["t"]).fingerprint())
    seen.add(AnnotationTable.from_frame(frame[::-1], pi=["t"]).fingerprint())
    assert len(seen) == 6


# --- errors ---


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("item,label\n", ["has no rows"]),
        ("item,label\n1,a\n2,a\n", ["column 'label'", "every label is 'a'", "two classes"]),
        ("item,label\n1,a\n2,a\n3,b\n", ["line 4", "column 'label'", "class 'b'", "one row", "merge"]),
        ("item,label\n1,a\n2,a\n3,b\n4,c\n", ["line 4", "class 'b'", "1 more classes"]),
        ('item,label\n"1\n",\n2, \n3,NaN\n', ["line 2", "column 'label'", "label is missing ('')", "2 more rows"]),
        ("item,label\n1,a\n2,None\n3,b\n", ["line 3", "missing ('None' is read as missing; rename the label"]),
        ("item,label\n1,ok\n2,ok\n3,O.K.\n", ["line 4", "class 'O.K.'", "merge it into another (--same O.K.=ok)"]),
        ("item,label\n1,a\n,b\n2,a\n3,b\n", ["line 3", "column 'item'", "item is missing"]),
        ("item,label,annotator\n1,a,x\n2,a,x\n3,b,\n4,b,x\n", ["line 4", "column 'annotator'", "annotator is missing"]),
        (
            "label,split\na,train\na,fold\nb,test\nb,test\n",
            ["line 3", "column 'split'", "'fold'", "train, valid or test"],
        ),
        ("label,split\na,train\na,test\nb,\nb,test\n", ["line 4", "column 'split'", "''"]),
    ],
)
def test_contents_that_cannot_be_used(tmp_path, content, parts):
    path = write(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_table(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"label": "lable"}, ["no column 'lable'", "did you mean 'label'?", "item, label, annotator"]),
        ({"item": "task"}, ["no column 'task'", "asked for as item"]),
        ({"y": "clean"}, ["no column 'clean'"]),
        ({"split": "part"}, ["no column 'part'", "split", "Its columns:"]),
        ({"annotator": "who"}, ["no column 'who'", "annotator"]),
        ({"item": "seconds", "pi": ["seconds"]}, ["column 'seconds'", "used twice", "item", "pi"]),
        ({"pi": ["second"]}, ["no column 'second'", "privileged information", "did you mean 'seconds'?"]),
        ({"item": "label", "label": "label"}, ["'label'", "used twice", "as item and as label"]),
        ({"pi": ["seconds", "seconds"]}, ["'seconds'", "used twice"]),
        ({"pi": ["annotator", "annotator"]}, ["listed twice"]),
        ({"pi": ["label"]}, ["'label'", "used twice"]),
        ({"pi": ["y"]}, ["'y'", "meaning of its own", "rename"]),
        ({"y": "y", "pi": ["y"]}, ["'y'", "used twice"]),
    ],
)
def test_columns_that_cannot_be_used(csv, options, parts):
    if options.get("pi") == ["label"]:
        options = {**options, "label": "label"}
    with pytest.raises(UsageError) as caught:
        read_table(csv, **options)
    for part in [str(csv), *parts]:
        assert part in str(caught.value)


def test_rows_of_one_person_and_item_are_one_answer():
    frame = pd.DataFrame({"item": [0, 0, 1, 0, 1], "label": list("abaab"), "annotator": list("xyxxx")})
    table = AnnotationTable.from_frame(frame)
    assert table.answer_codes.tolist() == [0, 1, 2, 0, 2]
    assert table.n_answers == 3
    assert AnnotationTable.from_frame(frame.assign(annotator=list("xyzwx"))).answer_codes is None
    assert AnnotationTable.from_frame(frame.drop(columns="item")).answer_codes is None


def test_rows_without_annotators_are_one_answer_if_a_rare_value_says_so():
    frame = pd.DataFrame(
        {"item": np.arange(60) // 2, "label": list("ab") * 30, "seconds": np.arange(60) / 7, "tool": 1}
    )
    twice = pd.concat([frame, frame[:5]]).assign(id=np.arange(65))

    def answers(frame, *pi):
        return AnnotationTable.from_frame(frame, pi=list(pi)).answer_codes

    assert answers(twice, "seconds", "id").tolist() == [*range(60), *range(5)]
    assert answers(twice, "tool") is None  # two people may say the same
    assert answers(twice) is None
    assert answers(frame, "seconds") is None
    assert answers(frame.assign(seconds=np.arange(60) % 20), "seconds") is None


def said(make):
    """What `make` makes, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
    return made, [str(one.message) for one in caught]


SPELLINGS = ["ok"] * 3 + [
    "OK",
    "Ok ",
    "o\u00adk",
    "r\u00fcck",
    "r\u00fcck",
    "ru\u0308ck",
    "sea gull",
    "sea  Gull",
    "\uff4fk",
]


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_spellings_are_one_class_under_the_most_frequent(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    frame = pd.DataFrame({"item": range(12), "label": SPELLINGS, "y": ["OK", "Sea gull", *SPELLINGS[2:]]})
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path) if ending == "parquet" else frame.to_json(path, orient="records", lines=True)
    table, notes = said(lambda: read_table(path))
    assert table.classes == ["ok", "r\u00fcck", "sea gull"]
    assert table.label_codes.tolist() == [0] * 6 + [1] * 3 + [2, 2, 0]
    assert table.frame["y"].cat.codes.tolist() == [0, 2, *table.label_codes[2:]]
    assert notes == [
        f"{path}, column 'label': 'OK' (1), 'Ok' (1), 'o\\xadk' (1), '\uff4fk' (1, other Unicode form) are read as "
        "'ok'; 'ru\u0308ck' (1, other Unicode form) is read as 'r\u00fcck'; 'sea  Gull' (1) is read as 'sea gull'; "
        "exact_labels=True (--exact-labels) keeps spellings apart."
    ]
    frame = pd.concat([frame, frame])
    apart, notes = said(lambda: AnnotationTable.from_frame(frame, exact_labels=True))
    assert len(apart.classes) == 9
    assert len(notes) == 1
    assert "classes that look the same" in notes[0]


def test_labels_that_are_no_answer_are_left_out_and_counted(tmp_path):
    labels = ["1", " Unsure", "2", "UNSURE", "", "-1.0", "None", "1", "2", "2", "unsure", "1", "unsure"]
    people = ["ann", "ann", "bob", "bob", "bob", "bob", "ann", "cat", "cat", "007", "7", "8", "dan"]
    frame = pd.DataFrame({"label": labels, "annotator": people})
    options = {"no_answer": ["unsure", "-1", "none"], "keep_ids": True}
    table, notes = said(lambda: AnnotationTable.from_frame(frame, **options))
    assert table.classes == [1, 2]  # numbers again
    assert table.frame["item"].tolist() == table.file_rows.tolist() == [0, 2, 7, 8, 9, 11]
    assert table.no_answers == {"ann": 2, "bob": 2, "7": 1, "dan": 1}
    assert notes == [
        "table: 1 row without a label is skipped (first: row 4 (counted from 0), column 'label').",
        "table: 6 rows (46.2%) with no answer ('unsure', '-1', 'none') are left out of the votes.",
    ]
    frame.to_csv(tmp_path / "t.csv", index=False)
    read, _ = said(lambda: read_table(tmp_path / "t.csv", no_answer=options["no_answer"]))
    assert sorted(read.no_answers.values()) == [1, 1, 2, 2]
    assert len(set(read.no_answers) & set(read.frame["annotator"].cat.categories)) == 2  # pseudonyms
    exact = {"no_answer": ["unsure", "UNSURE", "Unsure", "-1", "None"], "exact_labels": True}
    apart, _ = said(lambda: AnnotationTable.from_frame(frame, **exact))
    assert apart.label_codes.tolist() == table.label_codes.tolist()


@pytest.mark.filterwarnings("ignore:.*left out of the votes")
@pytest.mark.parametrize(
    ("no_answer", "exact", "message"),
    [
        (["unsre"], False, r"no label 'unsre' \(no_answer, --no-answer\); its labels are such as 'unsure'; correct it"),
        (["tie"], False, "its labels are such as 'a', 'b', 'unsure'"),
        (["Unsure"], True, "its labels are such as 'unsure'"),
        (["a", "b", "unsure"], False, "every label means no answer"),
        (["a", "unsure"], False, "every label is 'b'"),
    ],
)
def test_no_answers_that_cannot_be_left_out(no_answer, exact, message):
    frame = pd.DataFrame({"label": ["a", "b", "unsure"] * 2})
    with pytest.raises((UsageError, DataError), match=message):
        AnnotationTable.from_frame(frame, no_answer=no_answer, exact_labels=exact)


def test_near_spellings_are_suggested_and_merged_by_name():
    frame = pd.DataFrame({"label": ["ok", "ok", "ok", "o.k.", "O.K.", "R\u00fcckfrage", "Rueckfrage", "A+", "A"] * 2})
    frame["y"] = "o.k."
    table, notes = said(lambda: AnnotationTable.from_frame(frame))
    assert len(table.classes) == 6
    assert notes[1] == (
        "table, column 'label': classes that look the same: 'o.k.' and 'ok'; 'R\u00fcckfrage' and 'Rueckfrage'; merge "
        "them with --same o.k.=ok --same 'R\u00fcckfrage=Rueckfrage' (same= in Python) if they mean the same."
    )
    same = {"o.k.": "ok", "Rueckfrage": "R\u00fcckfrage"}
    table, notes = said(lambda: AnnotationTable.from_frame(frame, same=same))
    assert table.classes == ["A", "A+", "R\u00fcckfrage", "ok"]
    assert set(table.frame["y"]) == {"ok"}
    assert "'o.k.' (2), 'O.K.' (2) are read as 'ok'" in notes[0]
    assert read_truth(pd.DataFrame({"item": [0], "truth": ["O.k."]}), table)[0] == 3
    with pytest.raises(UsageError, match=r"has no label 'maybe' \(same, --same\); its labels: 'ok', 'o\.k\.'"):
        AnnotationTable.from_frame(frame, same={"maybe": "ok"})


def test_rows_without_a_label_are_skipped_and_counted(tmp_path):
    path = write(tmp_path, 'label,annotator\na,x\n" ",x\nb,w\n,z\na,y\n\nnan,y\nb,x\n')
    table, notes = said(lambda: read_table(path, keep_ids=True))
    assert notes == [f"{path}: 3 rows without a label are skipped (first: line 3, column 'label')."]
    assert table.skipped.tolist() == [1, 3, 5]
    assert table.file_rows.tolist() == table.frame["item"].tolist() == [0, 2, 4, 6]
    assert table.frame["annotator"].tolist() == ["x", "w", "y", "x"]
    for n, expected in ((7, [0, 2, 4, 6]), (4, [0, 1, 2, 3])):  # x has a row for each row of the file, or of the table
        assert x_rows(Inputs.from_array(np.zeros((n, 1))), table).tolist() == expected
    frame = pd.DataFrame({"label": [1.0, np.nan, 2, 1, 2], "annotator": ["x", None, "y", "x", None]})
    with pytest.raises(
        DataError, match=r"table, row 4 \(counted from 0\), column 'annotator': the annotator is missing"
    ):
        said(lambda: AnnotationTable.from_frame(frame))
    assert said(lambda: AnnotationTable.from_frame(frame[["label"]]))[0].classes == [1, 2]


@pytest.mark.parametrize("labels", [["1", "2", "x"], ["007", "7a", "08"], ["nan1", "inf", "Infinity"], ["1", "True"]])
def test_classes_that_are_different_numbers_or_none_are_not(labels):
    assert len(AnnotationTable.from_frame(pd.DataFrame({"label": labels * 2})).classes) == len(labels)


def test_durations_are_no_labels(tmp_path):
    frame = pd.DataFrame({"label": pd.to_timedelta([1, 2] * 4, "s")})
    frame.to_parquet(tmp_path / "t.parquet")
    for make in lambda: AnnotationTable.from_frame(frame), lambda: read_table(tmp_path / "t.parquet"):
        with pytest.raises(DataError, match=r"column 'label' holds duration.*; write labels as text or whole numbers"):
            make()


def test_the_frame_given_is_left_alone():
    frame = pd.DataFrame({"label": [" a", "b", "a", "b"], "t": [1, 2, 3, 4]})
    before = frame.copy()
    made = AnnotationTable.from_frame(frame, pi=["t"]).frame
    made.loc[0, "t"] = 99
    assert made["t"].tolist() == [99, 2, 3, 4]
    assert not np.shares_memory(made["t"].to_numpy(), frame["t"].to_numpy())
    pd.testing.assert_frame_equal(frame, before)


# --- from arrays ---


def test_arrays_make_the_table_that_a_frame_makes():
    frame = pd.DataFrame(
        {
            "item": ["b", "a", "b", "c"],
            "label": ["dog", "cat", "dog", "cat"],
            "worker": [7, 3, 7, 5],
            "seconds": ["1.5", "2", "", "4"],
            "split": ["train", "val", "train", "test"],
        }
    )
    made = AnnotationTable.from_frame(frame, pi=["worker", "seconds"], keep_ids=True)
    pi = frame[["worker", "seconds"]]
    for form in (pi, pi.to_dict("list"), pi.set_axis(list("wxyz"))):
        table = AnnotationTable.from_arrays(
            frame["label"].to_numpy(), frame["item"], form, split=frame["split"], keep_ids=True
        )
        pd.testing.assert_frame_equal(table.frame, made.frame)
        assert (table.pi_columns, table.people, table.keeps_ids) == (made.pi_columns, made.people, True)
        assert table.fingerprint() == made.fingerprint()
    bare = AnnotationTable.from_arrays([1, 0, 1, 0])
    assert (bare.classes, bare.pi_columns, bare.source) == ([0, 1], [], "table")
    np.testing.assert_array_equal(bare.frame["item"], range(4))


def test_arrays_hold_pseudonyms_unless_ids_are_kept():
    pi = {"annotator": ["ann", "bob"] * 2, "reviewer": ["cyd", "ann"] * 2, "tool": ["web", "eve@example.org"] * 2}
    table = AnnotationTable.from_arrays([0, 0, 1, 1], pi=pi, key=b"secret")
    assert (table.people, table.keeps_ids) == (("annotator", "reviewer", "tool"), False)
    for name in ("ann", "bob", "cyd", "eve"):
        assert name not in table.frame.drop(columns=["item"]).to_string(header=False)
    assert table.frame["annotator"][0] == table.frame["reviewer"][1] == pseudonym("ann", b"secret")
    assert table.frame["tool"].tolist()[::2] == ["web", "web"]
    assert AnnotationTable.from_arrays([0, 0, 1, 1], pi=pi).frame["annotator"][0] != table.frame["annotator"][0]
    assert AnnotationTable.from_arrays([0, 0, 1, 1], pi=pi, keep_ids=True).frame["tool"].tolist() == pi["tool"]


@pytest.mark.parametrize(
    ("arrays", "error", "said"),
    [
        ({"item": [1, 2]}, UsageError, "item has 2 rows and there are 4 labels; give one for every label"),
        ({"split": ["train"] * 3}, UsageError, "split has 3 rows and there are 4 labels"),
        ({"split": ["train", "test", "val", "later"]}, DataError, "table, row 3 .*'later' is not a split"),
        ({"pi": [1, 2, 3]}, UsageError, "pi has 3 rows .* and there are 4 labels"),
        ({"item": [1, 2, None, 3]}, DataError, "table, row 2 .*, column 'item': the item is missing"),
        ({"label": pd.Categorical(["a", None, "b", "a"])}, DataError, "table, row 1 .*: the label is missing"),
        ({"label": [0, 0, 0, 1]}, DataError, "the class 1 has this one row only"),
        (
            {"item": ["a@b.org", "c@d.org", "e@f.org", "g@h.org"]},
            DataError,
            "row 0 .*: the item has an e-mail address in it",
        ),
        ({"item": ["a", "b", "img/c@d.org/1.png", "d"]}, DataError, "row 2 .*: the item has an e-mail address in it"),
        ({"label": pd.Categorical([0, 1, 0, 1], [0, 1, "c@d.org"])}, DataError, "table, column 'label': the label has"),
        ({"pi": {"a@b.org": [1, 2, 3, 4]}}, UsageError, "is named by an e-mail address"),
    ],
)
def test_arrays_that_cannot_be(arrays, error, said):
    with pytest.raises(error, match=said):
        AnnotationTable.from_arrays(**{"label": [0, 1, 0, 1], **arrays})


def test_categories_of_labels_are_the_classes_as_they_are():
    labels = pd.Categorical.from_codes([1, 0, 1], [2.5, " NA "])
    assert AnnotationTable.from_arrays(labels).classes == [2.5, " NA "]


def test_categories_of_many_items_keep_no_table_of_python_objects(csv):
    frame = read_table(csv, keep_ids=True).frame
    for name in ("item", "annotator"):
        assert "_engine" not in frame[name].cat.categories._cache
        assert frame[name].cat.categories.get_loc(frame[name].iloc[0]) == 0
