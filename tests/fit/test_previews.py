"""What a run keeps of its suspects, so that people can judge them."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pidual import AnnotationTable, Run, load_inputs
from pidual.api.fit import fit_table
from pidual.data import table_inputs
from pidual.data.images import MAX_SIDE, as_pixels, is_picture, png
from pidual.data.people import hide_addresses
from pidual.detect.unusual import FAR, Usual
from pidual.fit.options import FitOptions
from pidual.fit.previews import MAX_CHARACTERS, suspicious_rows

pytestmark = pytest.mark.shapes_unchecked

FAST = FitOptions("ce", options={"epochs": 3, "network.width": 8})


def test_distance_by_plain_loops():
    rng = np.random.default_rng(0)
    values, others = rng.normal(size=(3, 4)), rng.normal(2, [0.1, 1, 5, 9], (31, 4))
    found = Usual.of(others).distance(values)
    for v in range(3):
        for d in range(4):
            column = sorted(others[:, d])
            median = column[15]
            spread = sorted(abs(value - median) for value in column)[15]
            expected = (values[v, d] - median) / (1.4826 * spread)
            assert found[v, d] == pytest.approx(np.clip(expected, -FAR, FAR))


def test_addresses_are_hidden():
    assert hide_addresses("ask joe@corp.example, or (ann.b@x.org)") == "ask (e-mail address), or ((e-mail address))"
    assert hide_addresses("3 apples @ 2 euro") == "3 apples @ 2 euro"


def test_pictures_are_small():
    shades = np.random.default_rng(0).integers(0, 255, (3, 300, 200)).astype(np.uint8)
    large, small = (Image.open(io.BytesIO(png(x))) for x in (shades, shades[:, :8, :8]))
    assert large.size == (64, MAX_SIDE)
    assert (np.asarray(small).transpose(2, 0, 1) == shades[:, :8, :8]).all()


def crowd_of(n, rng):
    y = np.arange(n) % 2
    frame = pd.DataFrame({"item": np.repeat(np.arange(n), 2), "label": np.array(["no", "yes"])[np.repeat(y, 2)]})
    frame["annotator"] = [f"secretperson{i}@example.org" for i in rng.integers(0, 5, 2 * n)]
    return y, frame


def test_the_text_of_suspects_is_kept(tmp_path):
    y, frame = crowd_of(60, np.random.default_rng(0))
    words = ["bill money card invoice", "door key house window"]
    texts = [f"{words[c]}\n number {i} by joe{i}@corp.example " + "word " * 200 * (i % 2) for i, c in enumerate(y)]
    frame["text"] = np.array(texts, dtype=object)[frame["item"]]
    frame.loc[[0, 7], "label"] = ["yes", "no"]
    inputs = table_inputs(frame, text="text")
    assert inputs.texts.to_pylist() == texts
    run = fit_table(AnnotationTable.from_frame(frame), inputs, tmp_path / "run", FAST)
    kept = run.previews
    assert kept["row"].is_unique
    assert {*suspicious_rows(run.predictions)} == {*kept["row"]}
    assert {*kept["column"]} == {"text"}
    first = kept.set_index("row")["text"]
    assert first[0] == "bill money card invoice number 0 by (e-mail address)"
    assert first[7].startswith("door key house window number 3 by (e-mail address) word")
    assert len(first[7]) <= MAX_CHARACTERS
    assert first[7].endswith("…")
    for file in ("previews.parquet", "report.html"):
        assert b"secretperson" not in (tmp_path / "run" / file).read_bytes()
    listed = run.detect(budget=5)
    assert listed.columns[:4].tolist() == ["row", "item", "text", "given_label"]
    assert listed["text"].tolist() == first[listed["row"]].tolist()


def test_unusual_columns_of_suspects_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    y, frame = crowd_of(80, rng)
    x = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "size", "b"]).assign(item=range(80))
    x["size"] += 20 * y
    frame.loc[0, "label"] = "yes"  # of an item whose size is that of a "no"
    run = fit_table(AnnotationTable.from_frame(frame), load_inputs(x), tmp_path / "run", FAST)
    kept = run.previews
    (size,) = kept[(kept["row"] == 0) & (kept["column"] == "size")].to_dict("records")
    among = x["size"][run.items.set_index("item")["consensus_label"].loc[range(80)].to_numpy() == "yes"]
    assert size["value"] == pytest.approx(x["size"][0], rel=1e-6)
    assert [size["low"], size["high"]] == pytest.approx(np.quantile(among, [0.1, 0.9]), rel=1e-5)
    assert size["distance"] < -10
    assert re.search(r"size -?\d\S* \(usually \d\S* to \d\S*\)", run.detect(budget=1)["text"].iloc[0])
    assert (kept["distance"].abs() >= 2).all()
    assert kept.groupby("row")["distance"].apply(lambda far: far.abs().is_monotonic_decreasing).all()


def test_a_run_of_usual_columns_or_of_an_older_pidual_has_none(tmp_path):
    y, frame = crowd_of(40, np.random.default_rng(0))
    run = fit_table(AnnotationTable.from_frame(frame), load_inputs(np.eye(2)[y]), tmp_path / "run", FAST)
    assert len(run.previews) == 0
    (tmp_path / "run" / "previews.parquet").unlink()
    assert len(Run(tmp_path / "run").previews) == 0


@pytest.mark.parametrize("shape", [(8, 6), (1, 8, 6), (8, 6, 1), (3, 8, 6), (8, 6, 3)])
def test_arrays_that_are_pictures(shape):
    assert is_picture(shape)
    for dtype in (np.uint8, np.float32):
        x = np.zeros(shape, dtype)
        x[(slice(2, 3),) * len(shape) if len(shape) == 2 else (0, 2, 3) if shape[0] in (1, 3) else (2, 3, 0)] = 1
        pixels = as_pixels(x)
        assert pixels.shape == (3, 8, 6)
        assert pixels.max() == (1 if dtype == np.uint8 else 255)
    assert (as_pixels(np.full(shape, 7.5)) == 0).all()


def test_arrays_are_kept_by_their_pictures_or_unusual_columns(tmp_path):
    rng = np.random.default_rng(0)
    y, frame = crowd_of(60, rng)
    frame.loc[frame["item"] == 8, "label"] = "yes"  # wrong
    x = rng.normal(size=(60, 5)) + 3 * y[:, None]
    table = AnnotationTable.from_frame(frame)
    flat = fit_table(table, load_inputs(x), tmp_path / "flat", FAST)
    assert set(flat.previews["column"]) <= {f"column {number}" for number in range(5)}
    assert len(flat.previews)
    assert not flat.thumbnails
    images = np.repeat(np.repeat(x[:, None, :1, None], 8, 2), 8, 3)
    square = fit_table(table, load_inputs(images), tmp_path / "square", FAST)
    assert len(square.thumbnails) == 60
    assert not len(square.previews)
