"""`pidual data import`, and exports straight into `pidual fit`."""

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest
from command_line import run_cli, write_key, write_pictures
from export_files import annotation, review_tasks, task, write_json, write_min
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pidual import DataError, UsageError, read_table
from pidual.api.run import Run
from pidual.data import long_frame, open_source

pytestmark = pytest.mark.shapes_unchecked

FEW = ["--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_key(tmp_path)
    return tmp_path


def without_addresses(folder, *, but):
    """Assert that no file but the named ones holds an e-mail address of an annotator."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in but]
    assert files
    assert [path for path in files if b"@example.org" in path.read_bytes()] == []


@pytest.mark.parametrize("name", ["export.json", "min.json", "export.csv"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_import_label_studio(folder, name, ending):
    tasks = review_tasks(20)
    if name == "export.json":
        write_json(folder / name, tasks)
    else:
        write_min(folder / name, tasks)
    code, out, err = run_cli(["data", "import", name, f"out.{ending}"])
    assert code == 0, err
    whole = name == "export.json"
    assert (" 2 cancelled." in err) == whole
    counts = "answers 60, items 20, annotators 6, classes 2, clean 2" if whole else "answers 62, items 20, annotators 7"
    assert out.startswith(f"out.{ending}: {counts}")
    assert f"Next: pidual fit out.{ending} --x-text text --pi annotator,seconds,trial,hour\n" in out
    without_addresses(folder, but=[name])
    read = pd.read_csv("out.csv") if ending == "csv" else pd.read_parquet("out.parquet")
    assert list(read.columns[:3]) == ["item", "label", "annotator"]
    assert read["trial"].dtype.kind == "i"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = read_table(folder / name)
    again = read_table(folder / f"out.{ending}", pi=first.pi_columns)
    assert again.frame.astype(str).equals(first.frame[again.frame.columns].astype(str))  # pseudonyms among them


def test_people_in_other_columns_have_pseudonyms_too_but_texts_stay(folder):
    data = {"text": "write to me@example.org now", "author": "sue", "owner_email": "me@example.org", "mails": "x@y.org"}
    write_json(folder / "export.json", [task(1, [annotation("a")], **data)])
    assert run_cli(["data", "import", "export.json", "out.csv"])[0] == 0
    (row,) = pd.read_csv("out.csv").to_dict("records")
    assert row["text"] == data["text"]
    assert all(row[name].startswith("a-") for name in ("annotator", "author", "owner_email", "mails"))


def test_import_a_wide_table(folder):
    (folder / "wide.csv").write_text("name,rater_a,rater_b\nx,1,\ny,2,2\n")
    code, out, err = run_cli(["data", "import", "wide.csv", "long.csv", "--annotators", "rater_*", "--json"])
    assert code == 0, err
    made = json.loads(out)
    assert made == {
        "out": "long.csv",
        "rows": 3,
        "items": 2,
        "annotators": 2,
        "classes": 2,
        "clean": 0,
        "next": "pidual fit long.csv --x ...",
    }
    assert pd.read_csv("long.csv")[["item", "label", "name"]].to_numpy().tolist() == [
        [0, 1, "x"],
        [1, 2, "y"],
        [1, 2, "y"],
    ]


def test_columns_of_a_plain_table_get_their_names(folder):
    (folder / "t.csv").write_text("task,worker,label,n\nt1,ann,x,1\nt2,bob,y,2\n")
    assert run_cli(["data", "import", "t.csv", "out.csv"])[0] == 0
    assert list(pd.read_csv("out.csv").columns) == ["item", "label", "annotator", "n"]
    (folder / "u.csv").write_text("label,n\nx,1\ny,2\n")
    assert run_cli(["data", "import", "u.csv", "v.csv"])[0] == 0
    assert pd.read_csv("v.csv").to_numpy().tolist() == [[0, "x", 1], [1, "y", 2]]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no.json", "out.csv"], 2, "no.json does not exist"),
        (["export.json", "out.txt"], 2, "out.txt must end in .csv or .parquet"),
        (["export.json", "export.csv"], 2, "export.csv exists; choose another name, or replace it with --force"),
        (["export.json", "out.csv", "--format", "xml"], 2, "'xml' is not one of"),
        (["export.json", "out.csv", "--label", "topic"], 2, "no answers to 'topic'; it has answers to 'sentiment'"),
        (["empty.csv", "out.csv"], 1, "empty.csv has no rows"),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(folder, words, code, said):
    write_json(folder / "export.json", [task(1, [annotation("a")])])
    (folder / "export.csv").write_text("mine")
    (folder / "empty.csv").write_text("item,label\n")
    before = sorted(folder.iterdir())
    found = run_cli(["data", "import", *words])
    assert found[0] == code
    assert said in found[2]
    assert sorted(folder.iterdir()) == before
    assert (folder / "export.csv").read_text() == "mine"


# --- straight into fit ---


def test_fit_an_export(folder):
    write_json(folder / "export.json", review_tasks(60))
    code, _, err = run_cli(["fit", "export.json", "--out", "run", *FEW[:-1]])
    assert code == 0, err
    assert "Input: export.json (text). PI: annotator, seconds, trial, hour.\n" in err
    assert "6 cancelled" in err
    run = Run(folder / "run")
    assert run.config.data.n_rows == 180
    assert run.summary.evaluation.detection_auc is not None
    assert len(run.predictions) == 180
    write_json(folder / "new.json", [task(n, [], text=text) for n, text in ((7, "love great"), (9, "sad awful"))])
    code, out, err = run_cli(["predict", "run", "new.json"])
    assert code == 0, err
    assert [line.split(",")[0] for line in out.splitlines()] == ["item", "7", "9"]
    without_addresses(folder, but=["export.json"])


def test_fit_images_of_an_export(folder):
    write_pictures(folder)
    frame = pd.read_csv("pictures.csv")
    tasks = [
        task(number, [annotation(label, who) for label, who in zip(rows["label"], rows["annotator"], strict=True)])
        | {"data": {"image": f"/data/upload/3/{name}.png"}}
        for number, (name, rows) in enumerate(frame.groupby("item"))
    ]
    write_json(folder / "export.json", tasks)
    code, _, err = run_cli(["fit", "export.json", "--out", "run", *FEW])
    assert code == 2
    assert "give the folder that the files in 'image' are in with --x" in err
    code, _, err = run_cli(["fit", "export.json", "--x", "pictures", "--out", "run", "--method", "ce", *FEW[2:]])
    assert code == 0, err
    assert Run(folder / "run").items["item"].tolist()[0] == "/data/upload/3/p00.png"


def test_fit_vectors_of_an_export(folder):
    tasks = [task(n, [annotation("ab"[n % 2], w) for w in (1, 2)], embedding=[n % 2, n / 9]) for n in range(24)]
    write_json(folder / "export.json", tasks)
    code, out, err = run_cli(["data", "import", "export.json", "table.csv"])
    assert code == 0, err
    assert "Next: pidual fit table.csv --x-columns 'embedding_*'\n" in out
    for words in (["export.json"], ["table.csv", "--x-columns", "embedding_*"]):
        code, _, err = run_cli(["fit", *words, "--out", words[0][:-4], *FEW])
        assert code == 0, err
        assert Run(folder / words[0][:-4]).config.data.x_shape == [24, 2]


# --- malformed exports ---

VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["a", "b", "label"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["choices", "value", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
LOGS = Path(__file__).parent / "logs"
WHOLE = {
    "label-studio": task(1, [annotation("a", {"id": 1, "email": "p@example.org"}), annotation("b")]),
    "argilla": {"id": "r", "fields": {"text": "a b"}, "responses": [{"values": {"q": {"value": "a"}}, "user_id": "u"}]},
    "doccano": {"id": 1, "text": "a b", "label": ["a"], "annotator": "ann"},
    "prodigy": {"text": "a b", "_input_hash": 1, "_task_hash": 2, "accept": ["a"], "answer": "accept", "_timestamp": 5},
    "potato": {"instance_id": "1", "user_id": "u", "labels": {"q": {"a": "a"}}, "behavioral_data": {}},
    "label-studio-min": {"id": 1, "text": "a b", "mood": "a", "annotator": 1, "annotation_id": 1, "lead_time": 2.5},
    "table": {"item": 1, "label": "a", "worker": "w"},
    "inspect": json.loads((LOGS / "inspect_panel.json").read_text()),
    "promptfoo": json.loads((LOGS / "promptfoo.json").read_text()),
    "deepeval": json.loads((LOGS / "deepeval_run.json").read_text()),
    "lm-eval": json.loads((LOGS / "lm_eval_choices.jsonl").read_text().splitlines()[0]),
}


def places(value, path=()):
    """All places within a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def changed(value, path, new):
    """The value with another one at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@st.composite
def damaged(draw):
    """A format, and an export of it in which a few places hold something else, cut off somewhere at times."""
    form = draw(st.sampled_from(sorted(WHOLE)))
    records = [json.loads(json.dumps(WHOLE[form])) for _ in range(3)]
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(list(places(records))[1:]))
        records = changed(records, path, draw(VALUE))
    text = json.dumps(records) if draw(st.booleans()) else "\n".join(json.dumps(record) for record in records)
    if draw(st.integers(0, 3)) == 0:
        text = text[: draw(st.integers(0, len(text)))]
    return form, text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=damaged(), named=st.booleans())
@pytest.mark.filterwarnings("ignore")
def test_a_malformed_export_is_one_sentence(folder, case, named):
    form, text = case
    path = folder / "export.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        long_frame(open_source(path, format=form if named else None), lambda: b"key")
    except (DataError, UsageError) as error:
        said = str(error)
        assert str(path) in said
        assert said.endswith(".")
        assert "\n" not in said
        assert "@example.org" not in said
