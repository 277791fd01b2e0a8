"""Exports of labelling tools become long tables."""

import gzip
import json
import zipfile

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import write_key
from export_files import annotation, result, review_tasks, task, write_json, write_min
from hypothesis import given, settings
from hypothesis import strategies as st

from pidual import read_table
from pidual.cli.options import FORMATS as NAMES_IN_HELP
from pidual.data import open_source, table_inputs
from pidual.data.exports import FORMATS
from pidual.data.reopen import reopen_table
from pidual.errors import DataError, DataWarning, UsageError

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture
def folder(tmp_path):
    write_key(tmp_path)
    return tmp_path


def rows_of(source, *columns):
    """The rows of a source as tuples."""
    return list(zip(*(source.read([column])[column].to_pylist() for column in columns), strict=True))


def label_studio(folder, tasks, **options):
    return open_source(write_json(folder / "export.json", tasks), **options)


def test_the_formats_in_help_are_those_there_are():
    assert set(NAMES_IN_HELP) == set(FORMATS)


# --- Label Studio ---


def test_answers_of_label_studio(folder):
    person = {"id": 4, "email": "ann@example.org", "first_name": "Ann", "last_name": ""}
    source = label_studio(
        folder,
        [
            task(1, [annotation("cat", 3), annotation("dog", person, lead_time=None)]),
            task(2, [annotation("dog", person, created_at="2024-05-01T09:30:00Z")], text="another", note=7),
        ],
    )
    assert rows_of(source, "item", "label", "annotator", "seconds") == [
        (1, "cat", "3", 4.288),
        (1, "dog", "ann@example.org", None),
        (2, "dog", "ann@example.org", 4.288),
    ]
    assert rows_of(source, "trial", "hour", "text", "note") == [
        (1, 10, "this is the text of task 1", None),
        (2, 10, "this is the text of task 1", None),
        (1, 9, "another", 7),
    ]
    assert source.guess == (["annotator", "trial", "hour"], "text", [], None)
    assert source.place(2).endswith("export.json, task 2")


def test_ground_truth_is_the_clean_label_and_no_answer(folder):
    tasks = [task(1, [annotation("cat"), annotation("dog", 7, ground_truth=True)]), task(2, [annotation("dog")])]
    assert rows_of(label_studio(folder, tasks), "item", "label", "y") == [(1, "cat", "dog"), (2, "dog", None)]


def test_what_is_left_out_is_counted(folder):
    given = [annotation("cat"), annotation("dog", was_cancelled=True), annotation([]), annotation("x", skipped=True)]
    with pytest.warns(DataWarning, match="annotations that are left out: 2 cancelled, 1 without a label"):
        source = label_studio(folder, [task(1, given)])
    assert rows_of(source, "label") == [("cat",)]


@pytest.mark.parametrize(
    ("results", "labels"),
    [
        ([result(["a", "b"])], ["a", "b"]),
        ([result("a"), result("a")], ["a"]),
        ([result([["animal", "cat"], ["plant"]], type_="taxonomy")], ["animal / cat", "plant"]),
        ([result(4, type_="rating")], [4]),
        ([result("left", type_="pairwise", key="selected")], ["left"]),
        ([result("a"), {"type": "rectanglelabels", "value": {"rectanglelabels": ["x"]}, "from_name": "box"}], ["a"]),
    ],
)
@pytest.mark.filterwarnings("ignore::pidual.errors.DataWarning")
def test_kinds_of_results(folder, results, labels):
    assert rows_of(label_studio(folder, [task(1, [annotation(results)])]), "label") == [(label,) for label in labels]


def test_which_of_several_controls(folder):
    both = [result("good"), result("food", control="topic")]
    tasks = [task(number, [annotation(both)], text="so good", topic="x") for number in (1, 2)]
    path = write_json(folder / "export.json", tasks)
    with pytest.raises(UsageError, match=r"several controls: 'sentiment', 'topic'; say which .* \(--label\)"):
        open_source(path)
    with pytest.raises(UsageError, match="no answers to 'mood'; it has answers to 'sentiment', 'topic'"):
        open_source(path, label="mood")
    source = open_source(path, label="topic")
    assert rows_of(source, "label", "data_topic") == [("food", "x")] * 2
    assert source.called("topic") == "label"


