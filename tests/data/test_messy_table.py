"""A spreadsheet as people keep them, from its first fit to its export: spellings, gaps, dates, decimal commas."""

import contextlib
import csv
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import run_cli, write_key

from pidual import PiDualClassifier
from pidual.api.run import Run
from pidual.errors import DataError
from pidual.run.decisions import Store
from pidual.show.export.network import Probabilities, load_network, made_up_inputs
from pidual.show.review.originals import Originals

SPELLINGS = {
    "ok": ["ok", "ok", "OK", "ok ", "o.k."],
    "Rückfrage": ["Rückfrage", "Rückfrage", "rückfrage", "Ru\u0308ckfrage"],
}
PEOPLE = ["Anna", "Bernd", "Eva"]
COLUMNS = ["Beleg", "Prüfer", "Urteil", "Dauer s", "Datum", "Betrag", "Alter"]
FIT = ["--item", "Beleg", "--label", "Urteil", "--annotator", "Prüfer", "--pi", "Prüfer,Dauer s,Datum"]
SMALL = ["--x-columns", "Betrag,Alter", "--same", "o.k.=ok", "--quiet", "--out"]


def rows_of(rng, n=40):
    """Three answers to each item, of which the first person's may be wrong."""
    for item in range(n):
        truth = item % 2
        amount = f"{rng.normal(3 * truth, 1):.2f}".replace(".", ",") if item % 8 else ""
        for number, person in enumerate(PEOPLE):
            label = list(SPELLINGS)[truth ^ (number == 0 and item % 5 == 1)]
            written = "" if item % 10 == 3 and number == 1 else rng.choice(SPELLINGS[label])
            second = amount if item != 9 or number else "1,5"
            date = f"{rng.integers(1, 29):02d}.05.2026 {rng.integers(0, 24):02d}:05"
            yield [f"B{item}", person, written, f"{rng.gamma(2, 5):.1f}".replace(".", ","), date, second, item % 7]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A run of the spreadsheet, `run`, and what `fit` said."""
    folder = tmp_path_factory.mktemp("sheet")
    write_key(folder)
    with (folder / "belege.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(COLUMNS)
        writer.writerows(rows_of(np.random.default_rng(4)))
    with contextlib.chdir(folder):
        code, _, err = run_cli(["fit", "belege.csv", *FIT, *SMALL, "run"])
    assert code == 0, err
    return folder, err


@pytest.fixture
def folder(fitted, tmp_path):
    """A copy of its folder."""
    shutil.copytree(fitted[0], tmp_path / "sheet")
    with contextlib.chdir(tmp_path / "sheet"):
        yield tmp_path / "sheet"


def cells(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file, delimiter=";"))[1:]


def test_a_spreadsheet_is_fitted_at_the_first_try(fitted):
    folder, err = fitted
    run = Run.open(folder / "run")
    for said in (
        "belege.csv: 4 rows without a label are skipped (first: line 12, column 'Urteil').",
        "'o.k.' (",
        "'Ru\u0308ckfrage' (",
        "other Unicode form",
        "items differ between their rows; the first value is used (first: line 30, column 'Betrag': ",
        "belege.csv: 5 of 40 values of the input column Betrag are missing",
    ):
        assert said in err
        assert any(said in note for note in run.summary.warnings)
    assert run.predictions.classes == ["Rückfrage", "ok"]
    assert run.config.source.read.same == {"o.k.": "ok"}
    assert [(column.name, column.kind) for column in run.config.data.pi][2] == ("Datum", "number")
    assert run.config.data.pi[2].first.startswith("2026-05-")
    assert run.model.inputs.missing.columns == [0]
    rows = run.predictions.frame["table_row"].to_numpy()
    written = [row[2].strip() for row in cells(folder / "belege.csv")]
    assert [written[row] for row in rows] == [one for one in written if one]


def test_spellings_can_stay_apart(folder):
    code, _, err = run_cli(["fit", "belege.csv", *FIT, "--exact-labels", "--no-x", "--quiet", "--out", "apart"])
    assert code in (0, 1), err
    assert len(Run.open("apart").predictions.classes) == 6
    assert "--same o.k.=ok" in err


def test_its_export_differs_in_the_changed_labels_alone(folder):
    store = Store(Run.open("run"))
    store.add(0, "change", "ok", reviewer="ann", request="1")
    store.add(60, "change", "Rückfrage", reviewer="ann", request="2")
    store.close()
    code, _, err = run_cli(["export", "run", "clean.csv", "--to", "csv"])
    assert code == 0, err
    old, new, changes = cells(folder / "belege.csv"), cells(folder / "clean.csv"), pd.read_csv("clean.changes.csv")
    differing = [row for row in range(len(old)) if old[row] != new[row]]
    assert differing == changes["row"].tolist()
    assert int(Run.open("run").predictions.frame["table_row"][60]) in differing
    for row, label in zip(changes["row"], changes["new_label"], strict=True):
        assert [*new[row][:2], new[row][2].strip(), *new[row][3:]] == [*old[row][:2], label, *old[row][3:]]
    code, _, err = run_cli(["export", "run", "clean.parquet", "--to", "parquet", "--force"])
    assert code == 0, err
    assert len(pd.read_parquet("clean.parquet")) == len(Run.open("run").predictions)


def test_it_is_fitted_again_as_it_was_read(folder):
    store = Store(Run.open("run"))
    store.add(0, "keep", "Rückfrage", reviewer="ann", request="1")
    store.close()
    code, _, err = run_cli(["fit", "--from", "run", "--quiet", "--out", "again"])
    assert code == 0, err
    assert Run.open("again").predictions.classes == ["Rückfrage", "ok"]
    code, _, err = run_cli(["fit", "belege.csv", *FIT, *SMALL, "run", "--resume"])
    assert code == 0, err


def test_the_page_shows_its_items(folder):
    shown = Originals(Run.open("run")).show(3, "B1")
    assert shown["note"] is None
    assert [column["column"] for column in shown["columns"]] == ["Betrag", "Alter", "Betrag is missing"]


def test_a_missing_number_is_predicted_like_one_in_training(folder):
    run = Run.open("run")
    x = np.array([[np.nan, 3], [1.5, 2]])
    p = run.predict(x)[["p_Rückfrage", "p_ok"]].to_numpy()
    model = run.model.inputs
    filled = np.array([[model.missing.medians[0], 3, 1], [1.5, 2, 0]], np.float32)
    with torch.inference_mode():
        np.testing.assert_allclose(run.load().logits(torch.from_numpy(filled)).softmax(1).numpy(), p, atol=1e-6)
        exported = Probabilities(load_network(run), model).eval()
        np.testing.assert_allclose(exported(torch.from_numpy(x.astype(np.float32))).numpy(), p, atol=1e-6)
    assert np.isnan(made_up_inputs(model, exported)).any(axis=0).tolist() == [True, False]
    frame = pd.DataFrame(x, columns=["Betrag", "Alter"])
    np.testing.assert_allclose(PiDualClassifier.from_run(run).predict_proba(frame), p, atol=1e-6)
    with pytest.raises(DataError, match=r"row 1, column 1 .*the value is missing, and none was in this column"):
        run.predict(np.array([[1.0, 3], [1.5, np.nan]]))
