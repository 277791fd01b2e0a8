"""The paper's comparisons: `pidual benchmark` in Python.

recipe = load_recipe("digits_pi", "cpu")
results = run_fits(plan(recipe, ["ce", "pi_dual"], seeds=3), Path("data"), Path("results"))
summarise(results)
"""

from ..recipes import Recipe, load_recipe
from .runs import Fit, choose_methods, load_data, plan, run_fits
from .score import fit_and_score, table_and_inputs, try_out
from .summary import paper_table, read_results, summarise, write_summary

__all__ = [
    "Fit",
    "Recipe",
    "choose_methods",
    "fit_and_score",
    "load_data",
    "load_recipe",
    "paper_table",
    "plan",
    "read_results",
    "run_fits",
    "summarise",
    "table_and_inputs",
    "try_out",
    "write_summary",
]
