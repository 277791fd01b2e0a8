"""Records of a run's files: what they refuse, in a sentence."""

from pathlib import Path

import pytest

from pidual.errors import RunError
from pidual.run.records.config import Position
from pidual.run.records.reading import parse_record

PATH = Path("state.safetensors")


@pytest.mark.parametrize("finite", [True, False])
def test_half_a_character_is_a_sentence(finite):
    with pytest.raises(RunError, match=r"state\.safetensors is not valid JSON and cannot be read"):
        parse_record(PATH, '{"best": {"\\ud800": 1}}', Position, finite=finite)


def test_a_value_of_another_kind_is_named_with_its_place():
    with pytest.raises(RunError, match=r"state\.safetensors cannot be used: epoch must be a whole number"):
        parse_record(PATH, '{"epoch": "two"}', Position)


def test_a_record_of_a_newer_pidual_says_so():
    with pytest.raises(RunError, match="written by a newer pidual"):
        parse_record(PATH, '{"format": 99}', Position)
