import subprocess
import sys

import numpy as np
import pytest

from pidual.detect import confidence_score, gate_score
from pidual.errors import UsageError


def test_confidence_is_the_probability_of_the_given_label():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(confidence_score(p, [1, 2]), [0.2, 0.8])
    with pytest.raises(UsageError, match="shapes"):
        confidence_score(p, [1])


def test_gate_score_turns_the_gate_round():
    np.testing.assert_allclose(gate_score([0.0, 0.25, 1.0]), [1.0, 0.75, 0.0])


def test_detect_and_report_do_not_load_torch():
    heavy = "torch", "matplotlib", "sklearn", "jinja2"
    code = f"import pidual.detect, pidual.report, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
