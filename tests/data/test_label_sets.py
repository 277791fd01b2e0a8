"""Answers that are sets of labels are read from every form that tools write, and are the same sets in each."""

import json

import numpy as np
import pandas as pd
import pytest

from pidual import AnnotationTable, DataError, DataWarning, UsageError, read_table

SETS = [["dog"], ["dog", "cat"], ["bird"], ["cat", "dog"], ["cat"], ["bird", "cat", "dog"]]
SAID = [[0, 0, 1], [0, 1, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0], [1, 1, 1]]  # bird, cat, dog
BASE = pd.DataFrame({"item": [*"aabbcc"], "annotator": [*"xyxyxy"]})


def said(table):
    assert table.sets.classes == ["bird", "cat", "dog"]
    return table.sets.said.toarray().astype(int).tolist()


def written(tmp_path, name):
    path, frame = tmp_path / name, BASE.assign(tags=SETS)
    if name == "text.csv":
        frame.assign(tags=frame["tags"].map(" | ".join)).to_csv(path, index=False)
    elif name == "signs.csv":
        signs = pd.DataFrame(SAID, columns=["tag_bird", "tag_cat", "tag_dog"])
        BASE.join(signs).to_csv(path, index=False)
    elif name == "lists.parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=name.endswith("l"))
    return path


HOW = {
    "text.csv": {"label": "tags", "label_separator": "|"},
    "signs.csv": {"labels": ["tag_*"]},
    "lists.parquet": {"label": "tags"},
    "lists.jsonl": {"label": "tags"},
    "lists.json": {"label": "tags"},
}


@pytest.mark.parametrize("name", HOW)
def test_every_form_holds_the_same_sets(tmp_path, name):
    table = read_table(written(tmp_path, name), keep_ids=True, **HOW[name])
    assert said(table) == SAID
    assert table.unused == ()
    assert table.fingerprint() != AnnotationTable.from_frame(BASE.assign(label=[*"pqpqpq"])).fingerprint()


def test_a_frame_of_lists_is_read_without_options():
    assert said(AnnotationTable.from_frame(BASE.assign(label=SETS), keep_ids=True)) == SAID


def choices(labels, who):
    result = [{"from_name": "tags", "to_name": "text", "type": "choices", "value": {"choices": labels}}]
    return {"completed_by": who, "result": result}


def test_multiple_choices_of_label_studio_and_argilla_are_sets(tmp_path):
    studio = [
        {"id": at, "data": {"text": f"text {at}"}, "annotations": [choices(SETS[2 * at + who], who) for who in (0, 1)]}
        for at in range(3)
    ]
    argilla = [
        {
            "id": str(at),
            "fields": {"text": f"text {at}"},
            "responses": [
                {"user_id": who, "status": "submitted", "values": {"tags": {"value": SETS[2 * at + who]}}}
                for who in (0, 1)
            ],
        }
        for at in range(3)
    ]
    for name, records in {"studio.json": studio, "argilla.json": argilla}.items():
        (tmp_path / name).write_text(json.dumps(records))
        with pytest.warns(DataWarning, match="--multi-label judges each class"):
            assert said(read_table(tmp_path / name, multi_label=True, keep_ids=True)) == SAID


