"""The parts of benchmarks/planted.py: tables of known truth, what is stated beside what is true, one small run."""

import pytest

ROW = {"wrong": 0.2, "low": 0.1, "high": 0.18, "expected": 0.9, "precision": 0.8, "consensus": 0.9}


@pytest.fixture(scope="module")
def planted(benchmark):
    return benchmark("planted")


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"high": 0.16}, ["noise"]),
        ({"low": 0.24, "high": 0.3}, ["noise"]),
        ({"expected": 0.96}, ["list"]),
        ({"expected": 0.5}, []),
        ({"expected": None, "precision": None}, []),
        ({"consensus": 0.8}, ["consensus"]),
        ({"consensus": 1.0}, []),
    ],
)
def test_a_row_is_wrong_where_it_states_more_than_is_so(planted, changed, found):
    assert planted.faults({"consensus_stated": 0.92, **ROW, **changed}) == found


@pytest.mark.parametrize(
    "name", ["class_never_true", "items_four_times", "hotel", "spreadsheet", "wide", "judges_capitals"]
)
def test_a_table_has_as_many_wrong_labels_as_it_says(planted, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, again, other = (planted.TABLES[name](seed) for seed in (0, 0, 1))
    assert table.answers.equals(again.answers)
    assert not table.answers.equals(other.answers)
    assert {*table.answers["item"].astype(str)} <= {*table.truth}
    assert {table.same.get(label, label) for label in table.answers["label"]} >= {*table.truth.values()}
    assert 0.1 < planted.is_wrong(table, table.answers["item"], table.answers["label"]).mean() < 0.3
    table.write()
    assert (tmp_path / table.options[0]).exists()


def test_rows_are_fitted_by_the_command_line_once(planted, tmp_path):
    names = ["very_few_items", "label_as_category"]
    log = planted.Log(tmp_path / "planted.jsonl", "table", "seed")
    planted.compare(names, 1, log)
    fitted, refused = log.rows
    assert fitted["rows"] == 45
    assert (fitted["verdict"], fitted["precision"], fitted["recall"]) == ("ok", 1.0, 1.0)
    assert fitted["wrong_with_ok"] is False
    assert 0 < fitted["consensus"] <= 1
    assert (refused["verdict"], refused["exit"]) == ("refused", 1)
    assert "determines the label" in refused["reasons"][0]
    again = planted.Log(tmp_path / "planted.jsonl", "table", "seed")
    planted.compare(names, 1, again)
    assert again.rows == log.rows
    assert planted.markdown(log.rows).count("\n| ") == 3
    planted.forget(again, names[:1])
    assert [row["table"] for row in planted.Log(tmp_path / "planted.jsonl").rows] == names[1:]


def test_people_are_found_by_name_though_the_run_has_pseudonyms(planted):
    row = planted.fit(planted.TABLES["wide"](0))
    assert row["bad_on_top"] == "1 of 1"
    assert row["recall"] > 0.5
