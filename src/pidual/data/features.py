"""Columns of a table as inputs: numbers (not people, ids or labels), or a column of text.

Text becomes TF-IDF of words and word pairs, then truncated SVD.
"""

import re
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import first_line, quoted
from ..files import fingerprint
from .columns import as_floats, as_text, keys
from .inputs import Inputs, fill_missing, schema_of
from .people import has_address, hides, is_address, listed, names_annotator, names_people, refuse_people_as_inputs
from .roles import INDEX_COLUMNS, has_people
from .row_names import read_names, read_rows
from .sources import Source
from .sources.in_arrow import plain_type

_N_TERMS, N_TEXT_FEATURES = 20_000, 256
_NO_DIRECTION = 1e-3  # part of the largest singular value below which one counts as zero


def encode_text(
    source: Source, column: str, values: Any, schema: dict[str, Any] | None, tensors: dict[str, NDArray[Any]] | None
) -> tuple[NDArray[np.float32], dict[str, Any], dict[str, NDArray[Any]]]:
    """Encode text as dense vectors: TF-IDF of words and word pairs, then truncated SVD."""
    from sklearn.decomposition import TruncatedSVD  # slow to import, and needed for text only
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    texts = pc.fill_null(as_text(values), "").to_pylist()
    blank = sum(not text.strip() for text in texts)
    if blank:
        warnings.warn(f"{blank} of {len(texts)} texts in {source.name} are empty.", DataWarning, stacklevel=4)
    options: dict[str, Any] = {"ngram_range": (1, 2), "sublinear_tf": True, "dtype": np.float32}
    if schema is not None:
        if not tensors:
            raise UsageError("inputs of text for prediction need the tensors the model was trained with.")
        terms = schema["vocabulary"]
        vectoriser = TfidfVectorizer(vocabulary=terms, **options)
        vectoriser.idf_ = tensors["idf"]
        components = tensors["components"]
        weights = vectoriser.transform(texts)
    else:
        vectoriser = TfidfVectorizer(max_features=_N_TERMS, **options)
        try:
            weights = vectoriser.fit_transform(texts)
        except ValueError:
            raise DataError(f"{source.name}, column {quoted(column)} holds no words; name a column of text.") from None
        if weights.shape[1] == 1:  # one word in all texts, which the decomposition refuses
            components = np.ones((1, 1), np.float32)
        else:
            with threadpool_limits(1):  # so that the features do not depend on the number of threads
                svd = TruncatedSVD(min(N_TEXT_FEATURES, *weights.shape), random_state=0).fit(weights)
            # Directions texts do not have hold rounding errors, which standardising would make as large as the rest.
            real = svd.singular_values_ > _NO_DIRECTION * svd.singular_values_.max()
            components = svd.components_[real].astype(np.float32)
        terms = vectoriser.get_feature_names_out().tolist()
    fitted = {"text": column, "vocabulary": terms}
    kept = {"idf": vectoriser.idf_.astype(np.float32), "components": components}
    return np.asarray(weights @ components.T, np.float32), fitted, kept


def read_texts(source: Source, column: str, item: str | None, *, repeats: bool) -> tuple[Any, NDArray[np.str_] | None]:
    """Read the texts in a column as they are, and the names of their items; each item once if `repeats`.

    Texts come in the order of `inputs_from_source`, whose features are made of them.
    """
    data, names, _ = read_rows(source, [column], item, repeats=repeats, numbers=False)
    return as_text(data[column]), names


def text_digest(values: Any) -> str:
    """Return a digest of texts, each with its length: computed features differ by the last bits between machines."""
    encoded = (text.encode() for text in pc.fill_null(as_text(values), "").to_pylist())
    return fingerprint(len(text).to_bytes(8, "little") + text for text in encoded)


IN_MEMORY = 2**27  # numbers; more are read from a file as they are needed
_NOT_FEATURES = ("item", "task", "label", "y", "split", "truth")
_ID_NAME = r"(?i:(.*[\W_])?id)|.*[a-z0-9]I[dD]"  # id, image_id and imageId, but not humid


