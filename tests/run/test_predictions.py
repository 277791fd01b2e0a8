import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pidual.errors import RunError, UsageError
from pidual.run.predictions import REASON_PARTS, Predictions, read_frame, write_frame
from pidual.run.predictions.columns import PREDICTIONS_COLUMNS, Column


def table(classes, **more) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "item": pd.Categorical(["a", "b", "a", "c"]),
            "label": pd.Categorical.from_codes([0, 1, 1, 0], pd.Index(classes)),
        }
    )
    return frame.assign(**more)


def predictions(classes=("cat", "dog", "never used"), **more) -> Predictions:
    return Predictions.build(
        table(classes, **more.pop("columns", {})),
        list(classes),
        predicted_label=[0, 1, 0, 1],
        predicted_probability=[0.9, 0.8, 0.9, 0.6],
        label_quality=[0.9, 0.8, 0.1, 0.4],
        **more,
    )


@pytest.mark.parametrize("classes", [("cat", "dog", "never used"), (3, 7, 20), ("10", "2", "1"), ("<b>", "né", "")])
def test_class_names_survive_the_file(tmp_path, classes):
    y = pd.Categorical.from_codes([0, 3, -1, 1], pd.Index([*classes, 99 if classes[0] == 3 else "only in y"]))
    before = predictions(classes, gate=[0.1, 0.2, 0.9, 0.5], noise_label=[2, 2, 1, 0], columns={"y": y})
    before.write(tmp_path / "predictions.parquet")
    after = Predictions.read(tmp_path / "predictions.parquet")
    assert after.classes == list(classes)
    assert [type(name) for name in after.classes] == [type(name) for name in classes]
    for column in ("given_label", "predicted_label", "noise_label", "y"):
        assert after.frame[column].cat.categories.tolist() == before.frame[column].cat.categories.tolist()
        assert after.frame[column].cat.codes.tolist() == before.frame[column].cat.codes.tolist()
    assert after.frame["item"].tolist() == ["a", "b", "a", "c"]
    pd.testing.assert_series_equal(after.frame["label_quality"], before.frame["label_quality"])


def test_columns_are_compact_and_in_order():
    made = predictions(
        gate=[0.0] * 4, noise_label=[0] * 4, columns={"annotator": ["p", "q", "p", "q"], "tool": list("xyxy")}
    )
    made = Predictions.build(
        table(["cat", "dog"], annotator=["p", "q", "p", "q"], tool=list("xyxy"), gate=[1, 2, 3, 4]),
        ["cat", "dog"],
        predicted_label=made.predicted,
        predicted_probability=made.predicted_probability,
        label_quality=made.label_quality,
        pi_columns=["annotator", "tool", "gate"],
    )
    absent = ("gate", "noise_label", "y", "reason", *REASON_PARTS)
    absent += ("table_row", "tagged_item", "tag", "given_probability", "given_margin")
    own = [name for name in PREDICTIONS_COLUMNS if name not in absent]
    assert list(made.frame) == [*own, "tool", "pi_gate", "reason"]
    assert made.pi_columns == ["tool", "pi_gate"]
    assert made.frame["label_quality"].dtype == np.float32
    assert isinstance(made.frame["tool"].dtype, pd.CategoricalDtype)
    assert made.gate is None
    assert made.annotator.tolist() == [0, 1, 0, 1]
    assert made.frame["split"].tolist() == ["train"] * 4


