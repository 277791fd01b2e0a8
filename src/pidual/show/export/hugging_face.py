"""Write the table with its labels corrected as a dataset of Hugging Face, for `datasets.load_from_disk`."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...errors import RunError, UsageError
from ...files import replacing_folder
from ...run.files import RunFiles

INFO = "dataset_info.json"
BARS = "HF_DATASETS_DISABLE_PROGRESS_BARS"


def write_dataset(run: RunFiles, frame: pd.DataFrame, out: Path) -> None:
    """Write a dataset with the labels as classes.

    `run`: the run.
    `frame`: its table with corrected labels, one row per annotation; see `with_sources`.
    `out`: the directory.
    """
    try:
        from datasets import ClassLabel, Dataset, Sequence
    except ImportError as error:
        raise UsageError(
            f"A dataset of Hugging Face needs the package datasets ({error}); `pip install 'pidual[hf]'` installs it."
        ) from error
    if out.exists() and not (out / INFO).is_file():
        raise UsageError(f"{out} exists and is not a dataset of Hugging Face; choose another name.")
    names, of_sets = [str(name) for name in run.predictions.classes], run.summary.label_sets is not None
    kind = Sequence(ClassLabel(names=names[1::2])) if of_sets else ClassLabel(names=names)
    with _without_progress_bars():
        made = Dataset.from_pandas(frame, preserve_index=False).cast_column("label", kind)
        try:
            with replacing_folder(out) as new:
                made.save_to_disk(str(new))
        except OSError as error:
            raise RunError(f"Cannot write {out} ({error.strerror or error}); choose another place.") from error


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Let `datasets` show no bars of its own, unless the user has set its environment variable for them."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled() or BARS in os.environ:
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def with_sources(run: RunFiles, frame: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Add four columns to the table: given_label, label_source, label_quality and consensus_quality.

    The source is "given" for a label that stays, else that of the change. A column of the table that has one of these
    names is called table_<name>. Labels are the names of the classes, however the table spells them (2.0 for 2).
    """
    about = run.predictions.frame.set_index("row")
    given, changed = about["given_label"].astype(str), changes["row"].to_numpy(np.int64)
    label, source = given.to_numpy(object).copy(), np.full(len(frame), "given", object)
    label[changed], source[changed] = changes["new_label"].astype(str), changes["source"].astype(str)
    more: dict[str, Any] = {"given_label": given, "label_source": source}
    more |= {name: about[name] for name in ("label_quality", "consensus_quality")}
    frame = frame.rename(columns={name: f"table_{name}" for name in frame.columns if name in more})
    return frame.assign(label=label, **{name: pd.Series(values, index=frame.index) for name, values in more.items()})
