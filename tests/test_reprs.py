"""What tables, inputs and runs show of themselves: a line, and in notebooks a few numbers, with all text escaped."""

import numpy as np
import pandas as pd
import pytest

from pidual import AnnotationTable, FitOptions, Inputs, fit_table, load_inputs
from pidual.datasets.synthetic import make_crowd


@pytest.fixture(scope="module")
def crowd():
    return make_crowd(60, 5, seed=0)


def test_table(crowd):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator", "seconds"], keep_ids=True)
    about = f"{len(table)} annotations of 60 items, {len(table.classes)} classes, 5 annotators"
    assert repr(table) == f"AnnotationTable({about}; PI: annotator, seconds)"
    assert table._repr_html_().startswith("<p>AnnotationTable(")
    hostile = AnnotationTable.from_frame(pd.DataFrame({"item": list("abcd"), "label": ["<script>x", "ok"] * 2}), pi=[])
    assert "<script>" not in hostile._repr_html_()
    assert repr(hostile) == "AnnotationTable(4 annotations of 4 items, 2 classes; PI: none)"


def test_inputs():
    assert repr(Inputs.from_array(np.zeros((7, 3), np.float32))) == "Inputs(7 rows of shape 3, float32, kind 'array')"
    assert "7 rows of shape 3 x 8 x 8, uint8" in Inputs.from_array(np.zeros((7, 3, 8, 8), np.uint8))._repr_html_()


def test_run(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    run = fit_table(
        table, load_inputs(crowd.x.astype(np.float32)), tmp_path / "<b>", FitOptions("ce", options={"epochs": 1})
    )
    assert repr(run) == f"Run({str(tmp_path / '<b>')!r})"
    shown = run._repr_html_()
    assert "<b>" not in shown
    assert f"<td>{run.summary['n_issues']:,}</td>" in shown
