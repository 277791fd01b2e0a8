"""The result files of the benchmarks, and the page that is made of them."""

import json
import re
from pathlib import Path

import pytest
from tiny_benchmark import crowd, tiny_fit

from pidual.paper.runs import run_fits
from pidual.paper.summary import read_results, summarise

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
DOCS = Path(__file__).parents[2] / "docs"
MARK = re.compile(r"<!-- (.+) -->\n")


def test_making_the_tables_again_changes_nothing(benchmark):
    tables = benchmark("tables")
    for path, made in tables.all_pages().items():
        page = path.read_text()
        assert tables.fill(page, made) == page, f"{path.name}: run `python benchmarks/tables.py`"
        assert set(MARK.findall(page)) - {"end"} == set(made)


def test_a_changed_number_is_put_right(benchmark):
    tables = benchmark("tables")
    page = tables.EVERY_TABLE.read_text()
    changed = page.replace("| ce | 40.3", "| ce | 41.3")
    assert changed != page
    assert tables.fill(changed, tables.tables()) == page


def test_no_page_has_a_table_of_results_that_nobody_makes(benchmark):
    """Every mark is filled from result files, and every page that has a table of accuracies has marks."""
    made = benchmark("tables").all_pages()
    for path in sorted(DOCS.rglob("*.md")):
        assert path in made or not set(MARK.findall(path.read_text())), path.name
        assert path not in made or "Not measured yet." not in path.read_text(), path.name


def test_making_the_tables_of_the_loop_again_changes_nothing(benchmark):
    tables = benchmark("tables")
    page, made = tables.LOOP_PAGE.read_text(), tables.loop_tables()
    assert tables.fill(page, made) == page
    assert set(re.findall(r"<!-- (.+) -->\n", page)) - {"end"} == set(made)


@pytest.mark.parametrize("name", ["settings", "settings_images", "random_pi", "real_crowds", "symmetric_noise"])
def test_a_summary_is_that_of_its_rows(benchmark, name):
    script = {"settings_images": "settings", "random_pi": "settings"}.get(name, name)
    rows = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    made = benchmark(script).summarise(rows)
    made = made if isinstance(made, list) else json.loads(made.to_json(orient="records"))
    assert json.loads((RESULTS / f"{name}.json").read_text())["results"] == made


def test_every_result_file_has_its_command_on_one_page():
    page = (DOCS / "paper" / "reproduce.md").read_text()
    assert [path.name for path in RESULTS.glob("*.json*") if f"`{path.stem}.json" not in page] == []


def test_results_are_few_and_small():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) < 80
    assert sum(path.stat().st_size for path in files) < 2_000_000


def test_packed_fits_make_the_same_summary(benchmark, tmp_path):
    pack, common = benchmark("pack"), benchmark("common")
    fits = [tiny_fit("ce", seed) for seed in (0, 1)] + [tiny_fit("pi_dual"), tiny_fit("ce", 0, "fast, 1%", lr=0.2)]
    run_fits(fits, crowd(), tmp_path / "out")
    results = read_results(tmp_path / "out")
    rows = [pack.pack(result) for result in results]
    (tmp_path / "kept").mkdir()
    pack.write_fits(rows[::-1], tmp_path / "kept")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"cpu-digits_pi-low.jsonl"}
    kept = common.read_fits(tmp_path / "kept")
    assert kept == rows
    assert summarise(kept).equals(summarise(results))
    assert not {"history", "histograms", "examples"} & set(kept[0])
    assert kept[0]["end"] == results[0]["history"][-1]