@pytest.mark.parametrize(
    ("parent", "origin", "expected"),
    [
        (None, "manual", "no"),
        (None, "prediction", "accepted"),
        (None, "prediction-changed", "changed"),
        (5, "manual", "changed"),
        (5, "prediction", "accepted"),
        (5, None, "yes"),
    ],
)
def test_whether_the_annotator_began_with_a_prediction(folder, parent, origin, expected):
    given = annotation([result("a", origin=origin)], parent_prediction=parent)
    assert rows_of(label_studio(folder, [task(1, [given])]), "pre_annotated") == [(expected,)]


def test_completions_of_old_versions(folder):
    old = {"id": 3, "data": {"text": "some old text"}, "completions": [{"created_at": 1600000000, "lead_time": 2.5}]}
    old["completions"][0] |= {"id": 3001, "result": [result("a")]}
    old["completions"].append({"id": 3002, "skipped": True, "result": []})
    with pytest.warns(DataWarning, match="1 cancelled"):
        source = label_studio(folder, [old])
    assert rows_of(source, "item", "label", "seconds", "hour") == [(3, "a", 2.5, 12)]
    assert "annotator" not in source


def test_fields_called_like_columns_of_a_table(folder):
    source = label_studio(folder, [task(1, [annotation("a")], label="x", split="fold 3", item=9, seconds=1)])
    assert rows_of(source, "item", "label", "seconds") == [(1, "a", 4.288)]
    assert rows_of(source, "data_item", "data_label", "data_split", "data_seconds") == [(9, "x", "fold 3", 1)]


def test_vectors_are_inputs(folder):
    tasks = [task(n, [annotation("a"), annotation("b", 2)], embedding=[n, 0.5], text="two words") for n in (1, 2)]
    source = label_studio(folder, tasks)
    assert source.guess.columns == ["embedding_0", "embedding_1"]
    inputs = table_inputs(source, columns=source.guess.columns)
    assert inputs.array.tolist() == [[1, 0.5], [2, 0.5]]


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([task(1, [annotation("a", ground_truth=True)])], "all answers are marked as ground truth"),
        ([task(1, [annotation("a", was_cancelled=True)])], "all are left out (1 cancelled)"),
        ([task(1, [])], "there is no answer in it"),
        (
            [task(1, [annotation([{"type": "rectanglelabels", "value": {}}])])],
            "it has 1 rectanglelabels, and pidual needs classes of whole items",
        ),
    ],
)
def test_exports_without_answers(folder, tasks, said):
    with pytest.raises(DataError) as caught:
        label_studio(folder, tasks)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (task(8, "x"), "annotations: this is text, not a list"),
        (task(8, [5]), "annotations: this is a number, not a list of objects"),
        (task(8, [annotation("a", result="x")]), "result: this is text, not a list"),
        (task(8, [annotation([{"type": "choices", "value": "x"}])]), "result.value: this is text, not an object"),
        (task(8, [annotation([{"type": "choices", "value": {}}])]), "result.value.choices: this is null, not a list"),
        (task(8, [annotation([result([{}])])]), "result.value.choices: this is an object, not a list of texts"),
        (task(8, [annotation([result("x", type_="rating")])]), "result.value.rating: this is text, not a number"),
        (task(8, [annotation([result(["x"], type_="taxonomy")])]), "result.value.taxonomy: this is text, not a list"),
        (task(8, [annotation("a", [3])]), "completed_by: this is a list, not a number, text or object"),
        (task(8, [annotation("a", lead_time="4 s")]), "lead_time: this is text, not a number"),
        (task(8, [annotation("a", created_at=[])]), "created_at: this is a list, not text"),
        (task(8, [annotation("a", created_at=1e30)]), "created_at: this is not a time in seconds since 1970"),
        (task(8, [annotation("a")]) | {"data": None}, "data: this is null, not an object"),
    ],
)
def test_a_broken_task_is_named_with_its_field(folder, broken, said):
    with pytest.raises(DataError) as caught:
        label_studio(folder, [task(1, [annotation("a")]), broken])
    assert f"export.json, task 8, {said}" in str(caught.value)
    assert "export it again from Label Studio, or correct the file." in str(caught.value)


def test_a_gzipped_export_and_json_lines(folder):
    tasks = review_tasks(5)
    (folder / "export.json.gz").write_bytes(gzip.compress(json.dumps(tasks, indent=1).encode()))
    plain = label_studio(folder, tasks)
    for path in (folder / "export.json.gz", write_json(folder / "export.jsonl", tasks, lines=True)):
        assert rows_of(open_source(path), "item", "label") == rows_of(plain, "item", "label")


