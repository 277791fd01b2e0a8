"""PI that is the label in disguise is refused; PI that only goes with the label is not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli

from pidual import CrowdClassifier, DataError, DataWarning
from pidual.data import AnnotationTable, load_inputs
from pidual.data.pi import PIEncoder
from pidual.data.pi.checks import check_pi, determined_share, find_label_columns, neighbour_share

pytestmark = pytest.mark.shapes_unchecked

N = 600


def check(label, pi, **options):
    """Look at PI columns as a fit does; the columns that are left are returned."""
    frame = pd.DataFrame({"label": label, **pi})
    table = AnnotationTable.from_frame(frame, pi=list(pi), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        columns = PIEncoder().fit(table).columns_
    check_pi(table, columns, np.arange(len(table)), table.item_codes)
    return [column.name for column in columns]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def label(rng):
    return rng.choice(["cat", "dog", "owl"], N)


GIVEAWAYS = {
    "copy": lambda label, rng: label,
    "other spelling": lambda label, rng: np.char.upper(label),
    "number": lambda label, rng: np.unique(label, return_inverse=True)[1],
    "scaled number": lambda label, rng: np.unique(label, return_inverse=True)[1] * 2.5 - 1,
    "finer": lambda label, rng: np.char.add(label, rng.choice(list("abcd"), N)),
    "finer numbers": lambda label, rng: np.unique(label, return_inverse=True)[1] * 4 + rng.integers(0, 4, N),
    "with gaps": lambda label, rng: np.where(rng.random(N) < 0.2, None, label),
    "missing for one class": lambda label, rng: np.where(label == "cat", None, label),
    "nearly a number": lambda label, rng: np.unique(label, return_inverse=True)[1] + rng.normal(0, 0.05, N),
    "a day of its own": lambda label, rng: (
        pd.to_datetime("2026-01-01")
        + pd.to_timedelta(np.unique(label, return_inverse=True)[1] + rng.random(N) / 2, "D")
    ),
    "but for two rows": lambda label, rng: np.where(np.arange(N) < 2, "cat", label),
}


@pytest.mark.parametrize("make", GIVEAWAYS.values(), ids=GIVEAWAYS)
def test_pi_that_determines_the_label_is_refused(label, rng, make):
    with pytest.raises(DataError, match=r"PI column 'hint' of table determines the label .*leave it out of the PI"):
        check(label, {"hint": make(label, rng)})


FINE = {
    "nothing": lambda label, rng: rng.choice(list("abc"), N),
    "goes with it in 95% of the rows": lambda label, rng: np.where(rng.random(N) < 0.95, label, "cat"),
    "true label": lambda label, rng: np.where(rng.random(N) < 0.15, rng.choice(["cat", "dog", "owl"], N), label),
    "score": lambda label, rng: np.where(label == "cat", 1.0, 0.0) + rng.random(N) / 2,
    "nearly a number, with more noise": lambda label, rng: (
        np.unique(label, return_inverse=True)[1] + rng.normal(0, 0.3, N)
    ),
    "nearly a number, but in half of the rows": lambda label, rng: np.where(
        rng.random(N) < 0.5, np.unique(label, return_inverse=True)[1] + rng.normal(0, 0.05, N), np.nan
    ),
    "rounded confidence": lambda label, rng: np.where(rng.random(N) < 0.5, 1.0, rng.random(N).round(1)),
    "a value a row": lambda label, rng: np.char.add(label, np.arange(N).astype(str)),
    "a value for every two rows": lambda label, rng: np.char.add(label, (np.arange(N) // 6).astype(str)),
    "one value with one label": lambda label, rng: np.where(label == "cat", "c", rng.choice(list("ab"), N)),
    "mostly one value": lambda label, rng: np.where(np.arange(N) < 20, label, "web"),
}


@pytest.mark.parametrize("make", FINE.values(), ids=FINE)
def test_pi_that_does_not_is_fine(label, rng, make):
    check(label, {"hint": make(label, rng)})


@pytest.mark.parametrize("n", [6, 10, 16])
def test_a_few_rows_prove_nothing(n):
    label = np.tile(["cat", "dog"], n // 2)
    assert check(label, {"hint": label}) == ["hint"]


def test_random_pi_is_never_refused():
    """Two thousand columns of one to fifty values in tables of 4 to 400 rows, with 2 to 5 classes of any frequency."""
    rng = np.random.default_rng(1)
    for _ in range(2_000):
        n, k, v = int(rng.integers(4, 400)), int(rng.integers(2, 6)), int(rng.integers(1, 50))
        label = rng.choice(k, n, p=rng.dirichlet(np.ones(k)))
        assert determined_share(rng.integers(0, v, n), label) is None


def test_neighbours_by_plain_loops(rng):
    labels, item = rng.integers(0, 3, 300), np.arange(300) // 2
    number = (labels + rng.uniform(0, 0.6, 300)).round(2)  # some values are those of several rows
    same = []
    for i in range(300):
        others = [j for j in range(300) if item[j] != item[i] and number[j] != number[i]]
        nearest = min(abs(number[j] - number[i]) for j in others)
        same.append(labels[i] in {labels[j] for j in others if np.isclose(abs(number[j] - number[i]), nearest)})
    assert all(same)
    assert neighbour_share(number, labels, item) == 1
    assert neighbour_share(labels, labels, item) is None  # the next value is another label
    assert neighbour_share(labels, labels, item, ties=True) == 1
    assert neighbour_share(number + rng.normal(0, 0.2, 300), labels, item) is None
    assert neighbour_share(np.zeros(300), np.sort(labels), item, ties=True) is None  # rows of one label lie together
    assert (
        neighbour_share(np.repeat(rng.normal(size=3), 100), np.repeat([0, 1, 2], 100), np.repeat(range(3), 100)) is None
    )
    assert neighbour_share(number[:12], labels[:12], item[:12]) is None  # too few to prove anything


X_COLUMNS = {
    "a copy": (lambda y, x, rng: np.c_[x, y], ["2"]),
    "nearly a copy": (lambda y, x, rng: np.c_[y + rng.normal(0, 0.1, N), x], ["0"]),
    "one for every class": (lambda y, x, rng: np.c_[x, 4 * np.eye(3)[y]], ["2", "3", "4"]),
    "one for two of three": (lambda y, x, rng: np.c_[x, np.eye(3)[y][:, 1:]], ["2", "3"]),
    "one class": (lambda y, x, rng: np.c_[x, y == 1], []),
    "none": (lambda y, x, rng: x, []),
    "flags": (lambda y, x, rng: rng.random((N, 50)) < 0.02, []),
    "nothing": (lambda y, x, rng: np.ones((N, 2)), []),
}


@pytest.mark.parametrize(("make", "names"), X_COLUMNS.values(), ids=X_COLUMNS)
def test_columns_of_x_that_give_the_label_away(rng, make, names):
    y = rng.integers(0, 3, N)
    x = rng.normal(size=(N, 2)) + 2 * np.eye(3, 2)[y]
    inputs = load_inputs(make(y, x, rng).astype(np.float32))
    assert find_label_columns(inputs, np.arange(N), y) == names
    assert find_label_columns(inputs, np.arange(29), y[:29]) == []
    assert find_label_columns(inputs, np.arange(0), y[:0]) == []


@pytest.mark.parametrize("column", ["annotator", "completed_by", "reviewer"])
def test_an_annotator_for_every_class_is_warned_of(label, column):
    with pytest.warns(DataWarning, match=r"determines the label .*: everybody gives one label only"):
        check(label, {column: [f"{one}@example.org" for one in label]})


@pytest.fixture
def data(label, rng):
    y = np.unique(label, return_inverse=True)[1]
    wrong = rng.random(N) < 0.15
    given = np.where(wrong, rng.choice(["cat", "dog", "owl"], N), label)
    return (rng.normal(size=(N, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32), given, rng.choice(list("pqr"), N)


def test_the_command_names_the_column_and_writes_nothing(data, tmp_path):
    x, label, who = data
    np.save(tmp_path / "x.npy", x)
    frame = pd.DataFrame({"label": label, "annotator": who, "answer": label, "seconds": np.arange(N) % 7 + 1.5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--x", tmp_path / "x.npy", "--out", tmp_path / "run", "-q"]
    code, out, err = run_cli([*fit, "--keep-ids", "--pi", "annotator,answer"])
    assert (code, out) == (1, "")
    assert err.startswith("Error: PI column 'answer' of ")
    assert "leave it out of the PI" in err
    assert not (tmp_path / "run").exists()
    code, _, err = run_cli(
        [*fit, "--keep-ids", "--pi", "annotator,answer", "--method", "ce", "--epochs", 1]
    )  # does not use it
    assert code == 0, err


def test_the_estimator_names_the_column(data):
    x, label, who = data
    for answer in label, np.unique(label, return_inverse=True)[1]:
        with pytest.raises(DataError, match="PI column 'answer' of pi determines the label"):
            CrowdClassifier().fit(x, label, pi=pd.DataFrame({"annotator": who, "answer": answer}))
