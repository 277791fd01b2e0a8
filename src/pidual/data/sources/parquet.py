"""Parquet files."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from ...errors import DataError
from ..paths import File
from .arrow_types import class_names, is_list, is_numeric, plain_type, with_names
from .base import arrow_message
from .file import OneFile


class ParquetFile(OneFile):
    """A Parquet file."""

    blocks = (0,)

    def __init__(self, file: File | str | Path):
        super().__init__(file)
        try:
            with self.at.open(unpacked=False) as stream:
                self._schema = pyarrow.parquet.read_schema(stream)
            self.columns = list(self._schema.names)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            self._explain(error)
        self._classes = class_names(self._schema.metadata)

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        found = {name: plain_type(self, name, column) for name, column in super()._read(columns, numeric).items()}
        return found | {name: with_names(found[name], names) for name, names in self._classes.items() if name in found}

    def _format(self, columns: Sequence[str], numeric: Collection[str], block: int) -> tuple[Any, Any]:
        return pyarrow.dataset.ParquetFileFormat(), None

    def whole(self) -> Any:
        """Return all columns, as they are in the file."""
        return pa.table(super()._read(self.columns, ()))

    def numeric_columns(self) -> list[str]:
        return [field.name for field in self._schema if is_numeric(field.type) and field.name not in self._classes]

    def holds_lists(self, column: str | None) -> bool:
        return column in self and is_list(self._schema.field(column).type)

    def _explain(self, error: Exception, numeric: Collection[str] = ()) -> NoReturn:
        raise DataError(f"{self.name} cannot be read as Parquet ({arrow_message(error)}); write it again.") from None
