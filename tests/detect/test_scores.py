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
