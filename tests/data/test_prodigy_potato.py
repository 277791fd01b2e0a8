"""Answers out of Prodigy and Potato.

The files in `potato/` were written by potato-annotation 2.12.1 (`version_2`, `exported.jsonl`) and 1.2.2.4
(`version_1`), as its pages send answers. Prodigy is sold: its lines are as its documentation and the data that its
makers published have them.
"""

import json
import shutil
from pathlib import Path

import pytest
from command_line import run_cli, write_key
from export_files import prodigy_tasks, write_json

from pidual import read_table
from pidual.api.run import Run
from pidual.data import open_source
from pidual.errors import DataError, DataWarning, UsageError

pytestmark = pytest.mark.shapes_unchecked
POTATO = Path(__file__).parent / "potato"
ANN = "ann@example.org"


def rows_of(source, *columns):
    return list(zip(*(source.read([column])[column].to_pylist() for column in columns), strict=True))


# --- Prodigy ---

CHOSEN = {"text": "I laughed", "_input_hash": 7, "_task_hash": -3, "options": [{"id": "good"}, {"id": "bad"}]}
CHOSEN |= {"_view_id": "choice", "config": {"choice_style": "single"}, "meta": {"source": "web", "score": 0.4}}
BINARY = {"text": "You fool", "label": "INSULT", "_input_hash": -9, "_task_hash": 5, "spans": [], "score": 0.7}


def chosen(labels, who="films-ann", **more):
    names = {"_session_id": who, "_annotator_id": who, "_timestamp": 1714557600}
    return {**CHOSEN, **names, "accept": labels, "answer": "accept", **more}


def prodigy(folder, *tasks, **options):
    return open_source(write_json(folder / "db-out.jsonl", tasks, lines=True), **options)


def test_choices_of_prodigy(tmp_path):
    other = chosen(["good"], text="We left", _input_hash=8, _timestamp=1714557660)
    source = prodigy(tmp_path, chosen(["good"]), other, chosen(["bad"], "films-bob"))
    assert rows_of(source, "item", "label", "annotator", "trial", "hour") == [
        (7, "good", "films-ann", 1, 10),
        (7, "bad", "films-bob", 1, 10),
        (8, "good", "films-ann", 2, 10),
    ]
    assert rows_of(source, "text", "meta_source")[1:] == [("I laughed", "web"), ("We left", "web")]
    assert not {"meta_score", "options", "config", "answer", "accept"} & set(source.columns)
    assert source.guess == (["annotator", "trial"], "text", [], None)
    assert source.place(2).endswith("db-out.jsonl, input 8")


def test_ignored_rejected_and_empty_choices_of_prodigy_are_counted(tmp_path):
    left = [chosen([], answer="ignore"), chosen([], answer="ignore"), chosen(["bad"], answer="reject"), chosen([])]
    with pytest.warns(DataWarning, match="left out: 2 ignored, 1 rejected, 1 without a label"):
        source = prodigy(tmp_path, chosen(["good"]), *left)
    assert rows_of(source, "label") == [("good",)]


def test_accept_and_reject_of_a_label_in_prodigy(tmp_path):
    tasks = [BINARY | {"answer": answer, "_session_id": who} for answer, who in (("accept", "a"), ("reject", "b"))]
    source = prodigy(tmp_path, *tasks, BINARY | {"answer": "accept", "_session_id": None, "_input_hash": 4})
    assert rows_of(source, "item", "label", "annotator") == [
        (-9, "INSULT", "a"),
        (-9, "no INSULT", "b"),
        (4, "INSULT", "unknown"),
    ]
    assert "score" not in source


def test_each_label_of_prodigy_is_a_question_of_its_own(tmp_path):
    tasks = [BINARY | {"answer": "accept"}, BINARY | {"answer": "reject", "label": "SPAM"}]
    with pytest.raises(UsageError, match="several labels: 'INSULT', 'SPAM'; say which"):
        prodigy(tmp_path, *tasks)
    assert rows_of(prodigy(tmp_path, *tasks, label="SPAM"), "label") == [("no SPAM",)]


@pytest.mark.filterwarnings("ignore:.*answers with several labels:pidual.errors.DataWarning")
def test_sets_of_choices_of_prodigy(tmp_path):
    several = {"config": {"choice_style": "multiple"}}
    tasks = [chosen(["story", "dog"], **several), chosen([], "films-bob", **several), chosen(["story"], _input_hash=8)]
    path = write_json(tmp_path / "db-out.jsonl", tasks, lines=True)
    table = read_table(path, keep_ids=True, multi_label=True)
    assert table.sets.classes == ["dog", "story"]
    assert table.sets.said.toarray().tolist() == [[True, True], [False, False], [False, True]]  # none is an answer, too
    assert table.frame["annotator"].tolist() == ["films-ann", "films-bob", "films-ann"]