def inputs_from_source(
    source: Source,
    item: str | None,
    repeats: bool,
    columns: Sequence[str] | None,
    text: str | None,
    schema: dict[str, Any] | None,
    tensors: dict[str, NDArray[Any]] | None,
    *,
    finite: bool = True,
) -> Inputs:
    """Read columns or text from a table, in which an item may have several rows if `repeats`.

    Numbers are checked to be finite if `finite`.
    """
    if columns and text:
        raise UsageError("inputs are numbers or text: give columns= (--x-columns) or text= (--x-text), not both.")
    chosen = [text] if text else _choose(source, item, columns, schema)
    for column in chosen:
        source.require(column, "asked for as input")
    if columns and schema is None:
        refuse_people_as_inputs(source.name, [column for column in chosen if _holds_people(source, column)])
    data, rows, read = dict[str, Any](), dict[str, Any](), None
    if text or repeats:
        data, names, rows = read_rows(source, chosen, item, repeats=repeats, numbers=not text)
    else:
        read, names = _scanned(source, chosen, item)
    if text and schema is None:
        some = as_text(keys(source, text, data[text][:1000]).names).to_pylist()
        addresses = sum(map(is_address, some)) > len(some) / 2  # a column called `email` may hold the texts of e-mails
        refuse_people_as_inputs(source.name, [text] if names_annotator(text) or addresses or has_address(text) else [])
    if not columns and not text:
        named = [column for column in chosen if re.fullmatch(_ID_NAME, column)]
        _warn_of_ids(source, data if data or not named else source.read(named, named))
    if text:
        array, fitted, tensors = encode_text(source, text, data[text], schema, tensors)
    else:
        array, fitted, tensors = _numbers(source, data) if read is None else read, {"columns": chosen}, {}
    if finite and not text:

        def place(row: int, rest: tuple[int, ...]) -> str:
            column = chosen[rest[0]]
            return f"{source.place(int(rows[column][row]) if rows else row)}, column {quoted(column)}"

        array, gaps = fill_missing(array, schema, place, source.name, chosen)
        fitted |= gaps
    fitted |= {} if item == source.find("item", "task") else {"item": item}
    kind = "text" if text else "columns"
    digest = text_digest(data[text]) if text else None
    texts = as_text(data[text]) if text else None
    return Inputs(array, names, kind, schema_of(kind, array) | fitted, tensors, source.name, digest, texts)


def expect_inputs(source: Source, item: str | None, columns: Sequence[str] | None, text: str | None) -> None:
    """Have the columns that `table_inputs` will need read in the pass that reads the table.

    Those called like people are left out: as input these are refused.
    """
    numbers = [column for column in columns or () if not names_people(column) and not has_address(column)]
    name = source.called(item) or source.find("item", "task")
    source.expect([*([text] if text else numbers), *([name] if name else [])], numeric=() if text else numbers)


def _numbers(source: Source, data: dict[str, pa.ChunkedArray]) -> NDArray[np.float32]:
    array = np.empty((len(next(iter(data.values()))), len(data)), np.float32)
    for place, (column, values) in enumerate(data.items()):
        try:
            numbers = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values
            with np.errstate(over="ignore"):
                array[:, place] = as_floats(numbers).to_numpy()
        except pa.ArrowException as error:
            why = "" if hides(column, str(error)) else f" ({first_line(error)})"
            what = f"{source.name}, column {quoted(column)} does not hold numbers{why}"
            raise DataError(f"{what}; choose others.") from None
    return array


def _scanned(
    source: Source, columns: list[str], item: str | None
) -> tuple[NDArray[np.float32], NDArray[np.str_] | None]:
    """Read columns side by side as float32, and the names of rows, in one pass.

    Many numbers are kept in a temporary file without a name.
    """
    apart = [item] if item is not None and item not in columns else []
    blocks, items, n = list[NDArray[np.float32]](), list[pa.Array](), 0
    try:
        with tempfile.TemporaryFile() as file:
            for batch in source.scan([*columns, *apart], columns):
                found = pa.Table.from_batches([batch])
                blocks.append(_numbers(source, {column: found[column] for column in columns}))
                items += [batch[name] for name in apart]
                n += len(batch)
                while blocks and n * len(columns) > IN_MEMORY:
                    file.write(blocks.pop(0).data)
            if not n:
                raise DataError(f"{source.name} has no rows; inputs need one row per item.")
            file.flush()
            array = np.concatenate(blocks) if blocks else np.memmap(file, np.float32, "r", shape=(n, len(columns)))
    except OSError:  # a source says what is wrong with it by other errors
        what = f"the numbers of {source.name} do not fit in the temporary folder {tempfile.gettempdir()}"
        raise UsageError(f"{what}; free some space, or name another folder with TMPDIR.") from None
    if item is None:
        return array, None
    return array, read_names(source, item, plain_type(source, item, pa.chunked_array(items)) if apart else None)


