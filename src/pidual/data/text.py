"""Text inputs as features: TF-IDF of words and word pairs, then truncated SVD."""

import warnings
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import quoted
from ..files import fingerprint
from .columns import as_text
from .row_names import read_rows
from .sources import Source

_N_TERMS, N_TEXT_FEATURES = 20_000, 256
_NO_DIRECTION = 1e-3  # part of the largest singular value below which one counts as zero


def encode_text(
    source: Source,
    column: str,
    values: Any,
    schema: dict[str, Any] | None,
    tensors: dict[str, NDArray[Any]] | None,
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