@pytest.mark.filterwarnings("ignore::pidual.errors.DataWarning")
def test_columns_may_be_called_as_label_studio_calls_them(folder):
    path = write_json(folder / "export.json", review_tasks(20))
    table = read_table(path, item="id", label="sentiment", annotator="completed_by", pi=["completed_by", "lead_time"])
    assert table.pi_columns == ["annotator", "seconds"]
    assert table.classes == ["Negative", "Positive"]
    assert table.frame["y"].notna().sum() == 6
    assert read_table(path).pi_columns == ["annotator", "seconds", "trial", "hour"]


@pytest.mark.parametrize("name", ["min.json", "export.csv"])
@pytest.mark.parametrize("several", [True, False])
def test_flat_exports_of_label_studio(folder, name, several):
    tasks = [each | {"annotations": each["annotations"][: 3 if several else 1]} for each in review_tasks(20)]
    flat = open_source(write_min(folder / name, tasks))
    whole = label_studio(folder, tasks)
    for column in ("label", "annotator", "trial", "hour", "text"):
        assert rows_of(flat, column) == rows_of(whole, column), column
    assert [float(seconds) for (seconds,) in rows_of(flat, "seconds")] == [s for (s,) in rows_of(whole, "seconds")]
    assert [int(item) for (item,) in rows_of(flat, "item")] == [item for (item,) in rows_of(whole, "item")]
    assert flat.guess == whole.guess
    assert read_table(folder / name, label="sentiment").classes == ["Negative", "Positive"]


def test_the_control_of_a_flat_export_must_be_clear(folder):
    tasks = [task(n, [annotation("ab"[n % 2])], text=f"text {n} x", topic="xy"[n % 2]) for n in range(9)]
    path = write_min(folder / "export.csv", tasks)
    with pytest.raises(UsageError, match=r"several columns that may be the label: sentiment, topic; .*--label"):
        open_source(path)
    assert rows_of(open_source(path, label="topic"), "label")[:2] == [("x",), ("y",)]
    with pytest.raises(UsageError, match="no column 'mood'"):
        open_source(path, label="mood")
    few = write_min(folder / "few.csv", [task(n, [annotation(f"a{n}")], text="x") for n in range(9)])
    with pytest.raises(UsageError, match="no column that looks like a label: sentiment, text"):
        open_source(few)


def test_cells_of_several_labels(folder):
    cells = ["a", '{"choices": ["a", "b"]}', '[{"rating": 4}]', '[{"taxonomy": [["x", "y"]]}]', "", "[other]", '["c"]']
    columns = {"id": range(7), "annotator": 1, "annotation_id": range(7), "lead_time": 2.5, "tag": cells}
    pd.DataFrame(columns).to_csv(folder / "export.csv", index=False)
    found = rows_of(open_source(folder / "export.csv", label="tag"), "item", "label")
    assert found == [("0", "a"), ("1", "a"), ("1", "b"), ("2", "4"), ("3", "x / y"), ("5", "[other]"), ("6", "c")]
    pd.DataFrame(columns | {"tag": '[{"x": 1}]'}).to_csv(folder / "boxes.csv", index=False)
    with pytest.raises(DataError, match=r"line 2, column 'tag': .* is not a class"):
        open_source(folder / "boxes.csv", label="tag")


def test_a_format_that_the_file_does_not_have(folder):
    pd.DataFrame({"a": [1]}).to_csv(folder / "t.csv", index=False)
    with pytest.raises(UsageError, match="no column 'id', so it is not a flat export of Label Studio"):
        open_source(folder / "t.csv", format="label-studio-min")
    with pytest.raises(UsageError, match="cannot be of the format argilla, which is JSON"):
        open_source(folder / "t.csv", format="argilla")
    with pytest.raises(UsageError, match="no format 'x'; use one of label-studio, "):
        open_source(folder / "t.csv", format="x")
    with pytest.raises(DataError, match="task 1, data: this is null, not an object"):
        open_source(write_json(folder / "t.json", [{"a": 1}]), format="label-studio")


# --- other tools ---


