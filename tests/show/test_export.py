"""`pidual export`: the labels of a run, corrected, in the form they came in."""

import contextlib
import csv
import json
import re
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_cli, write_key
from export_files import review_tasks, write_json, write_min
from hypothesis import given, settings
from hypothesis import strategies as st

from pidual.api.run import Run
from pidual.data import open_source
from pidual.errors import DataError
from pidual.run.decisions import Store
from pidual.run.predictions import Predictions
from pidual.show.export import decide, export_run
from pidual.show.export.cells import Edit, edit_csv, edit_json_lines

pytestmark = pytest.mark.shapes_unchecked

PEOPLE = ["ann@example.org", "bob@example.org", "cho@example.org", "dan@example.org"]


def answers(n=40, seed=0):
    """A row for each of four answers to an item, the last person often wrong."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, n)
    wrong = rng.random((n, 4)) < [0.03, 0.05, 0.05, 0.4]
    names = np.array(["cat", "dog"])
    rows = [(i, names[(truth[i] + wrong[i, w]) % 2], PEOPLE[w], f"note {i}") for i in range(n) for w in range(4)]
    return pd.DataFrame(rows, columns=["item", "label", "annotator", "note"])


def untidy_csv(frame):
    """A table as spreadsheets write it: a BOM, semicolons, CRLF, quotes here and there, blank lines, no end of line."""
    lines = ['\ufeff"item";label ;annotator;note']
    for number, row in enumerate(frame.itertuples(index=False)):
        label = [row.label, f'"{row.label}"', f" {row.label} "][number % 3]
        note = f'"{row.note}; ""so""\r\nand on"' if number % 5 == 0 else row.note
        lines.append(f"{row.item};{label};{row.annotator};{note}")
        lines += [""] if number % 7 == 0 else []
    return "\r\n".join(lines).encode()


def fit(folder, table, *words):
    """A run of a table in a folder of its own."""
    write_key(folder)
    with contextlib.chdir(folder):
        code, _, err = run_cli(["fit", table, "--no-x", "--out", "run", "--quiet", *words])
    assert code == 0, err
    return folder


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run of a CSV file."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "labels.csv").write_bytes(untidy_csv(answers()))
    return fit(folder, "labels.csv")


@pytest.fixture(scope="module")
def fitted_wide(tmp_path_factory):
    """A run of a wide table, in which a few answers are missing."""
    folder = tmp_path_factory.mktemp("wide")
    wide = answers().pivot_table(index="item", columns="annotator", values="label", aggfunc="first").reset_index()
    wide.loc[::5, PEOPLE[0]] = None
    wide.to_csv(folder / "wide.csv", index=False)
    return fit(folder, "wide.csv", "--annotators", "*@example.org")


@pytest.fixture(scope="module")
def fitted_tasks(tmp_path_factory):
    """A run of an export of Label Studio."""
    folder = tmp_path_factory.mktemp("tasks")
    write_json(folder / "export.json", answers_only(review_tasks(40)))
    return fit(folder, "export.json")


def answers_only(tasks):
    return [task | {"annotations": task["annotations"][:3]} for task in tasks]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(run, table, *words):
    """What `pidual export` prints, and the changes it has written."""
    code, out, err = run_cli(["export", run / "run", *words, "--table", table])
    assert code == 0, err
    return out, pd.read_csv(words[0].rpartition(".")[0] + ".changes.csv").set_index("row")


def cells(path):
    """The cells of the untidy table, without blank lines and the header."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [row for row in csv.reader(file, delimiter=";") if row][1:]


def test_a_csv_file_differs_in_the_changed_cells_alone(fitted, folder):
    out, changes = export(fitted, fitted / "labels.csv", "clean.csv", "--to", "csv")
    n_issues = Run.open(fitted / "run").summary.n_issues
    assert (
        out
        == f"clean.csv: {n_issues} of {n_issues} labels that look wrong changed\nclean.changes.csv: list of changes\n"
    )
    assert len(changes) == n_issues > 5
    assert set(changes["source"]) == {"consensus"}
    old, new = cells(fitted / "labels.csv"), cells(folder / "clean.csv")
    assert [row for row in range(len(old)) if old[row] != new[row]] == changes.index.tolist()
    for row, change in changes.iterrows():
        assert [old[row][0], *old[row][2:]] == [new[row][0], *new[row][2:]]
        assert (old[row][1].strip(), new[row][1].strip()) == (change.given_label, change.new_label)
        assert old[row][2] == change.annotator  # raw: the export is its owner's
    before, after = ((path / name).read_bytes() for path, name in ((fitted, "labels.csv"), (folder, "clean.csv")))
    lines = list(zip(before.split(b"\r\n"), after.split(b"\r\n"), strict=True))
    assert sum(one != other for one, other in lines) == len(changes)
    assert "annotator" in open_source("clean.csv")


