"""Parquet files."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from ...errors import DataError
from .arrow_types import class_names, is_numeric, plain_type, with_names
from .base import Source, arrow_message


class ParquetFile(Source):
    """A Parquet file."""

    def __init__(self, path: str | Path):
        self.name, self._path = str(path), Path(path)
        with self._errors():
            self._schema = pyarrow.parquet.read_schema(self._path)
            self.columns = list(self._schema.names)
        self._classes = class_names(self._schema.metadata)

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, Any]:
        with self._errors():
            table = pyarrow.parquet.ParquetFile(self._path).read(columns=list(columns))
        found = {column: plain_type(self, column, table.column(column)) for column in columns}
        return found | {name: with_names(found[name], names) for name, names in self._classes.items() if name in found}

    def whole(self) -> Any:
        """Return all columns, as they are in the file."""
        with self._errors():
            return pyarrow.parquet.ParquetFile(self._path).read()

    def numeric_columns(self) -> list[str]:
        return [field.name for field in self._schema if is_numeric(field.type) and field.name not in self._classes]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.name} cannot be read as Parquet ({arrow_message(error)}); write it again."
            ) from None