def test_only_empty_sets_of_prodigy_are_no_answers(tmp_path):
    with pytest.raises(DataError, match="there is no answer in it"):
        prodigy(tmp_path, chosen([], config={"choice_style": "multiple"}))


def test_spans_of_prodigy_are_refused(tmp_path):
    spans = {"text": "a b", "_input_hash": 1, "_task_hash": 2, "spans": [{"start": 0, "end": 1, "label": "X"}]}
    with pytest.raises(DataError, match="it has 1 answers that give spans or text, and pidual needs classes"):
        prodigy(tmp_path, spans | {"answer": "accept"})


def test_pictures_within_the_file_of_prodigy_are_left_out(tmp_path):
    source = prodigy(tmp_path, chosen(["good"], image="data:image/jpeg;base64,AAAA", path="photos/1.jpg"))
    assert "image" not in source
    assert rows_of(source, "path") == [("photos/1.jpg",)]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (chosen("good"), "input 7, accept: this is text, not a list"),
        (chosen([{}]), "input 7, accept: this is an object, not a list of labels"),
        (chosen(["good"], [3]), "input 7, _annotator_id: this is a list, not a number or text"),
        (chosen(["good"], _timestamp=1e30), "input 7, _timestamp: this is not a time in seconds since 1970"),
        (chosen(["good"], answer="maybe"), "input 7, answer: this is not one of accept, reject, ignore"),
        (chosen(["good"], meta=[1], _input_hash=9), "input 9, meta: this is a list, not an object"),
        (chosen(["good"], _input_hash=[1]), "id: this is a list, not a number or text"),
    ],
)
def test_a_broken_line_of_prodigy_is_named_with_its_field(tmp_path, broken, said):
    with pytest.raises(DataError) as caught:
        prodigy(tmp_path, chosen(["good"]), broken)
    assert said in str(caught.value)
    assert "export it again from Prodigy, or correct the file." in str(caught.value)


def test_fit_prodigy_without_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_key(tmp_path)
    write_json(tmp_path / "db-out.jsonl", prodigy_tasks(60), lines=True)
    code, _, err = run_cli(["fit", "db-out.jsonl", "--quiet", "--keep-going", "--out", "run"])
    assert code == 0, err
    run = Run.open("run")
    assert run.config.data.n_rows == 180
    assert len(run.annotators) == 6
    assert "films-person" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


# --- Potato ---


def test_answers_and_behaviour_of_potato():
    source = open_source(POTATO / "version_2", label="mood")
    assert rows_of(source, "item", "annotator", "label", "seconds", "changes", "interactions") == [
        ("f1", ANN, "good", 1.349, 1, 6),
        ("f1", "bob", "good", 0.521, 1, 5),
        ("f1", "cho", "mixed", 0.375, 1, 3),
        ("f2", ANN, "bad", 0.799, 1, 5),
        ("f2", "bob", "bad", 0.888, 2, 7),
        ("f2", "cho", "bad", 0.304, 1, 3),
        ("f3", ANN, "mixed", 2.986, 3, 8),  # good, then bad, then mixed
        ("f3", "bob", "good", 0.555, 1, 4),
        ("f3", "cho", "mixed", 0.359, 1, 3),
        ("f4", ANN, "bad", 0.544, 1, 3),
        ("f4", "cho", "good", 0.371, 1, 3),
    ]
    assert rows_of(source, "trial", "hour", "pre_annotated")[6] == (3, 19, "no")
    assert source.guess == (["annotator", "seconds", "changes", "interactions", "trial"], None, [], None)
    assert source.place(6).endswith("version_2, instance 'f3'")


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        ("stars", ["5", "5", "1", "4", "3", "3", "2", "4", "4", "5", "2"]),
        ("genre", ["comedy", "comedy", "drama", "drama", "drama"]),  # a menu
    ],
)
def test_other_questions_of_potato(label, labels):
    assert rows_of(open_source(POTATO / "version_2", label=label), "label") == [(each,) for each in labels]


def test_which_of_the_questions_of_potato():
    with pytest.raises(UsageError, match="several schemas: 'mood', 'topics', 'stars', 'genre'; say which"):
        open_source(POTATO / "version_2")


@pytest.mark.filterwarnings("ignore:.*answers with several labels:pidual.errors.DataWarning")
def test_sets_of_choices_of_potato():
    table = read_table(POTATO / "version_2", label="topics", keep_ids=True, multi_label=True)
    assert table.sets.classes == ["animals", "sleep", "story"]
    answers = [
        sorted(name for name, has in zip(table.sets.classes, row, strict=True) if has)
        for row in table.sets.said.toarray()
    ]
    assert answers == [["story"], ["story"], ["sleep"], ["sleep", "story"], ["animals", "story"], ["animals"]]