def test_the_name_of_the_file_is_made_of_that_of_the_table(fitted, folder):
    table = fitted / "labels.csv"
    assert run_cli(["export", fitted / "run", "--to", "csv", "--table", table])[0] == 0
    assert run_cli(["export", fitted / "run", "--to", "label-studio", "--table", table])[0] == 0
    names = ["labels.clean.changes.csv", "labels.clean.csv", "labels.tasks.json"]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_labels_stay_where_the_consensus_is_not_sure_enough(fitted, folder):
    run = Run.open(fitted / "run")
    every = decide(run)
    some = decide(run, sure=float(every["consensus_quality"].median()))
    assert 0 < len(some) < len(every)
    _, changes = export(fitted, fitted / "labels.csv", "clean.csv", "--to", "csv", "--sure", "1")
    assert len(changes) == 0
    assert (folder / "clean.csv").read_bytes() == (fitted / "labels.csv").read_bytes()


def test_items_that_are_sure_enough_are_counted_with_the_share_expected_wrong(fitted, folder):
    items = Run.open(fitted / "run").items
    quality = items["consensus_quality"].to_numpy(float)
    sure = quality >= 0.95
    assert 0 < sure.sum() < len(items) == 40
    counts = f"{sure.sum()} of 40 items have a consensus that is at least 95% likely"
    expected = f"{counts}; {100 * (1 - quality[sure].mean()):.1f}% of them are expected to be wrong\n"
    out, changes = export(fitted, fitted / "labels.csv", "clean.csv", "--to", "csv", "--sure", "95%")
    assert out.endswith(f"list of changes\n{expected}")
    assert (changes["consensus_quality"] >= 0.95).all()
    code, out, _ = run_cli(["export", fitted / "run", "soft.csv", "--to", "csv", "--soft", "--sure", "0.95"])
    assert (code, out) == (0, f"soft.csv: the probability of every class for {sure.sum()} items\n{expected}")
    assert set(pd.read_csv("soft.csv")["item"].astype(str)) == set(items["item"][sure].astype(str))
    code, out, _ = run_cli(["export", fitted / "run", "soft.csv", "--to", "csv", "--soft", "--sure", "1", "--force"])
    assert (code, out.splitlines()[1]) == (0, "0 of 40 items have a consensus that is at least 100% likely")
    code, out, err = run_cli(["export", fitted / "run", "none.csv", "--to", "csv", "--sure", "95"])
    assert (code, out) == (2, "")
    assert err == "Error: --sure takes a share such as 95% or 0.95, not '95'.\n"


def test_what_reviewers_decided_comes_before_the_consensus(fitted, folder):
    shutil.copytree(fitted / "run", folder / "run")
    run = Run.open("run")
    before, frame = decide(run).set_index("row"), run.predictions.frame
    assert before.index.tolist() == frame.index[frame["is_label_issue"]].tolist()  # all of them
    kept, unsure, *_ = before.index
    changed = int(frame.index[~frame["is_label_issue"]][0])
    old = frame["given_label"].iloc[changed]
    new = {"cat": "dog", "dog": "cat"}[old]
    store = Store(run)
    for row, decision, label in (
        (kept, "keep", before.loc[kept, "given_label"]), (unsure, "unsure", None), (changed, "change", new)
    ):  # fmt: skip
        store.add(row, decision, label, reviewer="ann", request=str(row))
    store.close()
    out, changes = export(folder, fitted / "labels.csv", "clean.csv", "--to", "csv", "--sure", "0")
    said = f"{len(changes)} labels changed, 1 by reviewers, who decided on 3, and {len(changes) - 1} that look wrong"
    assert out.startswith(f"clean.csv: {said} and nobody decided on\n")
    assert changes.index.tolist() == sorted({*before.index, changed} - {kept, unsure})
    assert changes.loc[changed, ["given_label", "new_label", "source"]].tolist() == [old, new, "reviewed"]
    assert set(changes["source"].drop(changed)) == {"consensus"}
    assert cells(folder / "clean.csv")[changed][1].strip() == new
    _, changes = export(folder, fitted / "labels.csv", "sure.csv", "--to", "csv", "--sure", "1")
    assert changes.index.tolist() == [changed]


