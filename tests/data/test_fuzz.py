"""Any table and inputs: read, or refused in one sentence; never a traceback."""

import tempfile
import warnings
from pathlib import Path

import pytest
from fuzzing import cases
from hypothesis import HealthCheck, Phase, given, settings

from pidual.data import load_inputs, read_table
from pidual.errors import DataWarning, PidualError

pytestmark = pytest.mark.shapes_unchecked

# Without shrinking: a case that fails is printed as it is, in seconds; to shrink it, add Phase.shrink.
OFTEN = {"deadline": None, "database": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}


@settings(max_examples=40, derandomize=True, **OFTEN)
@given(cases())
def test_forty_cases_of_the_readers(case):
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        case.write(Path(name))
        table = read(lambda: read_table(Path(name) / case.table, keep_ids=True))
        assert table is None or case.rows is None or len(table) <= case.rows
        inputs = read(lambda: load_inputs(Path(name) / case.x)) if case.x else None
        assert inputs is None or case.inputs is None or len(inputs) == case.inputs


def read(reader):
    """What a reader gives, or None where it refuses it in one sentence."""
    try:
        return reader()
    except PidualError as error:
        said = str(error)
    assert "\n" not in said
    assert said.endswith((".", "?")), said
    assert len(said) < 2_000
    return None