def argilla_records(version):
    """The same two records as version 1 and 2 of Argilla write them."""
    given = [("u1", "good", "submitted"), ("u2", "bad", "submitted"), ("u3", "bad", "discarded")]
    if version == 2:
        answers = {"mood": [{"value": value, "user_id": who, "status": status} for who, value, status in given]}
        suggestions = {"mood": {"value": "good", "score": 0.9, "agent": "model"}}
    else:
        answers = [
            {"values": {"mood": {"value": value}}, "status": status, "user_id": who} for who, value, status in given
        ]
        suggestions = [{"question_name": "mood", "value": "good", "score": 0.9, "agent": "model"}]
    first = {"id": "r1", "fields": {"text": "a fine day"}, "metadata": {"source": "mail"}, "responses": answers}
    second = {"id": "r2", "fields": {"text": "a bad day"}, "metadata": {}, "suggestions": {}, "vectors": {}}
    second["responses"] = {"mood": [{"value": "bad", "user_id": "u1"}]} if version == 2 else []
    return [first | {"suggestions": suggestions, "vectors": {}}, second]


@pytest.mark.parametrize("version", [1, 2])
def test_responses_of_argilla(folder, version):
    path = write_json(folder / "records.json", argilla_records(version))
    with pytest.warns(DataWarning, match="annotations that are left out: 1 discarded"):
        source = open_source(path)
    expected = [("r1", "good", "u1", "accepted"), ("r1", "bad", "u2", "changed"), ("r2", "bad", "u1", "no")]
    found = rows_of(source, "item", "label", "annotator", "pre_annotated")
    assert found == expected[: 3 if version == 2 else 2]
    assert source.guess.text == "text"
    assert rows_of(source, "source")[0] == ("mail",)
    assert source.place(0).endswith("record 'r1'")


@pytest.mark.parametrize("ending", ["json", "parquet", "arrow"])
def test_flat_records_of_argilla(folder, ending):
    records = [
        {"id": "r1", "status": "completed", "_server_id": "s", "text": "a fine day", "mood.suggestion": "good"},
        {"id": "r2", "status": "pending", "_server_id": "s", "text": "a bad day", "mood.suggestion": None},
    ]
    records[0] |= {"mood.responses": ["good", "bad"], "mood.responses.users": ["u1", "u2"]}
    records[0] |= {"mood.responses.status": ["submitted", "submitted"], "mood.suggestion.score": 0.5}
    records[1] |= {"mood.responses": None, "mood.responses.users": None, "mood.responses.status": None}
    path, table = folder / f"records.{ending}", pa.Table.from_pylist(records)
    if ending == "json":
        write_json(path, records)
    elif ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    source = open_source(path)
    found = rows_of(source, "item", "label", "annotator", "pre_annotated", "text")
    assert found == [("r1", "good", "u1", "accepted", "a fine day"), ("r1", "bad", "u2", "changed", "a fine day")]
    assert source.columns == ["item", "label", "annotator", "pre_annotated", "text"]


def test_several_questions_of_argilla(folder):
    record = {"id": 1, "fields": {"text": "x y"}, "responses": {}}
    record["responses"] = {"mood": [{"value": 3, "user_id": "u"}], "why": [{"value": "because", "user_id": "u"}]}
    record["responses"]["rank"] = [{"value": [{"rank": 1, "value": "a"}], "user_id": "u"}]
    path = write_json(folder / "records.json", [record])
    with pytest.raises(UsageError, match="several questions: 'mood', 'why'"):
        open_source(path)
    assert rows_of(open_source(path, label="mood"), "label") == [(3,)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"responses": {"mood": 5}}, "responses.mood: this is a number, not a list"),
        ({"responses": [{"values": 5}]}, "responses.values: this is a number, not an object"),
        ({"responses": [{"values": {"mood": 5}}]}, "responses.values.mood: this is a number, not an object"),
        ({"responses": {"mood": [{"value": "a", "user_id": {}}]}}, "user_id: this is an object, not a number or text"),
        ({"responses": {"mood": [{"value": "a", "status": 5}]}}, "responses.status: this is a number, not text"),
        ({"suggestions": 5, "responses": []}, "suggestions: this is a number, not an object"),
        ({"metadata": 5, "responses": []}, "metadata: this is a number, not an object"),
    ],
)
def test_a_broken_record_of_argilla(folder, change, said):
    with pytest.raises(DataError) as caught:
        open_source(write_json(folder / "r.json", [{"id": "r9", "fields": {"text": "x"}} | change]))
    assert f"record 'r9', {said}" in str(caught.value)