@pytest.mark.parametrize("name", ["version_1", "version_1/annotated_instances.jsonl"])
def test_the_first_version_of_potato(name):
    source = open_source(POTATO / name, label="mood")
    assert rows_of(source, "item", "label", "annotator", "seconds") == [
        ("f1", "good", "ann", 12),
        ("f1", "good", "bob", 4),
        ("f2", "bad", "ann", 71),
        ("f2", "good", "bob", 5),
        ("f3", "mixed", "ann", 9),
    ]
    assert rows_of(source, "text")[2] == ("I fell asleep in the middle of it.",)
    assert source.guess == (["annotator", "seconds"], "text", [], None)
    assert rows_of(open_source(POTATO / name, label="stars"), "label") == [("scale_5",), ("scale_4",)]


def test_what_potato_exports_has_the_answers_without_behaviour():
    source, state = (open_source(POTATO / name, label="mood") for name in ("exported.jsonl", "version_2"))
    given = [sorted(rows_of(each, "item", "annotator", "label")) for each in (source, state)]
    assert given[0] == given[1]
    assert "seconds" not in source


def changed_copy(folder, change):
    """The folder of potato with the state of bob changed."""
    copy = folder / "copy"
    shutil.copytree(POTATO / "version_2", copy)
    path = copy / "bob" / "user_state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(change(state) or state))
    return copy


def test_suggestions_of_a_model_in_potato(tmp_path):
    def change(state):
        for item, decision in (("f1", "accepted"), ("f2", "rejected")):
            usage = [{"schema_name": "mood", "decision": decision}, {"schema_name": "stars", "decision": "accepted"}]
            state["instance_id_to_behavioral_data"][item]["ai_usage"] = usage

    source = open_source(changed_copy(tmp_path, change), label="mood")
    by_bob = [row for row in rows_of(source, "annotator", "item", "pre_annotated") if row[0] == "bob"]
    assert by_bob == [("bob", "f1", "accepted"), ("bob", "f2", "changed"), ("bob", "f3", "no")]
    assert "pre_annotated" in source.guess.pi


def test_times_of_zero_in_potato_are_unknown(tmp_path):
    def change(state):
        for behaviour in state["instance_id_to_behavioral_data"].values():
            behaviour["total_time_ms"] = 0

    source = open_source(changed_copy(tmp_path, change), label="mood")
    assert {seconds for who, seconds in rows_of(source, "annotator", "seconds") if who == "bob"} == {None}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.pop("user_id") and None, "does not hold the answers of an annotator (KeyError"),
        (lambda state: state | {"instance_id_to_label_to_value": {"f1": [["mood"]]}}, "(ValueError"),
        (lambda state: [state], "(TypeError"),
    ],
)
def test_a_broken_file_of_potato_is_named(tmp_path, change, said):
    with pytest.raises(DataError) as caught:
        open_source(changed_copy(tmp_path, change), label="mood")
    assert said in str(caught.value)
    assert "bob/user_state.json" in str(caught.value)
    assert str(caught.value).endswith("; copy the folder from Potato again.")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"labels": 5}, "instance 'f1', labels: this is a number, not an object"),
        ({"labels": {"mood": "good"}}, "instance 'f1', labels.mood: this is text, not an object"),
        ({"user_id": []}, "instance 'f1', user_id: this is a list, not a number or text"),
        ({"instance_id": {}}, "id: this is an object, not a number or text"),
    ],
)
def test_a_broken_line_of_potato_is_named_with_its_field(tmp_path, record, said):
    line = {"instance_id": "f1", "user_id": "ann", "labels": {"mood": {"good": "good"}}}
    with pytest.raises(DataError) as caught:
        open_source(write_json(tmp_path / "annotations.jsonl", [line, line | record], lines=True))
    assert said in str(caught.value)


def test_fit_potato_with_the_texts_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_key(tmp_path)
    shutil.copytree(POTATO / "version_2", "annotation_output")
    shutil.copy(POTATO / "films.jsonl", "films.jsonl")
    words = ["--label", "mood", "--x", "films.jsonl", "--x-text", "text", "--item", "id", "--keep-going"]
    code, _, err = run_cli(["fit", "annotation_output", *words, "--quiet", "--out", "run"])
    assert code == 0, err
    run = Run.open("run")
    assert run.config.data.n_rows == 11
    assert sorted(run.items["item"].astype(str)) == ["f1", "f2", "f3", "f4"]
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or b"ann@example.org" not in path.read_bytes(), path
