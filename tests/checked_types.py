"""The check of types while tests run: a whole number may stand where a float is asked for, as mypy has it."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
