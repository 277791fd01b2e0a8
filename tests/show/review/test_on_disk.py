"""Rows of a table in a file without a name."""

import pyarrow as pa

from pidual.show.review.on_disk import BATCH, OnDisk


def test_every_row_of_batches_of_any_size_is_found():
    sizes = (1, BATCH, 3 * BATCH + 5, 2)
    rows = [[None if i % 7 == 0 else f"{n} {i}" for i in range(n)] for n in sizes]
    plain, *others = (pa.array(part, pa.string()) for part in rows)
    column = OnDisk.column([plain.dictionary_encode(), *others])
    wanted = [text for part in rows for text in part]
    assert [column[row]["value"] for row in range(len(wanted))] == wanted
    two = pa.record_batch({"a": [1, 2], "b": ["x", None]})
    assert [OnDisk([two, two])[row] for row in (1, 2)] == [{"a": 2, "b": None}, {"a": 1, "b": "x"}]
