"""Files of separated values: CSV, TSV and what spreadsheets write."""

import contextlib
import csv
import functools
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset

from ...errors import DataError
from ...errors.messages import quoted
from ...files import FORMULA_MARK
from ..paths import File
from ..people import shown
from .base import BLOCK, DECIMAL_COMMA, MISSING, POINTED, POINTED_COMMA, arrow_message, is_float, without_thousands
from .file import TextFile

csv.field_size_limit(max(csv.field_size_limit(), BLOCK))  # of Python's reader, which has 131,072 for all programs
_THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"


class CsvFile(TextFile):
    """A file of separated values with a header line."""

    marks_formulas = True

    def __init__(self, file: File | str | Path):
        super().__init__(file)
        self.delimiter = self._find_delimiter()
        try:
            header = next(self._records(), None)
        except csv.Error as error:
            raise DataError(f"{self.name} cannot be read as CSV ({error}, in its header); write it again.") from None
        if header is None:
            raise DataError(f"{self.name} is empty; it needs a header line with the names of its columns.")
        self._header_line, names = header
        self.columns = [re.sub(FORMULA_MARK, r"\1", name.strip()) for name in names]
        self._check_quotes()
        self.decimal = self._find_decimal()

    def scan(self, columns: Sequence[str], numeric: Collection[str] = ()) -> Iterator[Any]:
        pointed = [name for name in columns if name in numeric and name in self._pointed]
        for batch in super().scan(columns, {*numeric} - {*pointed}):
            for name in pointed:
                text = without_thousands(pc.utf8_trim_whitespace(batch[name]))
                text = pc.replace_substring(pc.replace_substring(text, ".", "?"), ",", ".")  # a point left is wrong
                text = pc.if_else(pc.is_in(text, value_set=pa.array(MISSING, text.type)), None, text)
                try:
                    numbers = text.cast(pa.float64())
                except pa.ArrowException as error:
                    self._explain(error, numeric)
                batch = batch.set_column(columns.index(name), name, numbers)
            yield batch

    def batches(self, column: str) -> Iterator[Any]:
        for batch in self.scan([column]):
            yield batch.column(0)
            pa.default_memory_pool().release_unused()

    def _format(self, columns: Sequence[str], numeric: Collection[str], block: int) -> tuple[Any, Any]:
        """Return how Arrow reads these columns: text, those in `numeric` as float64."""
        types = {column: pa.float64() if column in numeric else pa.string() for column in columns}
        several = len(self.columns) > 1
        # Arrow wants names that differ; a column with the name of another one is never read
        names = [f"{name}\0{at}" if name in self.columns[:at] else name for at, name in enumerate(self.columns)]
        options = pyarrow.dataset.CsvFragmentScanOptions(
            pyarrow.csv.ConvertOptions(column_types=types, null_values=MISSING, decimal_point=self.decimal),
            pyarrow.csv.ReadOptions(column_names=names, skip_rows_after_names=self._header_line, block_size=block),
        )
        parse = pyarrow.csv.ParseOptions(
            delimiter=self.delimiter,
            newlines_in_values=self._quoted,  # allowing for them costs a third of the time
            invalid_row_handler=lambda row: "error" if row.text.strip() or not several else "skip",
        )
        found = pyarrow.dataset.CsvFileFormat(parse_options=parse, default_fragment_scan_options=options)
        return found, pa.schema(types)

    def numeric_columns(self) -> list[str]:
        """Return names of the columns whose first thousand cells are numbers or missing, at least one a number."""
        return [column for column, share in self._number_shares() if share == 1]

    def mixed_columns(self) -> list[str]:
        """Return names of the columns whose first thousand cells are numbers by half or more, but not all."""
        return [column for column, share in self._number_shares() if 0.5 <= share < 1]

    def _number_shares(self) -> Iterator[tuple[str, float]]:
        """Yield the share of numbers among the first thousand cells of every column, not counting missing ones."""
        for column, cells in zip(self.columns, zip(*self._sample(), strict=True), strict=False):
            numbers = [self._is_number(column, cell) for cell in cells if cell.strip() not in MISSING]
            yield column, sum(numbers) / max(1, len(numbers))

    def _is_number(self, column: str, cell: str) -> bool:
        """Return whether a cell is a number, with points between thousands where its column has them."""
        plain = column in self._pointed and re.match(rf"{POINTED}(,\d+)?$", cell.strip())
        return is_float(cell.replace(".", "") if plain else cell, self.decimal)

    @functools.cached_property
    def _pointed(self) -> frozenset[str]:
        """The columns of which one of the first thousand cells is like 1.399,50, where commas are decimal."""
        cells = zip(self.columns, zip(*self._sample(), strict=True), strict=False) if self.decimal == "," else ()
        return frozenset(name for name, each in cells if any(re.match(POINTED_COMMA, cell.strip()) for cell in each))

    def _sample(self) -> list[list[str]]:
        """Return the first thousand whole records, or those before one that Python's reader refuses."""
        found = []
        with contextlib.suppress(csv.Error):
            for _, cells in itertools.islice(self._records(), 1, 1001):
                found.append(cells)
        return [cells for cells in found if len(cells) == len(self.columns)]

    def _find_decimal(self) -> str:
        """Return a comma if cells are separated by semicolons and hold 1,5, as spreadsheets write in much of Europe.

        More of them must do so than hold 1.5, and not all of them be like 1,036, which may be a thousand and more.
        """
        if self.delimiter != ";":
            return "."
        cells = [cell.strip() for cell in itertools.chain.from_iterable(self._sample())]
        points = sum("." in cell and is_float(cell) for cell in cells)
        commas = [cell for cell in cells if re.match(DECIMAL_COMMA, cell) or re.match(POINTED_COMMA, cell)]
        sure = any(not re.match(_THOUSANDS, cell) for cell in commas)
        return "," if sure and len(commas) > points else "."

    def place(self, row: int) -> str:
        """Return the file and line of row `row`; a quoted cell may span several lines."""
        with contextlib.suppress(csv.Error):
            for line, _ in itertools.islice(self._records(), row + 1, None):
                return f"{self.name}, line {line}"
        return super().place(row)

    def _find_delimiter(self) -> str:
        try:
            with self._open() as lines:
                header = next((line for line in lines if line.strip()), "")
        except UnicodeDecodeError:
            self._check_utf8()
            raise
        candidates = {".tsv": "\t", ".tab": "\t", ".txt": "\t,;"}.get(self.at.kind, ",;\t")
        return next((delimiter for delimiter in candidates if delimiter in header), candidates[0])

    def _records(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the cells of every record, the header first; blank lines are left out."""
        with self._open("replace") as lines:
            reader = csv.reader(lines, delimiter=self.delimiter, strict=strict)
            line, width = 1, 0
            for cells in reader:
                blank = not cells or (len(cells) == 1 != width and not cells[0].strip())
                if not blank:
                    width = width or len(cells)
                    yield line, cells
                line = reader.line_num + 1

    def _check_quotes(self) -> None:
        """Raise when a quote is opened and never closed, which would swallow every row after it."""
        quotes = sum(block.count(b'"') for block in self._blocks())
        self._quoted = quotes > 0
        if quotes % 2 == 0:
            return
        line = 0
        try:
            for line, _ in self._records(strict=True):  # noqa: B007 - the last line that could be read is wanted
                pass
        except csv.Error as error:
            if "end of data" in str(error):
                where = f"after line {line}" if line else "in the header"
                text = f'{self.name}: a quote (") opened {where} is never closed; close or remove it.'
                raise DataError(text) from None

    def _explain(self, error: Exception, numeric: Collection[str] = ()) -> NoReturn:
        """Find what Arrow stumbled over, and say it with its line."""
        self._check_utf8()
        with contextlib.suppress(csv.Error):
            for line, cells in itertools.islice(self._records(), 1, None):
                if len(cells) != len(self.columns):
                    raise DataError(
                        f"{self.name}, line {line} has {len(cells)} cells where the header has {len(self.columns)}; "
                        f"correct the line (a cell that holds {self.delimiter!r} needs double quotes around it)."
                    )
                for column, cell in zip(self.columns, cells, strict=True):
                    if column in numeric and cell not in MISSING and not self._is_number(column, cell):
                        where = f"{self.name}, line {line}, column {quoted(column)}"
                        raise DataError(f"{where}: {shown(column, cell)} is not a number; correct it, or leave it out.")
        raise DataError(f"{self.name} cannot be read as CSV ({arrow_message(error)}); write it again.")