def test_the_only_answer_to_an_item_is_changed_by_the_model(fitted):
    run = Run(fitted / "run")
    frame = run.predictions.frame
    first = int(frame.index[frame["is_label_issue"]][0])
    alone = frame[(frame["item"] != frame["item"][first]) | (frame.index == first)]
    object.__setattr__(run, "predictions", type(run.predictions)(alone, run.predictions.classes, []))
    sources = decide(run).set_index("row")["source"]
    assert sources[first] == "automatic"
    assert set(sources.drop(first)) == {"consensus"}


def test_json_lines(fitted, folder):
    write_json(folder / "labels.jsonl", answers().to_dict("records"), lines=True)
    _, changes = export(fitted, "labels.jsonl", "clean.jsonl", "--to", "jsonl")
    old, new = ((folder / name).read_text().splitlines() for name in ("labels.jsonl", "clean.jsonl"))
    assert [row for row in range(len(old)) if old[row] != new[row]] == changes.index.tolist()
    for row, change in changes.iterrows():
        assert new[row] == old[row].replace(f'"label": "{change.given_label}"', f'"label": "{change.new_label}"')


def test_parquet(fitted, folder):
    frame = answers()
    typed = pa.Table.from_pandas(frame.astype({"label": "category"}), preserve_index=False)
    typed = typed.replace_schema_metadata({b"mine": b"x"})
    pq.write_table(typed, "labels.parquet")
    typed = pq.read_table("labels.parquet")
    _, changes = export(fitted, "labels.parquet", "clean.parquet", "--to", "parquet")
    clean = pq.read_table("clean.parquet")
    assert clean.schema.field("label").type == typed.schema.field("label").type
    assert clean.schema.metadata[b"mine"] == b"x"
    assert clean.drop_columns(["label"]).equals(typed.drop_columns(["label"]))
    assert clean["label"].to_pylist() == corrected(frame, changes)


def corrected(frame, changes):
    labels = frame["label"].to_numpy(object)
    labels[changes.index] = changes["new_label"]
    return labels.tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_table_stays_wide(fitted_wide, folder, ending):
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending]
    wide = pd.read_csv(fitted_wide / "wide.csv")
    wide.to_csv("wide.csv", index=False) if ending == "csv" else wide.to_parquet("wide.parquet", index=False)
    wide = read(f"wide.{ending}")
    _, changes = export(fitted_wide, f"wide.{ending}", f"clean.{ending}", "--to", ending)
    assert len(changes) > 3
    for change in changes.itertuples():
        assert wide.loc[wide["item"] == change.item, change.annotator].item() == change.given_label
        wide.loc[wide["item"] == change.item, change.annotator] = change.new_label
    pd.testing.assert_frame_equal(read(f"clean.{ending}"), wide)


def test_the_run_of_a_wide_table_names_nobody(fitted_wide):
    files = [path for path in (fitted_wide / "run").rglob("*") if path.is_file()]
    assert [path for path in files if b"@example.org" in path.read_bytes()] == []
    assert "--annotators ..." in Run.open(fitted_wide / "run").config.source.command


def test_names_of_annotators(fitted, folder):
    words = ["annotators", fitted / "run"]
    code, out, err = run_cli(words)
    assert code == 0, err
    assert "@example.org" not in out
    code, out, err = run_cli([*words, "--names", "--table", fitted / "labels.csv", "--out", "who.csv"])
    assert code == 0, err
    who = pd.read_csv("who.csv")
    assert sorted(who["name"]) == PEOPLE
    assert who["annotator"].str.startswith("a-").all()
    assert who.sort_values("annotator_quality")["name"].iloc[0] == PEOPLE[3]
    (folder / "labels.csv").write_bytes((fitted / "labels.csv").read_bytes())
    code, _, err = run_cli([*words, "--names"])
    assert code == 2
    assert "There is no key of the pseudonyms at .pidual.key" in err
    assert not (folder / ".pidual.key").exists()
    write_key(folder)
    (folder / ".pidual.key").write_text("77" * 32)
    code, _, err = run_cli([*words, "--names"])
    assert code == 2
    assert "the key does not fit: 4 of 4 pseudonyms" in err


