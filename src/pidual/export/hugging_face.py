"""The table with its labels corrected as a dataset of Hugging Face, which `datasets.load_from_disk` reads."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import RunError, UsageError
from ..run.files import RunFiles

INFO = "dataset_info.json"


def check_place(out: Path) -> None:
    """Refuse to replace anything but a dataset."""
    if out.exists() and not (out / INFO).is_file():
        raise UsageError(f"{out} exists and is not a dataset of Hugging Face; choose another name.")


def write_dataset(run: RunFiles, frame: pd.DataFrame, changes: pd.DataFrame, out: Path) -> None:
    """Write a dataset: every column of the table, the label corrected, and where it came from.

    Parameters
    ----------
    run : RunFiles
        The run.
    frame : DataFrame
        Its table with the labels corrected, one row per annotation.
    changes : DataFrame
        What was changed, as `decide` has it.
    out : Path
        The directory.
    """
    try:
        from datasets import ClassLabel, Dataset
    except ImportError as error:
        raise UsageError(
            f"A dataset of Hugging Face needs the package datasets ({error}); `pip install 'pidual[hf]'` installs it."
        ) from error
    check_place(out)
    names = [str(name) for name in run.predictions.classes]
    made = Dataset.from_pandas(with_sources(run, frame, changes), preserve_index=False)
    made = made.cast_column("label", ClassLabel(names=names))
    beside, old = (out.with_name(f".{out.name}.{ending}") for ending in ("new", "old"))
    try:
        shutil.rmtree(beside, ignore_errors=True)
        made.save_to_disk(str(beside))
        if out.exists():
            out.rename(old)
        beside.rename(out)
    except OSError as error:
        raise RunError(f"Cannot write {out} ({error.strerror or error}); choose another place.") from error
    finally:
        for folder in (beside, old):
            shutil.rmtree(folder, ignore_errors=True)


def with_sources(run: RunFiles, frame: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """The table with four columns more: given_label, label_source, label_quality and consensus_quality.

    The source is "given" for a label that stays, else that of the change. A column of the table that has one of these
    names is called table_<name>.
    """
    about = run.predictions.frame.set_index("row")
    source = np.full(len(frame), "given", object)
    source[changes["row"].to_numpy(np.int64)] = changes["source"].astype(str)
    more: dict[str, Any] = {
        "given_label": about["given_label"].astype(str),
        "label_source": source,
        "label_quality": about["label_quality"],
        "consensus_quality": about["consensus_quality"],
    }
    frame = frame.rename(columns={name: f"table_{name}" for name in frame.columns if name in more})
    frame = frame.assign(label=frame["label"].astype(str))
    return frame.assign(**{name: pd.Series(values, index=frame.index) for name, values in more.items()})