def _choose(
    source: Source, item: str | None, columns: Sequence[str] | None, schema: dict[str, Any] | None
) -> list[str]:
    """Choose the numeric columns to use: those asked for, else all but names of items and what belongs to labels."""
    if columns:
        return _asked_for(source, [columns] if isinstance(columns, str) else list(columns), schema)
    numeric = [column for column in source.numeric_columns() if column not in (item, *INDEX_COLUMNS)]
    people = [column for column in numeric if _holds_people(source, column)]
    chosen = [column for column in numeric if column.casefold() not in _NOT_FEATURES and column not in people]
    if not chosen:
        raise DataError(
            f"{source.name} has no numeric column to use as input (its columns: {listed(source.columns)}); "
            "name numeric columns with columns= (--x-columns), or a column of text with text= (--x-text)."
        )
    left = [column for column in numeric if column.casefold() in _NOT_FEATURES[2:]]
    mixed = [column for column in source.mixed_columns() if column.casefold() not in _NOT_FEATURES and column != item]
    mixed = [column for column in mixed if not names_people(column)]
    known = {item, *numeric, *mixed, *INDEX_COLUMNS}
    rest = [column for column in source.columns if column not in known and column.casefold() not in _NOT_FEATURES]
    rest = [column for column in rest if not names_people(column) and not is_address(column)]
    unused = {
        listed(people): "people are not an input; rename a column that holds no people.",
        listed(left): "an annotation table has columns of that name; list columns to use them anyway.",
        listed(mixed): "not every value is a number; correct the values, or list the columns to use.",
        listed(rest, 5): "not numbers; write them as numbers (True as 1), or list the columns to use.",
    }
    for names, why in unused.items():
        if names:
            warnings.warn(f"{names} of {source.name} not used as input: {why}", DataWarning, stacklevel=4)
    return chosen


def _asked_for(source: Source, columns: list[str], schema: dict[str, Any] | None) -> list[str]:
    """Return the columns asked for, or those that the model of a schema was trained with; none twice."""
    lost = [column for column in columns if column not in source]
    if lost and schema is not None:
        has = f"{len(columns) - len(lost)} of the {len(columns)} features the model was trained with"
        raise DataError(f"{source.name} has {has}; there is no column {quoted(lost[0])}.")
    if len(set(columns)) < len(columns):
        raise UsageError(f"the list of input columns of {source.name} names a column twice; list it once.")
    return columns


def _holds_people(source: Source, column: str) -> bool:
    """Return whether a column is one of people; it is read only where its name suggests it."""
    if has_address(column):  # a column for somebody's answers
        return True
    if not names_people(column) or source.columns.count(column) > 1:
        return False
    return has_people(source, column)


def _warn_of_ids(source: Source, data: dict[str, pa.ChunkedArray]) -> None:
    """Warn of columns among those used by default that look like names of rows."""
    for column, values in data.items():
        if not re.fullmatch(_ID_NAME, column) or pa.types.is_boolean(values.type):
            continue
        integer = pa.types.is_integer(values.type)
        numbers = values if integer else as_floats(values)
        whole = integer or pc.all(pc.equal(numbers, pc.floor(numbers))).as_py()
        if whole and pc.count_distinct(numbers, mode="all").as_py() == len(numbers):
            way_out = "if it names the items, use item= (--item) or call it 'item', else list the columns to use"
            text = f"{listed([column])} of {source.name} is used as input; {way_out}."
            warnings.warn(text, DataWarning, stacklevel=4)