def test_issues_carry_their_reasons_and_leave_the_original_alone(tmp_path):
    before = predictions()
    parts = {
        "votes": ["because.", "also."],
        "pi": ["", "Slow."],
        "gate": ["", ""],
        "whole": ["because.", "also. Slow."],
    }
    marked = before.with_issues([False, False, True, True], parts)
    assert (before.n_issues, marked.n_issues) == (0, 2)
    assert marked.frame["reason"].tolist() == ["", "", "because.", "also. Slow."]
    assert marked.reason_parts == ["reason_votes", "reason_pi"]  # the gate says nothing
    assert marked.with_issues([True, False, False, False], {"label": ["no."]}).reason_parts == ["reason_label"]
    marked.write(tmp_path / "p.parquet")
    again = Predictions.read(tmp_path / "p.parquet")
    assert again.frame["reason_pi"].tolist() == ["", "", "", "Slow."]
    assert again.issues()["reason"].tolist() == ["because.", "also. Slow."]
    assert list(again.issues()) == list(before.frame)
    assert again.frame["reason"].tolist()[0] == ""
    with pytest.raises(UsageError, match="2 issues need as many reasons, but got 1"):
        before.with_issues([True, True, False, False], {"votes": ["one"]})


def test_integer_items_and_mixed_pi_values(tmp_path):
    frame = table(["cat", "dog"]).assign(item=pd.Categorical([5, 1, 5, 2]), odd=["a", 1, None, 2.5])
    made = Predictions.build(
        frame,
        ["cat", "dog"],
        predicted_label=[0] * 4,
        predicted_probability=[1] * 4,
        label_quality=[1] * 4,
        pi_columns=["odd"],
    )
    made.write(tmp_path / "p.parquet")
    again = Predictions.read(tmp_path / "p.parquet")
    assert again.frame["item"].tolist() == [5, 1, 5, 2]
    assert again.frame["odd"].tolist()[:2] == ["a", "1"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "p.parquet"
    predictions().write(path)
    old = path.read_bytes()
    broken = predictions().frame.assign(given_label=pd.Categorical([object(), 1, 1, 1]))
    with pytest.raises(TypeError):
        write_frame(path, broken)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(RunError, match=r"no nothing\.parquet"):
        read_frame(tmp_path / "nothing.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(RunError, match=r"bad\.parquet is not a Parquet file"):
        read_frame(tmp_path / "bad.parquet")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(RunError, match="was not written by pidual"):
        Predictions.read(tmp_path / "other.parquet")
    predictions().write(tmp_path / "p.parquet")
    with pytest.raises(RunError, match="no column 'gate'"):
        Predictions.read(tmp_path / "p.parquet", ["gate"])
    with pytest.raises(UsageError, match=r"gate needs one value for each of the 4 annotations.*\(2,\)"):
        predictions(gate=[0.1, 0.2])


def test_text_of_which_none_is_known_stays_text(tmp_path):
    """Whatever type pandas has for it: pandas 2 has none of its own."""
    write_frame(tmp_path / "p.parquet", pd.DataFrame({"copies": pd.Series([None, None], dtype=object), "a": [1, 2]}))
    assert str(pq.read_schema(tmp_path / "p.parquet").field("copies").type) == "string"


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("share", [0.5, 1.5], "must hold numbers from 0 to 1"),
        ("share", [1, 0], "must hold numbers from 0 to 1"),
        ("share", [0.5, None], "has missing values"),
        ("number", [0.5, np.inf], "must hold finite numbers"),
        ("count", [1, -1], "must hold whole numbers of at least 0"),
        ("flag", [1, 0], "must hold true or false"),
        ("text", [1, 0], "must hold text"),
        ("png", [b"\x89PNG\r\n\x1a\n", b"GIF"], "must hold PNG images"),
        ("label", [0.5, 1.5], "does not say what classes"),
        ("name", [True, False], "must hold names"),
        ("name", [[1], [2]], "holds list"),
    ],
)
def test_a_column_of_another_kind_is_refused(tmp_path, kind, values, words):
    path = tmp_path / "p.parquet"
    write_frame(path, pd.DataFrame({"a": [0, 1]}))
    table = pa.table({"a": values}).replace_schema_metadata(pq.read_schema(path).metadata)
    pq.write_table(table, path)
    with pytest.raises(RunError, match=rf"p\.parquet .*{words}"):
        read_frame(path, schema={"a": Column(kind, "")})