@pytest.mark.parametrize("field", ["label", "labels", "cats"])
def test_examples_of_doccano(folder, field):
    examples = [
        {"id": 1, "text": "good day", field: ["pos"], "annotator": "ann", "Comments": []},
        {"id": 2, "text": "bad day", field: ["neg"], "annotator": "bob", "lang": "en"},
        {"id": 3, "text": "a day", field: []},
    ]
    with pytest.warns(DataWarning, match="1 without a label"):
        source = open_source(write_json(folder / "all.jsonl", examples, lines=True))
    assert rows_of(source, "item", "label", "annotator", "lang") == [(1, "pos", "ann", None), (2, "neg", "bob", "en")]
    assert source.guess.text == "text"


def test_cats_of_spacy_and_annotations_of_old_versions(folder):
    cats = [{"text": "good day", "cats": {"pos": 1.0, "neg": 0.0}}, {"text": "bad day", "cats": {"pos": 0, "neg": 1}}]
    assert rows_of(open_source(write_json(folder / "c.json", cats)), "item", "label") == [(1, "pos"), (2, "neg")]
    old = [{"id": 5, "text": "so so", "annotations": [{"label": 2, "user": 1}, {"label": 3, "user": 4}], "meta": {}}]
    with pytest.warns(DataWarning, match="fields meta hold"):
        source = open_source(write_json(folder / "o.jsonl", old, lines=True))
    assert rows_of(source, "item", "label", "annotator") == [(5, 2, "1"), (5, 3, "4")]


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_of_doccano_for_each_annotator(folder, packed):
    folder = folder / "out"
    folder.mkdir()
    for name, label in (("ann", "pos"), ("bob", "neg")):
        write_json(folder / f"{name}.jsonl", [{"id": 1, "text": "a fine day", "label": [label]}], lines=True)
    path = folder
    if packed:
        path = folder / "out.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(folder.glob("*.jsonl")):
                archive.write(file, file.name)
    assert rows_of(open_source(path), "item", "label", "annotator") == [(1, "pos", "ann"), (1, "neg", "bob")]


def test_a_zip_file_that_is_none(folder):
    (folder / "x.zip").write_bytes(b"PK no")
    with pytest.raises(DataError, match=r"x\.zip cannot be read as \.zip"):
        open_source(folder / "x.zip")
    with zipfile.ZipFile(folder / "y.zip", "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(UsageError, match=r"y\.zip is a \.zip file without JSON"):
        open_source(folder / "y.zip")
    with zipfile.ZipFile(folder / "z.zip", "w") as archive:
        archive.writestr("a.jsonl", b'{"text": "caf\xe9", "label": ["a"]}')
    with pytest.raises(DataError, match=r"z\.zip/a\.jsonl is not UTF-8"):
        open_source(folder / "z.zip")


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ({"label": [[0, 4, "PER"]]}, "holds no answers to learn from: it has 1 spans of text"),
        ({"label": [{}]}, "example 7, label: this is an object, not a list of classes"),
        ({"cats": {"a": "x"}}, "example 7, cats: this is text, not numbers of classes"),
        ({"label": ["a"], "annotator": {}}, "example 7, annotator: this is an object, not a number or text"),
        ({"annotations": [{}]}, "example 7, annotations.label: this is null, not a number or text"),
    ],
)
def test_a_broken_example_of_doccano(folder, example, said):
    with pytest.raises(DataError) as caught:
        open_source(write_json(folder / "all.json", [{"id": 7, "text": "x"} | example]))
    assert said in str(caught.value)


# --- plain tables ---


def test_a_list_of_flat_objects(folder):
    rows = [{"item": 1, "label": "a", "n": 1, "v": [1, 2]}, {"item": 2, "label": "b", "n": 2.5, "v": [3, 4]}]
    rows += [{"item": 3, "label": "a", "worker": "ann", "z": {"a": 1}}]
    with pytest.warns(DataWarning, match="columns z hold lists or objects and are not used"):
        source = open_source(write_json(folder / "t.json", rows))
    assert source.columns == ["item", "label", "n", "v_0", "v_1", "worker"]
    assert rows_of(source, "item", "label", "n", "worker") == [
        (1, "a", 1, None),
        (2, "b", 2.5, None),
        (3, "a", None, "ann"),
    ]
    assert source.place(1).endswith("t.json, record 2")
    assert read_table(
        write_json(folder / "u.json", [{"task": n, "worker": "a", "label": "xy"[n % 2]} for n in range(4)])
    )


