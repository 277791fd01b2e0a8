"""Ids of people reach nothing that pidual makes or says."""

import json
import pickle
import shutil
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command_line import run_cli

from pidual import (
    AnnotationTable,
    CrowdClassifier,
    DataError,
    DataWarning,
    PiDualClassifier,
    UsageError,
    load_inputs,
    read_table,
)
from pidual.api.privacy import make_table
from pidual.data.people import (
    MAYBE_ADDRESS,
    has_address,
    holds_people,
    is_address,
    names_annotator,
    names_people,
    shown,
)

pytestmark = pytest.mark.shapes_unchecked

SECRET = "secretperson"
KNOWN = ["annotator", "worker", "annotator_id", "WorkerId", "rater", "labeler", "labeller_id"]
LEAKED = [
    *("completed_by", "user", "user_id", "email", "Annotated by", "annotated_by", "rater_email", "annotator_email"),
    *("annotator name", "annotatorName", "coder", "reviewer", "created_by", "username", "judge", "worker id"),
    *("annotator-id", "who", "initials"),
]
FURTHER = [
    *("updated_by", "labeled_by", "assignee", "owner", "expert", "grader", "evaluator", "userid", "created_username"),
    *("E-Mail", "ASSIGNMENT:worker_id", "_annotator_id", "id of the annotator", "Reviewed By", "last name", "by"),
]
NOBODY = [
    *("user_agent", "user_count", "judge_confidence", "worker_accuracy", "coder_experience", "annotator_accuracy"),
    *("n_annotators", "num_workers", "is_expert", "annotator_country", "name", "file_name", "image_id", "sorted_by"),
    *("email_length", "decoder", "nearby", "standby", "subject", "tool", "seconds", "label", "item", "id", "code"),
]


@pytest.mark.parametrize("name", [*KNOWN, *LEAKED, *FURTHER])
def test_names_of_columns_of_people(name):
    for spelling in (name, name.upper(), f" {name}"):
        assert names_people(spelling)
    assert holds_people(name, pd.Series(["ann", "bob"], dtype="category"))


@pytest.mark.parametrize("name", NOBODY)
def test_names_of_other_columns(name):
    assert not names_people(name)
    assert not holds_people(name, pd.Series(["ann", "bob"], dtype="category"))


@pytest.mark.parametrize("name", ["user", "reviewer", "created_by", "email", "who", "annotators", "rater_2"])
def test_who_may_not_have_given_the_label(name):
    assert not names_annotator(name)
    assert names_people(name)


@pytest.mark.parametrize(
    ("name", "values", "people"),
    [
        ("user", [7, 8, 9], True),
        ("user", [7.0, np.nan, 9.0], True),
        ("user", [0.5, 0.7, 0.9], False),
        ("expert", [0, 1, 1], False),
        ("expert", pd.Categorical(["yes", "no", "Yes"]), False),
        ("expert", [True, False, True], False),
        ("judge", [0, 1, 1], True),
        ("annotators", [3, 4, 5], False),
        ("annotators", pd.Categorical(["ann, bob", "cy", "dee"]), True),
        ("reviewer", pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]), False),
        ("source", pd.Categorical(["a@x.org", "b@x.org", "web"]), True),
        ("source", pd.Categorical(["a@x.org", "app", "web"]), False),
        ("message", pd.Categorical(["<1.2@mail.x.org>", "<2.3@mail.x.org>", "<4.5@mail.x.org>"]), False),
    ],
)
def test_what_is_in_a_column_counts_too(name, values, people):
    assert holds_people(name, pd.Series(values)) == people


def test_what_looks_like_an_address_and_is_none():
    addresses = [
        *("img/ann@b.org/3.png", r"c:\img\ann@b.org", "ann@b.org_3.png", "ann@b.org.png", "ann@163.com", "ann@b.org3"),
        *("ann@b.md", "ann@пример.рф", "ann@b.xn--p1ai", "https://ann@b.org/x", "@ann@b.social", "legit@github.com"),
    ]
    others = [
        *(
            "icon@2x.png",
            "scan@home.dcm",
            "package@1.2",
            "package@1.2.3-beta.rc",
            "package@v2.0.alpha",
            "P@1.5",
            "a@b.c",
        ),
        *("git@github.com:ann/b.git", "https://site.org/@ann.b", "x.org/package@18.2.0/index.js", "12345@N00.jpg"),
    ]
    assert [text for text in addresses if not is_address(text)] == []
    assert [text for text in others if has_address(text)] == []
    found = pc.match_substring_regex(pa.array(addresses), MAYBE_ADDRESS)
    assert found.to_pylist() == [True] * len(addresses)