def test_an_export_of_label_studio_as_a_table(fitted_tasks, folder):
    _, changes = export(fitted_tasks, fitted_tasks / "export.json", "clean.csv", "--to", "csv")
    clean = pd.read_csv("clean.csv")
    assert clean["label"].iloc[changes.index].tolist() == changes["new_label"].tolist()
    assert clean["annotator"].str.endswith("@example.org").all()
    write_min(folder / "flat.csv", json.loads((fitted_tasks / "export.json").read_text()))
    _, changes = export(fitted_tasks, "flat.csv", "flat_clean.csv", "--to", "csv")
    old, new = pd.read_csv("flat.csv"), pd.read_csv("flat_clean.csv")
    pd.testing.assert_frame_equal(old.drop(columns="sentiment"), new.drop(columns="sentiment"))
    assert np.flatnonzero(old["sentiment"] != new["sentiment"]).tolist() == changes.index.tolist()


def test_other_formats_are_long_tables(fitted, folder):
    _, changes = export(fitted, fitted / "labels.csv", "clean.parquet", "--to", "parquet")
    export(fitted, fitted / "labels.csv", "other.jsonl", "--to", "jsonl")
    expected = corrected(answers(), changes)
    for read in (pd.read_parquet("clean.parquet"), pd.read_json("other.jsonl", lines=True)):
        assert read["label"].str.strip().tolist() == expected
        assert read["annotator"].tolist() == answers()["annotator"].tolist()
    answers().to_csv("labels.csv", index=False)
    words = ["tasks.json", "--to", "label-studio", "--table", "labels.csv"]
    assert run_cli(["export", fitted / "run", *words])[0] == 0
    (first, *_) = json.loads((folder / "tasks.json").read_text())
    assert first["data"]["note"] == f"note {first['data']['pidual_item']}"
    assert first["predictions"][0]["result"][0]["to_name"] == "note"


def test_what_cannot_be_exported(fitted, folder):
    (folder / "mine.csv").write_text("mine")
    answers(seed=1).to_csv("other.csv", index=False)
    answers().iloc[:-1].to_csv("short.csv", index=False)
    table = fitted / "labels.csv"
    for words, code, said in [
        (["mine.csv", "--to", "csv"], 2, "mine.csv exists; choose another name, or replace it with --force"),
        ([table, "--to", "csv", "--force", "--table", table], 2, "labels.csv is the table itself"),
        (["o.csv", "--to", "csv", "--table", "no.csv"], 2, "is not at no.csv; say where it is"),
        (["o.csv", "--to", "csv"], 2, "is not at labels.csv; say where it is"),
        (["o.csv", "--to", "xlsx"], 2, "'xlsx' is not one of"),
        (["o.csv", "--to", "csv", "--table", "other.csv"], 1, "other.csv does not hold the labels that"),
        (["o.csv", "--to", "csv", "--table", "short.csv"], 1, "short.csv does not hold the labels that"),
    ]:
        found = run_cli(["export", fitted / "run", *words])
        assert found[0] == code
        assert said in found[2]
    assert not (folder / "o.csv").exists()
    run = Run.open(fitted / "run")
    with pytest.raises(ValueError, match="no format 'x' to export to"):
        export_run(run, "o.csv", "x")
    with pytest.raises(ValueError, match="sure must be between 0 and 1"):
        export_run(run, "o.csv", "csv", sure=2)


# --- cells, against files of which every cell is known ---

PLAIN = st.text(
    st.characters(codec="utf-8", exclude_characters='",;\r\n\t', exclude_categories=["Cs", "Cc"]), max_size=4
)
QUOTED = st.text(st.sampled_from('ab,;\n\r"é'), max_size=4).map(lambda text: '"' + text.replace('"', '""') + '"')


@st.composite
def files(draw):
    """Raw cells of a table, and which of them are to be written like which."""
    n, width = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    first = st.sampled_from(["1", "x", '"y"'])  # so that no record looks blank
    rows = [[draw(first), *(draw(PLAIN | QUOTED) for _ in range(width - 1))] for _ in range(n)]
    cell = st.tuples(st.integers(0, n - 1), st.integers(0, width - 1))
    pairs = draw(st.dictionaries(cell, cell, max_size=4))
    return (
        rows,
        pairs,
        draw(st.sampled_from([",", ";", "\t"])),
        draw(st.sampled_from(["\n", "\r\n"])),
        draw(st.booleans()),
    )


def content(raw):
    """What a raw cell holds."""
    text = raw[1:-1].replace('""', '"') if raw.startswith('"') else raw
    return re.sub(r"^'('*[=+\-@\t\r])", r"\1", text.strip())


def text_of(rows, separator, end, blank, bom):
    header = separator.join(f"c{number}" for number in range(len(rows[0])))
    lines = [bom + header, *(separator.join(cells) for cells in rows)]
    return (end + (end if blank else "")).join(lines) + end