# --- wide tables ---

WIDE = "image,ann,bob,cho,size\na.png,cat,,dog,1\nb.png,dog,dog,,2\nc.png,,cat,cat,3\n"


@pytest.mark.parametrize("annotators", [["ann", "bob", "cho"], ["???"], ["ann", "*[bh]o*"]])
def test_wide_tables_become_long(folder, annotators):
    (folder / "wide.csv").write_text(WIDE)
    annotators = [name.replace("???", "[abc][nho][nbo]") for name in annotators]
    source = open_source(folder / "wide.csv", annotators=annotators)
    assert source.columns == ["item", "label", "annotator", "image", "size"]
    assert rows_of(source, "item", "label", "annotator", "image") == [
        (0, "cat", "ann", "a.png"),
        (0, "dog", "cho", "a.png"),
        (1, "dog", "ann", "b.png"),
        (1, "dog", "bob", "b.png"),
        (2, "cat", "bob", "c.png"),
        (2, "cat", "cho", "c.png"),
    ]
    assert source.place(4).endswith("wide.csv, line 4")
    assert source.read(["size"], numeric=["size"])["size"].to_pylist() == [1, 1, 2, 2, 3, 3]
    table = read_table(folder / "wide.csv", annotators=annotators, item="image")
    assert table.frame["item"].tolist()[:3] == ["a.png", "a.png", "b.png"]
    assert table.frame["annotator"].nunique() == 3


def test_items_as_label_studio_imports_them(folder):
    tasks = [{"data": {"text": "good", "stars": 5}}, {"data": {"text": "bad", "stars": 1}}]
    assert rows_of(label_studio(folder, tasks, items=True), "item", "text", "stars") == [(1, "good", 5), (2, "bad", 1)]


def test_what_is_left_out_is_said_when_a_table_is_first_read(folder):
    tasks = [task(n, [annotation("ab"[n % 2]), annotation("b", was_cancelled=n == 1)]) for n in range(4)]
    with pytest.warns(DataWarning, match="1 cancelled"):
        read_table(label_studio(folder, tasks), keep_ids=True)
    assert reopen_table(folder / "export.json", {}, pd.Series([*"abbabbb"], dtype="category"), 7) is not None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(["cat", "dog", "", "7"]), min_size=3, max_size=3), min_size=1, max_size=6))
def test_melting_is_that_of_pandas(rows):
    frame = pd.DataFrame(rows, columns=["ann", "bob", "cho"]).replace("", None)
    if frame.notna().to_numpy().any():
        found = rows_of(open_source(frame, annotators=["ann", "bob", "cho"]), "item", "annotator", "label")
        long = frame.reset_index(names="item").melt("item", var_name="annotator", value_name="label").dropna()
        expected = long.sort_values("item", kind="stable")[["item", "annotator", "label"]]
        assert found == list(expected.itertuples(index=False, name=None))


@pytest.mark.parametrize(
    ("annotators", "label", "said"),
    [
        (["rater_*"], None, "no column like 'rater_*'"),
        (["dan"], None, "no column 'dan' (asked for as an annotator)"),
        (["ann", "bob"], "ann", "leave label= (--label) out"),
    ],
)
def test_wrong_columns_of_annotators(folder, annotators, label, said):
    (folder / "wide.csv").write_text(WIDE)
    with pytest.raises(UsageError) as caught:
        open_source(folder / "wide.csv", annotators=annotators, label=label)
    assert said in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"label": "ann"}])
def test_what_is_said_of_a_wide_table_says_what_to_do(folder, options):
    (folder / "wide.csv").write_text(WIDE)
    with pytest.raises((UsageError, DataWarning)) as caught:  # the second of rows without a label
        read_table(folder / "wide.csv", **options)
    assert "have similar values; if each holds the answers of one annotator" in str(caught.value)
    assert "bob" not in str(caught.value)
    assert "--annotators A,B,... or a pattern" in str(caught.value)
    assert "delete" not in str(caught.value)