def test_addresses_and_messages():
    assert all(map(is_address, ["a@b.org", " A.B+c@d-e.co.uk ", "Ann B <ann@b.org>", "mailto:ann@b.org"]))
    assert not any(map(is_address, ["", "ann", "@ann", "a@b", "<123@b.org>", "1.5", "we wrote to ann@b.org on Monday"]))
    assert has_address("we wrote to ann@b.org on Monday")
    assert shown("size", "17 cm") == "'17 cm'"
    assert SECRET not in shown("annotator", SECRET) + shown("size", f"{SECRET}@b.org") + shown("z", {"who": SECRET})


# --- the table ---


def crowd(column="completed_by", n=60):
    rng = np.random.default_rng(0)
    who = rng.integers(0, 5, n)
    return pd.DataFrame({"label": rng.choice(["cat", "dog"], n), column: [f"{SECRET}{w}@example.org" for w in who]})


@pytest.mark.parametrize("column", [*KNOWN, *LEAKED, *FURTHER, "q7"])
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_no_id_is_in_a_table(tmp_path, column, ending):
    frame = crowd(column)
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    for options in {}, {"annotator": column}, {"pi": [column]}:
        tables = [read_table(path, **options), AnnotationTable.from_frame(frame, **options)]
        assert all(SECRET.encode() not in pickle.dumps(table) for table in tables)
        assert tables[0].fingerprint() == tables[1].fingerprint()
    assert SECRET.encode() in pickle.dumps(read_table(path, pi=[column], keep_ids=True))


def test_the_only_column_that_says_who_is_the_annotator():
    frame = crowd("Completed by").assign(reviewer="rob", seconds=range(60))
    table = AnnotationTable.from_frame(frame, pi=["seconds"])
    assert table.frame["annotator"].nunique() == 5
    assert AnnotationTable.from_frame(frame).pi_columns == ["annotator"]
    assert "annotator" not in AnnotationTable.from_frame(frame.assign(coder="cy")).frame
    assert AnnotationTable.from_frame(frame.assign(coder="cy"), pi=["Completed by"]).pi_columns == ["annotator"]
    assert "annotator" not in AnnotationTable.from_frame(frame.rename(columns={"Completed by": "user"})).frame
    assert "annotator" not in AnnotationTable.from_frame(frame.assign(**{"Completed by": 0.5})).frame


def test_a_person_has_one_pseudonym_in_all_columns():
    frame = crowd("annotator").assign(
        reviewer=lambda frame: frame["annotator"].sample(frac=1, random_state=0).to_numpy()
    )
    frame.loc[3, "reviewer"] = None
    table = AnnotationTable.from_frame(frame, pi=["annotator", "reviewer"], key=b"k")
    assert table.people == ("annotator", "reviewer")
    assert set(table.frame["reviewer"].dropna()) == set(table.frame["annotator"])
    assert table.frame["reviewer"].isna().sum() == 1
    other = AnnotationTable.from_frame(frame, pi=["annotator", "reviewer"], key=b"other")
    assert table.fingerprint() == other.fingerprint()
    kept = AnnotationTable.from_frame(frame, pi=["annotator", "reviewer"], keep_ids=True)
    assert kept.fingerprint() == table.fingerprint()
    assert kept.frame["reviewer"].dropna().str.contains(SECRET).all()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"item": "q7"},
            DataError,
            r"row 0 .*, column 'q7': the item has an e-mail address in it.*number the items.*--keep-ids",
        ),
        (
            {"item": "annotator"},
            UsageError,
            "'annotator' of table says who gave the label and is not an item; .*--item",
        ),
        ({"label": "q7"}, DataError, "column 'q7': the label has an e-mail address in it.*rename the class.*--label"),
        ({"y": "q7"}, DataError, "column 'q7': the clean label has an e-mail address in it"),
        ({"split": "q7"}, DataError, r"column 'q7': the value \(not shown: personal data\) is not a split"),
        ({"split": "annotator"}, DataError, r"column 'annotator': the value \(not shown"),
        (
            {"label": "annotator"},
            DataError,
            r"column 'annotator': the class the value \(not shown.*\) has this one row",
        ),
        ({"pi": ["nothing"]}, UsageError, r"no column 'nothing'.*label, q7, annotator, \(an e-mail address\)"),
        ({"label": "nothing"}, UsageError, "no column 'nothing'"),
        ({"pi": ["secretpersom@example.org"]}, UsageError, r"no column .*privileged information\)\. Its columns"),
        ({"annotator": "label", "label": "annotator"}, DataError, "not shown"),
    ],
)
def test_errors_show_nobody(options, error, said):
    frame = crowd("q7").assign(annotator=[f"{SECRET}-{k}" for k in range(60)], **{f"{SECRET}@example.org": 1})
    with pytest.raises(error, match=said) as caught:
        AnnotationTable.from_frame(frame, **options)
    assert SECRET not in str(caught.value)