@settings(max_examples=200, deadline=None)
@given(files())
def test_cells_of_separated_values(tmp_path_factory, case):
    rows, pairs, separator, end, blank = case
    folder = tmp_path_factory.mktemp("cells")
    bom = "\ufeff" if blank else ""
    (folder / "t.csv").write_bytes(text_of(rows, separator, end, blank, bom).encode())
    names = [f"c{number}" for number in range(len(rows[0]))]
    held = {(row, column): content(rows[row][column]) for row in range(len(rows)) for column in range(len(rows[0]))}
    edits = [
        Edit((cell[0], names[cell[1]]), (like[0], names[like[1]]), held[cell], held[like])
        for cell, like in pairs.items()
    ]
    edit_csv(folder / "t.csv", folder / "out.csv", names, separator, edits)
    expected = [list(cells) for cells in rows]
    for (row, column), (other_row, other_column) in pairs.items():
        expected[row][column] = rows[other_row][other_column]
    assert (folder / "out.csv").read_bytes() == text_of(expected, separator, end, blank, bom).encode()


def test_a_table_that_is_not_utf_8_is_refused(fitted, folder):
    text = untidy_csv(answers()).decode().replace("note 3", "caf\xe9")
    (folder / "labels.csv").write_bytes(text.encode("latin-1", "replace"))
    with pytest.raises(DataError, match=r"byte 0xe9.*save the file as UTF-8"):
        export_run(Run.open(fitted / "run"), "clean.csv", "csv", table="labels.csv")
    assert not (folder / "clean.csv").exists()


SCALAR = (
    st.none() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=3) | st.lists(st.integers(), max_size=2)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SCALAR, SCALAR), min_size=1, max_size=5), st.data())
def test_values_of_json_lines(tmp_path_factory, rows, data):
    folder = tmp_path_factory.mktemp("lines")
    spaces = data.draw(st.sampled_from(["", " ", "\t "]))

    def line(pair):
        parts = [
            f'{spaces}"{name}"{spaces}:{spaces}{json.dumps(value)}' for name, value in zip("ab", pair, strict=True)
        ]
        return "{" + f"{spaces},".join(parts) + spaces + "}" + spaces + "\r\n\n"

    (folder / "t.jsonl").write_bytes("".join(map(line, rows)).encode())
    row, like = (data.draw(st.integers(0, len(rows) - 1)) for _ in range(2))
    edit_json_lines(
        folder / "t.jsonl",
        folder / "out.jsonl",
        [Edit((row, "b"), (like, "b"), *(str(rows[number][1]).strip() for number in (row, like)))],
    )
    expected = [list(pair) for pair in rows]
    expected[row][1] = rows[like][1]
    assert (folder / "out.jsonl").read_bytes() == "".join(map(line, expected)).encode()


def test_only_answers_without_a_likelier_class_are_counted(fitted, folder, monkeypatch):
    same = property(
        lambda predictions: (predictions.suggested == predictions.given) & (np.arange(len(predictions)) < 40)
    )
    monkeypatch.setattr(Predictions, "is_issue", same)
    out, _ = export(fitted, fitted / "labels.csv", "clean.csv", "--to", "csv")
    n = Run(fitted / "run").predictions.is_issue.sum()
    assert f"look wrong changed; for {n} others no class is likelier, so check them by hand\n" in out


def test_quotes_within_cells_and_other_labels(folder):
    (folder / "t.csv").write_text('item,label,size\n1,cat,5" disk\n2,dog,7\n3,"cat",a"b"c\n4,dog,"x\ny"\n5,cat,1\n')
    names = ["item", "label", "size"]
    edits = [Edit((4, "label"), (1, "label"), "cat", "dog"), Edit((3, "label"), (2, "label"), "dog", "cat")]
    edit_csv(folder / "t.csv", folder / "o.csv", names, ",", edits)
    expected = 'item,label,size\n1,cat,5" disk\n2,dog,7\n3,"cat",a"b"c\n4,"cat","x\ny"\n5,dog,1\n'
    assert (folder / "o.csv").read_text() == expected
    with pytest.raises(DataError, match=r"t\.csv, record 2, column 'label' holds 'dog' where the run has 'owl'"):
        edit_csv(folder / "t.csv", folder / "o.csv", names, ",", [Edit((1, "label"), (0, "label"), "owl", "cat")])
    with pytest.raises(DataError, match="fewer records than the run"):
        edit_csv(folder / "t.csv", folder / "o.csv", names, ",", [Edit((9, "label"), (0, "label"), "dog", "cat")])