def test_addresses_as_names_of_columns_are_not_shown(folder):
    (folder / "wide.csv").write_text(WIDE.replace("ann,bob,cho", "ann@a.org,bob@a.org,cho@a.org"))
    with pytest.raises(UsageError) as caught:
        read_table(folder / "wide.csv")
    assert "@a.org" not in str(caught.value)
    table = read_table(folder / "wide.csv", annotators=["*@a.org"])
    assert all(name.startswith("a-") for name in table.frame["annotator"].cat.categories)


# --- Hugging Face ---


def test_names_of_classes_in_parquet_and_arrow_files(folder):
    features = {
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
    }
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = pa.table({"text": ["good day", "bad day", "no day"], "label": [1, 0, -1], "v": [[1.0, 2.0]] * 3})
    table = table.replace_schema_metadata(metadata)
    pq.write_table(table, folder / "t.parquet")
    assert rows_of(open_source(folder / "t.parquet"), "label") == [("pos",), ("neg",), (None,)]
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    source = open_source(folder / "t.arrow")
    assert rows_of(source, "label", "v_1") == [("pos", 2), ("neg", 2), (None, 2)]
    assert source.guess.columns == ["v_0", "v_1"]
    with pa.OSFile(str(folder / "f.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.slice(0, 1))
    assert rows_of(open_source(folder / "f.arrow"), "text", "label") == [("good day", "pos")]
    (folder / "x.arrow").write_bytes(b"no arrow")
    with pytest.raises(DataError, match="cannot be read as Arrow"):
        open_source(folder / "x.arrow")


def test_saved_datasets(folder):
    pytest.importorskip("datasets.load", reason="needs the extra hf")  # a folder of the tests is called datasets
    import datasets

    names = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names, "worker": datasets.Value("int64")})
    rows = {"text": ["good day", "bad day", "fine day"], "label": [1, 0, 1], "worker": [1, 2, 1]}
    whole = datasets.Dataset.from_dict(rows, features=features)
    whole.select([2, 0]).save_to_disk(str(folder / "one"))
    source = open_source(folder / "one")
    assert rows_of(source, "text", "label", "worker") == [("fine day", "pos", 1), ("good day", "pos", 1)]
    assert source.guess.text == "text"
    parts = datasets.DatasetDict({"train": whole, "validation": whole.select([1])})
    parts.save_to_disk(str(folder / "parts"))
    table = read_table(folder / "parts", annotator="worker")
    assert table.frame["split"].tolist() == ["train"] * 3 + ["valid"]
    assert table.classes == ["neg", "pos"]
    (folder / "one" / "state.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read as a dataset of Hugging Face"):
        open_source(folder / "one")


def test_a_saved_dataset_without_the_package(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    (folder / "saved").mkdir()
    (folder / "saved" / "state.json").write_text("{}")
    with pytest.raises(UsageError, match=r"needs the package datasets: install pidual\[hf\]"):
        open_source(folder / "saved")


def test_other_folders_are_refused(folder):
    (folder / "empty").mkdir()
    with pytest.raises(UsageError, match="empty holds no table; a folder of parts has files of one kind"):
        open_source(folder / "empty")


def test_a_wide_table_does_not_have_the_column_item_that_is_made_for_it(folder):
    (folder / "wide.csv").write_text("doc,hour,rater_1,rater_2\n7,3,a,b\n8,4,b,a\n")
    assert read_table(folder / "wide.csv", annotators=["rater_*"], item="doc").unused == ("hour",)


def test_a_second_ground_truth_that_differs_is_told(folder):
    truths = [annotation(label, ground_truth=True) for label in ("dog", "cat", "dog")]
    with pytest.warns(DataWarning, match="ground-truth annotations that contradict an earlier one and are not used: 1"):
        source = label_studio(folder, [task(1, [*truths, annotation("cat")])])
    assert rows_of(source, "label", "y") == [("cat", "dog")]


def test_dates_that_are_none_are_told(folder):
    with pytest.warns(DataWarning, match="created_at has values that are not dates"):
        source = label_studio(folder, [task(1, [annotation("a", created_at="yesterday")])])
    assert "trial" not in source


def test_a_wide_table_without_answers(folder):
    (folder / "wide.csv").write_text("item,ann,bob\n1,,\n")
    with pytest.raises(DataError, match="no answers in the columns ann, bob"):
        open_source(folder / "wide.csv", annotators=["ann", "bob"])
