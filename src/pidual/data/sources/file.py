"""Files of columns: batches of a few of them by pyarrow.dataset, the lines of a text file, and Parquet."""

import io
import itertools
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

import pyarrow as pa
import pyarrow.dataset
import pyarrow.dataset as ds
import pyarrow.parquet

from ...errors import DataError
from ..paths import File
from .base import BLOCK, Source, arrow_message
from .in_arrow import class_names, is_list, is_numeric, plain_type, with_names

_SMALL_BLOCK = 1 << 20  # bytes
_ROWS = 1 << 16  # at a time, where rows are short
_CELLS = 1 << 22  # at a time, where they are long


class OneFile(Source):
    """The columns of one file, wherever it is; the base of its kinds.

    `file`: a text is a path of this machine.
    """

    blocks: ClassVar[tuple[int, ...]] = (_SMALL_BLOCK, BLOCK)  # the second where a record is longer than the first

    def __init__(self, file: File | str | Path):
        self.at = file if isinstance(file, File) else File(str(file), str(file))
        self.name = self.at.name

    def scan(self, columns: Sequence[str], numeric: Collection[str] = ()) -> Iterator[Any]:
        given = 0
        for block in self.blocks:
            read = 0
            format_, schema = self._format(columns, numeric, block)
            fragment = format_.make_fragment(self.at.path, self.at.system)
            try:
                for batch in fragment.to_batches(
                    schema=schema,
                    columns={name: ds.field(name) for name in columns},
                    batch_size=max(256, min(_ROWS, _CELLS // len(columns))),
                    batch_readahead=2,
                    fragment_readahead=1,
                ):
                    new = batch.slice(max(0, given - read))
                    read += len(batch)
                    if len(new):
                        given += len(new)
                        yield new
                return
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                if block == self.blocks[-1] or "straddl" not in str(error):
                    self._explain(error, numeric)

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        batches = [*self.scan(columns, numeric)]
        if not batches:
            format_, schema = self._format(columns, numeric, self.blocks[0])
            schema = schema or format_.make_fragment(self.at.path, self.at.system).physical_schema
            return {name: pa.chunked_array([], schema.field(name).type) for name in columns}
        return {
            name: pa.chunked_array([batch.column(place) for batch in batches]) for place, name in enumerate(columns)
        }

    def _format(self, columns: Sequence[str], numeric: Collection[str], block: int) -> tuple[Any, Any]:
        """Return how Arrow reads these columns, and their types (None: those of the file)."""
        raise NotImplementedError

    def _explain(self, error: Exception, numeric: Collection[str] = ()) -> NoReturn:
        """Say what Arrow stumbled over, and where."""
        raise NotImplementedError


class TextFile(OneFile):
    """What CSV and JSON Lines share: lines, and the search for the one that is wrong."""

    def _open(self, errors: str = "strict") -> IO[str]:
        return io.TextIOWrapper(self.at.open(), encoding="utf-8-sig", errors=errors, newline="")

    def _blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the file, in parts."""
        with self.at.open() as stream:
            yield from iter(lambda: stream.read(BLOCK), b"")

    def _check_utf8(self) -> None:
        """Raise for the first byte that is not UTF-8."""
        with self.at.open() as file, io.BufferedReader(file, BLOCK) as lines:
            # a lone \r also ends a line; splitting keeps the count equal to an editor's
            parts = itertools.chain.from_iterable(line.splitlines() or [b""] for line in lines)
            for number, line in enumerate(parts, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{self.name}, line {number} holds the byte 0x{line[error.start]:02x} at position "
                        f"{error.start + 1}, which is not UTF-8; save the file as UTF-8 (in Excel: 'CSV UTF-8')."
                    ) from None


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