def test_an_empty_set_is_an_answer_and_a_missing_one_is_none(tmp_path):
    frame = BASE.assign(label=pd.Series([[], ["dog"], None, ["cat"], ["dog"], ["cat"]], dtype=object))
    with pytest.warns(DataWarning, match="1 rows without an answer"):
        table = AnnotationTable.from_frame(frame, keep_ids=True)
    assert table.sets.said.toarray().astype(int).tolist() == [[0, 0], [0, 1], [1, 0], [0, 1], [1, 0]]
    assert table.file_rows.tolist() == [0, 1, 3, 4, 5]
    BASE.assign(tags=["", "dog", "dog;cat", "cat", "dog", "cat"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(DataWarning, match="1 rows with an empty 'tags' are read as answers with no class"):
        table = read_table(tmp_path / "t.csv", label="tags", label_separator=";", keep_ids=True)
    assert table.sets.said.toarray()[0].tolist() == [False, False]


def test_signs_that_are_not_0_or_1_are_named_by_row_and_column(tmp_path):
    frame = BASE.assign(t_a=[0, 1, 0, 1, 0, 1], t_b=[1, 0, "maybe", 1, 0, 1])
    with pytest.raises(DataError, match=r"row 2.*column 't_b': 'maybe' is not 0 or 1"):
        AnnotationTable.from_frame(frame, labels=["t_*"], keep_ids=True)
    frame["t_b"] = [1, 0, None, 1, 0, 1]
    with pytest.raises(DataError, match=r"row 2.*column 't_b' is empty; write 0 or 1"):
        AnnotationTable.from_frame(frame, labels=["t_*"], keep_ids=True)
    with pytest.raises(UsageError, match=r"has no column like 'z_\*'"):
        AnnotationTable.from_frame(frame, labels=["z_*"], keep_ids=True)


def test_rows_of_one_class_each_name_item_and_side():
    sets = [["no dog"], ["dog"], ["dog", "no dog"], [], ["dog"], []]
    table = AnnotationTable.from_frame(BASE.assign(label=sets, y=[["dog"]] * 6), keep_ids=True)
    assert table.sets.sides == ["not dog", "dog", "not no dog", "no dog"]  # "no " would make two classes one
    long = table.long(np.array([0, 1, 3]), np.array([0, 1, 0]))
    assert long.frame["item"].tolist() == ["a · dog", "a · no dog", "b · dog"]
    assert long.frame["label"].tolist() == ["not dog", "not no dog", "not dog"]
    assert long.frame["y"].tolist() == ["dog", "not no dog", "dog"]
    assert long.frame["tagged_item"].tolist() == ["a", "a", "b"]
    assert long.file_rows.tolist() == [0, 1, 3]


def test_spellings_of_a_class_are_merged_and_what_cannot_be_used_is_refused():
    with pytest.warns(DataWarning, match="'Dog' \\(1\\) is read as 'dog'"):
        table = AnnotationTable.from_frame(BASE.assign(label=[["Dog"], *SETS[1:]]), keep_ids=True)
    assert said(table) == SAID
    with pytest.raises(UsageError, match="--no-answer"):
        AnnotationTable.from_frame(BASE.assign(label=SETS), no_answer=["cat"])
    with pytest.raises(UsageError, match="known classes"):
        AnnotationTable.from_frame(BASE.assign(label=SETS, truth="dog"))
    with pytest.raises(DataError, match="e-mail"):
        AnnotationTable.from_frame(BASE.assign(label=[["x@example.org"], *SETS[1:]]))


def test_spans_boxes_and_numbers_are_refused_with_a_pointer(tmp_path):
    spans = BASE.assign(label=[[{"start": 0, "end": 3, "label": "name"}]] * 6)
    with pytest.raises(DataError, match=r"holds lists of objects.*docs/multi_label\.md"):
        AnnotationTable.from_frame(spans, keep_ids=True)
    with pytest.raises(DataError, match=r"holds numbers such as '?0\.5.*make levels.*docs/multi_label\.md"):
        AnnotationTable.from_frame(BASE.assign(label=[0.5, 1.25, 2.5, 3.1, 4.7, 5.2]), keep_ids=True)
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["car"]}}
    tasks = [{"id": 1, "data": {"image": "a.png"}, "annotations": [{"completed_by": 1, "result": [box]}]}]
    (tmp_path / "boxes.json").write_text(json.dumps(tasks))
    with pytest.raises(
        DataError, match=r"rectanglelabels, and pidual needs classes of whole items .*docs/multi_label\.md"
    ):
        read_table(tmp_path / "boxes.json")