def pi_frame(pi, n, keep_ids=False):
    """The PI of n rows as the table of a fit of the estimator has it."""
    table = make_table(pd.Categorical.from_codes(np.arange(n) % 2, [0, 1]), np.arange(n), pi, np.ones(n), keep_ids)
    return table.frame[table.pi_columns]


@pytest.mark.filterwarnings("ignore::pidual.DataWarning")
@pytest.mark.parametrize("option", ["item", "label", "annotator", "pi", "y", "split", "x-columns", "x-text"])
def test_columns_called_by_addresses_are_not_used(tmp_path, option):
    column = f"{SECRET}@example.org"
    frame = crowd("annotator").assign(item=range(60), f=0.5, **{column: ["train", "test"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", f"--{option}", column, "--out", tmp_path / "run"]
    code, out, err = run_cli([*fit, *([] if option.startswith("x-") else ["--no-x"])])
    assert (code, "named by an e-mail address" in err) == (2, True), err
    assert SECRET not in out + err
    assert not (tmp_path / "run").exists()
    if not option.startswith("x-"):
        asked = [column] if option == "pi" else column
        assert len(AnnotationTable.from_frame(frame, keep_ids=True, **{option: asked})) == 60


def test_columns_called_by_addresses_are_no_pi_and_no_inputs(tmp_path):
    column = f"{SECRET}@example.org"
    frame = crowd("annotator").assign(item=range(60), f=0.5, **{column: np.arange(60) % 3})
    with pytest.raises(UsageError, match="is named by an e-mail address"):
        pi_frame(frame[[column]], 60)
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(DataWarning) as caught:
        assert load_inputs(tmp_path / "x.csv").schema["columns"] == ["f"]
    assert SECRET not in " ".join(str(warning.message) for warning in caught)
    with pytest.raises(UsageError, match=r"a column named by an e-mail address of .* holds people"):
        load_inputs(tmp_path / "x.csv", columns=["f", column])
    code, out, err = run_cli(["data", "import", tmp_path / "x.csv", tmp_path / "out.csv"])
    assert (code, "is named by an e-mail address" in err, SECRET in out + err) == (2, True, False)


def test_a_clean_label_that_is_nobodys_business():
    frame = crowd("annotator").assign(user=[f"{SECRET}-{k % 3}" for k in range(60)])
    with pytest.warns(DataWarning, match="no value is a label") as caught:
        AnnotationTable.from_frame(frame, y="user")
    assert SECRET not in str(caught[0].message)


@pytest.mark.parametrize(
    "line",
    [
        '{"label": "cat", "annotator": ["secretperson"]}',
        '{"label": "cat", "annotator": "secretperson",',
        '{"label": "cat", "annotator": 7}',
        '{"label": "cat", "note": {"annotator": "secretperson"}}',
        '"secretperson"',
    ],
)
def test_lines_that_cannot_be_read_are_not_shown(tmp_path, line):
    rows = [json.dumps({"label": "cat", "annotator": SECRET, "note": "n"})] * 4
    (tmp_path / "t.jsonl").write_text("\n".join([*rows, line]) + "\n")
    with pytest.raises(DataError, match="line 5") as caught:
        read_table(tmp_path / "t.jsonl")
    assert SECRET not in str(caught.value)
    (tmp_path / "u.jsonl").write_text("\n".join([line, *rows]) + "\n")
    with pytest.raises(DataError, match=r"line [12]") as caught:
        read_table(tmp_path / "u.jsonl")
    assert SECRET not in str(caught.value)


# --- inputs ---


def test_numbers_of_people_are_no_inputs_and_other_numbers_are(tmp_path):
    frame = pd.DataFrame(
        {"item": range(9), "user_id": range(9), "coder": 1, "expert": [0, 1, 1] * 3, "user_age": 3, "f": 0.5}
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(DataWarning, match="user_id, coder of .* not used as input: people are not an input"):
        inputs = load_inputs(tmp_path / "x.csv")
    assert inputs.schema["columns"] == ["expert", "user_age", "f"]
    with pytest.raises(UsageError, match=r"column 'coder' of .* holds people"):
        load_inputs(tmp_path / "x.csv", columns=["f", "coder"])


def test_the_texts_of_emails_are_inputs(tmp_path):
    texts = [f"Dear ann@example.org, offer {k} is waiting for you at the office" for k in range(30)]
    pd.DataFrame({"item": range(30), "email": texts}).to_csv(tmp_path / "x.csv", index=False)
    assert len(load_inputs(tmp_path / "x.csv", text="email")) == 30


# --- the estimator ---


@pytest.mark.parametrize("column", [*KNOWN, *LEAKED, *FURTHER, "q7"])
def test_no_id_is_in_the_pi_of_the_estimator(column):
    frame = pi_frame(crowd(column)[[column]].assign(tool="web"), 60)
    if "annotator" in frame:
        assert frame["annotator"].nunique() == 5
    else:
        assert SECRET not in frame.to_csv()
        assert frame[column].nunique() == 5
    assert SECRET in pi_frame(crowd(column)[[column]], 60, keep_ids=True).to_csv()


@pytest.mark.parametrize("column", ["completed_by", "reviewer", "rater_email", "q7"])
def test_no_id_is_in_a_saved_estimator(column):
    frame = crowd(column, 200)
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_arrays([range(200), frame[column]], names=["row", column])
    X = pd.DataFrame(rng.normal(size=(200, 3)), index=index, columns=list("abc"))
    pi = frame[[column]].assign(annotator=frame[column], tool=rng.choice(["web", f"{SECRET}@b.org"], 200))
    model = CrowdClassifier(random_state=0).fit(X, frame["label"].to_numpy(), pi=pi)
    assert SECRET.encode() not in pickle.dumps(model)
    assert SECRET not in json.dumps([model.summary_.to_json(), model.history_])
    assert SECRET not in " ".join(model.label_issues_["reason"])
    assert model.find_label_issues().index.equals(index)
    again = pickle.loads(pickle.dumps(model))
    assert again.find_label_issues().index.get_level_values(0).tolist() == list(range(200))
    assert again.find_label_issues().index.get_level_values(1).nunique() == 5


# --- the command ---


def everything(folder):
    """All bytes of a folder, and what its Parquet files hold, as text."""
    texts = []
    for path in folder.rglob("*"):
        if path.is_file():
            texts.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            texts += [table.to_pandas().to_csv(), str(table.schema.metadata), str(table.to_pydict())]
            texts += [" ".join(map(str, c.cat.categories)) for _, c in table.to_pandas().items() if hasattr(c, "cat")]
    return "\n".join(texts)


def leaks(folder, column):
    """Fit three times with a column of people, and count the fits that show any of them anywhere."""
    rng = np.random.default_rng(0)
    n = 600
    y, who = rng.integers(0, 3, n), rng.integers(0, 6, n)
    label = np.where(who < 2, rng.integers(0, 3, n), y)
    np.save(folder / "x.npy", (rng.normal(size=(n, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32))
    frame = pd.DataFrame({"label": np.array(["cat", "dog", "owl"])[label]})
    frame[column] = [f"zq{w}.{SECRET}@example-mail.org" for w in who]
    frame["seconds"] = rng.gamma(2, 3, n).round(2)
    frame.to_csv(folder / "labels.csv", index=False)
    found = []
    for options in [], ["--annotator", column], ["--pi", f"{column},seconds"]:
        args = ["fit", folder / "labels.csv", "--x", folder / "x.npy", "--out", folder / "run", *options]
        code, out, err = run_cli(args)
        assert code == 0, err
        shown_text = out + err + everything(folder / "run")
        assert "report.html" in out
        found += [options] if SECRET in shown_text or "example-mail" in shown_text else []
        shutil.rmtree(folder / "run")
    return found


def test_no_id_is_in_a_run_or_on_the_terminal(tmp_path):
    assert leaks(tmp_path, "completed_by") == []


def test_the_search_for_ids_finds_them(tmp_path):
    crowd().to_csv(tmp_path / "labels.csv", index=False)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 3)))
    fit = ["fit", tmp_path / "labels.csv", "--x", tmp_path / "x.npy", "-q", "--out", tmp_path / "run"]
    assert run_cli([*fit, "--keep-ids", "--keep-going"])[0] == 0
    assert SECRET in everything(tmp_path / "run")


def test_a_new_key_is_announced_by_the_command_that_makes_it(tmp_path):
    crowd().to_csv(tmp_path / "labels.csv", index=False)
    fit = ["fit", tmp_path / "labels.csv", "--out", tmp_path / "run", "--method", "ce", "--epochs", 1, "-q"]
    code, _, err = run_cli([*fit, "--x", tmp_path / "nothing.npy"])
    first, last = err.strip().splitlines()
    assert (code, last) == (2, f"Error: {tmp_path / 'nothing.npy'} does not exist; check the path.")
    assert first.startswith(f"A new secret key was made at {tmp_path / '.pidual.key'}: ")
    (tmp_path / ".pidual.key").unlink()
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 3)))
    code, _, err = run_cli([*fit, "--x", tmp_path / "x.npy"])
    assert code == 0
    assert err.count("secret key was made") == 1
    assert "key" not in (tmp_path / "run" / "summary.json").read_text()
    code, _, err = run_cli([*fit, "--x", tmp_path / "x.npy", "--force"])
    assert (code, "secret key" in err) == (0, False)


