"""What every source of columns can do."""

import collections
import difflib
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import DataError, UsageError
from ...errors.messages import first_line, quoted
from ..people import has_address, listed, shown

MISSING = ["", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
BLOCK = 16 << 20  # bytes; no record of a text file may be longer
DECIMAL_COMMA = r"^([+-]?\d*),(\d+)$"
POINTED = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+"  # 1.399, which in a column that also has 1.399,50 is a thousand and more
POINTED_COMMA = rf"{POINTED},\d+$"


class Guess(NamedTuple):
    """What the columns of an export are, for a user who does not say: privileged information, and one kind of input."""

    pi: list[str] | None  # None: as for any table
    text: str | None = None
    columns: Sequence[str] = ()
    image: str | None = None  # file names or addresses


class Source:
    """A table that can be read by column; the base of all kinds."""

    name: str
    columns: list[str]
    aliases: Mapping[str, str] = MappingProxyType({})  # other names of columns
    guess: Guess | None = None  # of an export, which says what its columns are
    tags: Mapping[str, str] = MappingProxyType({})  # of Label Studio: from_name, to_name and type of the labels
    vectors: Sequence[Sequence[str]] = ()  # columns that were one column of vectors
    positions: list[int] | None = None  # of a wide table: the numbers of the columns that hold answers
    made: Collection[str] = ()  # columns that the file does not have
    lists: Collection[str] = ()  # columns of lists, which only sets of labels can be read from
    answers: Any = None  # of an export with a row for each label: the number of the answer that it is part of
    decimal: str = "."  # or a comma: what stands before the decimals of a number
    marks_formulas: bool = False  # whether text may have the apostrophe that `messages.plain_cells` writes

    def expect(self, columns: Sequence[str], numeric: Collection[str] = ()) -> None:
        """Say that columns will be read, so that the next pass over the file takes them along."""
        self._expected.update((column, column in numeric) for column in columns if self._counts.get(column) == 1)

    def read(self, columns: Sequence[str], numeric: Collection[str] = ()) -> dict[str, pa.ChunkedArray]:
        """Read Arrow columns by name; those in `numeric` are parsed as numbers where the file holds text.

        Columns are kept until they have been read as often as expected.
        """
        wanted = [(column, column in numeric) for column in columns]
        self._expected.subtract(key for key in wanted if self._expected[key] > 0)
        missing = {name: is_number for name, is_number in wanted if (name, is_number) not in self._kept}
        if missing:
            along = [key for key, times in self._expected.items() if times > 0 and key not in self._kept]
            parsed = dict(along) | missing  # a pass parses a column one way
            passed = self._read(list(parsed), {name for name, is_number in parsed.items() if is_number})
            self._kept.update(((name, parsed[name]), column) for name, column in passed.items())
        found = {key[0]: self._kept[key] for key in wanted}
        for key in [key for key in self._kept if self._expected[key] <= 0]:
            del self._kept[key]
        return found

    def batches(self, column: str) -> Iterator[Any]:
        """Yield the Arrow arrays of a column one by one; a source that can does not hold all of them in memory."""
        yield from self.read([column])[column].chunks

    def scan(self, columns: Sequence[str], numeric: Collection[str] = ()) -> Iterator[Any]:
        """Yield columns in Arrow batches; a source that can does not hold all of them in memory."""
        found = pa.table(self.read(columns, numeric))
        yield from found.select(list(columns)).to_batches()

    def _read(self, columns: Sequence[str], numeric: Collection[str]) -> dict[str, pa.ChunkedArray]:
        """Read columns, which for a file is a pass over it."""
        raise NotImplementedError

    @functools.cached_property
    def _kept(self) -> dict[tuple[str, bool], Any]:
        """Columns that will be read again, by name and whether they were parsed as numbers."""
        return {}

    @functools.cached_property
    def _expected(self) -> collections.Counter[tuple[str, bool]]:
        """How often columns will be read."""
        return collections.Counter()

    def numeric_columns(self) -> list[str]:
        """Return names of the columns that hold numbers."""
        raise NotImplementedError

    def holds_lists(self, column: str | None) -> bool:
        """Return whether a column holds lists, without reading it."""
        return column in self.lists

    def mixed_columns(self) -> list[str]:
        """Return names of the columns that hold mostly numbers, yet also something else."""
        return []

    def place(self, row: int) -> str:
        """Return where the user finds row `row` (counted from 0)."""
        return f"{self.name}, row {row} (counted from 0)"

    def cell(self, row: int, label: str) -> tuple[int, str] | None:
        """Return the place of the label of row `row` in `file`: row and column; None if others stand there too."""
        return row, label

    @property
    def file(self) -> "Source":
        """What the rows were read from."""
        return self

    def require(self, column: str, purpose: str) -> str:
        """Return `column` if there is exactly one such column; otherwise raise an error that lists the columns."""
        count = self._counts.get(column, 0)
        if count == 0:
            named = [name for name in self.columns if not has_address(name)]  # people are not suggested
            close = [name for name in named if column in re.split(r"\s*[,:]\s*", name)[:-1]]
            close = close or difflib.get_close_matches(column, named, n=1, cutoff=0.6)
            hint = f", did you mean {quoted(close[0])}?" if close else "."
            if close and re.search("[,:]", close[0]):
                hint += " On the command line, a name with a comma or a colon needs double quotes of its own around it."
            raise UsageError(
                f"{self.name} has no column {quoted(column)} ({purpose}){hint} Its columns: {listed(self.columns)}."
            )
        if count > 1:
            raise DataError(
                f"{self.name} has more than one column named {shown('', column)}; rename all but one of them."
            )
        return column

    def find(self, *names: str) -> str | None:
        """Return the first of `names` that is a column, in this spelling or in other letter case."""
        for name in names:
            if name in self._counts:
                return name
            if name in self._spellings:
                return self._spellings[name]
        return None

    def called(self, name: str | None) -> str | None:
        """Return the column that is meant by a name, which may be another one of it."""
        return self.aliases.get(name, name) if name is not None else None

    def __contains__(self, column: object) -> bool:
        return column in self._counts

    @functools.cached_property
    def _counts(self) -> dict[str, int]:
        """How many columns have each name."""
        counts: dict[str, int] = {}
        for column in self.columns:
            counts[column] = counts.get(column, 0) + 1
        return counts

    @functools.cached_property
    def _spellings(self) -> dict[str, str]:
        """The first column of each name without regard to letter case."""
        return {column.casefold(): column for column in reversed(self.columns)}


def is_float(cell: str, decimal: str = ".") -> bool:
    """Return whether text is a number."""
    try:
        float(cell if decimal == "." else cell.translate(str.maketrans(",.", ".,")))
    except ValueError:
        return False
    return True


def without_thousands(text: Any) -> Any:
    """Return text of Arrow without the points of 1.399,50 and 1.399."""
    return pc.if_else(pc.match_substring_regex(text, rf"{POINTED}(,\d+)?$"), pc.replace_substring(text, ".", ""), text)


def arrow_message(error: Exception) -> str:
    """Return the first line of what Arrow says, without the contents of cells, in which ids may be."""
    return re.sub(r"(: invalid value| got \d+:).*", "", first_line(error)).rstrip(". ")