def test_a_classifier_refuses_classes_and_features_that_are_addresses():
    rng = np.random.default_rng(0)
    x, y = (
        pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]),
        np.array(["cat", "dog", "owl"])[np.arange(60) % 3],
    )
    who = f"{SECRET}@example.org"
    for X, labels in ((x.rename(columns={"b": who}), y), (x, np.where(y == "owl", who, y))):
        with pytest.raises((UsageError, DataError), match=r"e-mail address.*keep_ids=True") as caught:
            PiDualClassifier("ce", epochs=1).fit(X, labels)
        assert SECRET not in str(caught.value)
        model = PiDualClassifier("ce", epochs=1, keep_ids=True).fit(X, labels)
        assert who in [*model.classes_, *model.feature_names_in_]


def test_kinds_that_do_not_fit_people_show_nobody():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    names = np.array(["carol.secret", "bob.secret", "7"])[rng.integers(3, size=60)]
    for kind, numbers in (("duration", "0.5"), ("number", "7")):
        ids = np.where(rng.random(60) < 0.8, numbers, names) if kind == "number" else names
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = CrowdClassifier(pi_kinds={"annotator": kind})
            try:
                said = pickle.dumps(model.fit(x, y, pi=pd.DataFrame({"annotator": ids}))).decode("latin-1")
            except DataError as error:
                said = str(error)
        assert ".secret" not in said + " ".join(str(warning.message) for warning in caught)


def test_single_addresses_in_an_index_are_not_saved():
    rng = np.random.default_rng(0)
    index = [f"row{number}" if number % 10 else f"zoe{number}@example.org" for number in range(60)]
    x = pd.DataFrame(rng.normal(size=(60, 3)), index=index)
    model = PiDualClassifier("ce", epochs=1).fit(x, rng.integers(2, size=60))
    assert "zoe0@example.org" in model.label_issues_.index
    assert b"@example.org" not in pickle.dumps(model)
