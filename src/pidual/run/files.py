"""The files of a run directory, each checked when it is first read: structure, digest, and that all are of one run.

summary.json is written last. It holds a digest of every other result, and the id of the run, which is a digest of
what config.json says about method, options and data. A run of an older pidual has neither, and is read without them.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import pandas as pd

from ..errors import RunError
from .lifecycle import settle
from .predictions import (
    ANNOTATOR_CLASSES_COLUMNS,
    ANNOTATORS_COLUMNS,
    ITEMS_COLUMNS,
    PREVIEWS_COLUMNS,
    SHARE,
    THUMBNAILS_COLUMNS,
    Predictions,
    column_names,
    n_rows,
    read_frame,
)
from .schemas import (
    CONFIG,
    DAMAGED,
    EPOCH,
    MODEL,
    NAMED_FILES,
    SUMMARY,
    Record,
    check_record,
    file_digest,
    read_record,
    read_text,
    run_id,
    sealed,
)

CLOSED_FORM = "closed_form"
WITHOUT_TRAINING = (CLOSED_FORM, "given", "prior")  # what stands for a network where none is trained


@dataclass(frozen=True)
class RunFiles:
    """The files of a run directory; what has been read is kept, until `forget`.

    Parameters
    ----------
    path : Path
        The directory.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @classmethod
    def open(cls, path: "str | Path | RunFiles") -> Self:
        """Open a finished run."""
        run = cls(path.path if isinstance(path, RunFiles) else Path(path))
        settle(run.path)
        if not (run.path / "config.json").exists():
            raise RunError(f"{run.path} is not a run directory: it has no config.json. Make one with `pidual fit`.")
        if not (run.path / "summary.json").exists():
            raise RunError(
                f"The run in {run.path} is not finished; continue it with `pidual fit ... --resume`, or in Python with "
                "fit_table(..., resume=True)."
            )
        return run

    @cached_property
    def config(self) -> Record:
        """What was run, on what."""
        return read_record(self.path / "config.json", CONFIG)

    @cached_property
    def summary(self) -> Record:
        """What came out."""
        summary = read_record(self.path / "summary.json", SUMMARY)
        if summary.get("digest", sealed(summary)["digest"]) != sealed(summary)["digest"]:
            raise RunError(f"{self.path / 'summary.json'} has changed since it was written; {DAMAGED}.")
        own = run_id(self.config)
        if summary.get("run_id", own) != own:
            raise RunError(
                f"{self.path / 'summary.json'} and {self.path / 'config.json'} are not of one run, or one of them was "
                f"edited; {DAMAGED}."
            )
        return summary

    @property
    def trains(self) -> bool:
        """Whether a network was trained."""
        return self.config["network"]["name"] not in WITHOUT_TRAINING

    @cached_property
    def model(self) -> Record:
        """Classes, network, PI schema."""
        self.verify("model.json")
        model, config = read_record(self.path / "model.json", MODEL), self.config
        pairs = {
            "method": (model["method"], config["method"]),
            "number of classes": (model["spec"]["n_classes"], config["data"]["n_classes"]),
            "number of training rows": (model["spec"]["n_train"], config["data"]["n_train"]),
            "network": (model["network"]["name"], config["network"]["name"]),
            "shape of inputs": (model["network"]["in_shape"], config["network"]["in_shape"]),
        }
        for what, (here, there) in pairs.items():
            if here != there:
                raise RunError(
                    f"{self.path / 'model.json'} is of another run than config.json: the {what} is "
                    f"{json.dumps(here)[:60]} and not {json.dumps(there)[:60]}; {DAMAGED}."
                )
        return model

    @cached_property
    def history(self) -> list[Record]:
        """What was recorded of every epoch, in order: the records of metrics.jsonl, where there is one."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            self.verify(path.name)
        return read_history(path)

    @cached_property
    def predictions(self) -> Predictions:
        """One row per annotation."""
        return self.read_predictions()

    def read_predictions(self, columns: Sequence[str] | None = None) -> Predictions:
        """One row per annotation, or some columns of it that are there.

        Parameters
        ----------
        columns : sequence of str, optional
            Read those of these that the file has.
        """
        path = self._results("predictions.parquet", self.config["data"]["n_rows"])
        if columns is not None:
            there = column_names(path)
            columns = [name for name in columns if name in there]
        predictions = Predictions.read(path, columns)
        if len(predictions.classes) != self.config["data"]["n_classes"]:
            raise RunError(
                f"{path} has {len(predictions.classes)} classes where config.json says "
                f"{self.config['data']['n_classes']}; {DAMAGED}."
            )
        return predictions

    @cached_property
    def items(self) -> pd.DataFrame:
        """One row per item."""
        path = self._results("items.parquet", self.config["data"]["n_items"])
        posterior = {name: SHARE for name in column_names(path) if name.startswith("p_")}
        return read_frame(path, schema=ITEMS_COLUMNS | posterior)

    @cached_property
    def annotators(self) -> pd.DataFrame | None:
        """One row per annotator; None where annotators are not known."""
        expected = self.config["data"]["n_annotators"]
        if not (self.path / "annotators.parquet").exists() and not expected:
            return None
        path = self._results("annotators.parquet", expected)
        return read_frame(path, schema=ANNOTATORS_COLUMNS)

    @cached_property
    def annotator_classes(self) -> pd.DataFrame | None:
        """One row per annotator and true class; None where annotators are not known, and in older runs."""
        if not (self.path / "annotator_classes.parquet").exists():
            return None
        self.verify("annotator_classes.parquet")
        return read_frame(self.path / "annotator_classes.parquet", schema=ANNOTATOR_CLASSES_COLUMNS)

    @property
    def thumbnails(self) -> dict[str, bytes]:
        """PNG images of suspicious items by name; none where inputs are not images."""
        path = self.path / "thumbnails.parquet"
        if not path.exists():
            return {}
        self.verify(path.name)
        pictures = read_frame(path, schema=THUMBNAILS_COLUMNS)
        return dict(zip(pictures["item"].astype(str), pictures["png"], strict=True))

    @property
    def previews(self) -> pd.DataFrame:
        """Text or unusual columns of suspicious annotations, see `run.previews`; empty where there are none."""
        path = self.path / "previews.parquet"
        if not path.exists():
            return pd.DataFrame(columns=list(PREVIEWS_COLUMNS))
        self.verify(path.name)
        return read_frame(path, schema=PREVIEWS_COLUMNS)

    def forget(self) -> None:
        """Read all files again when they are next asked for: they have changed."""
        for name in [name for name in vars(self) if name != "path"]:
            del self.__dict__[name]

    def verify(self, name: str) -> None:
        """Refuse a file that is not the one the run was finished with."""
        expected = self.summary.get("digests", {})
        if name not in expected:
            return
        path = self.path / name
        if not path.is_file():
            raise RunError(f"{path} is missing or is not a file; {DAMAGED}.")
        with reading(path):
            found = file_digest(path)
        if found != expected[name]:
            raise RunError(
                f"{path} is not the file this run was finished with: its contents have changed or are of another run; "
                f"{DAMAGED}."
            )

    def digests(self) -> dict[str, str]:
        """Digests of the results that are there, for summary.json."""
        return {name: file_digest(self.path / name) for name in NAMED_FILES if (self.path / name).exists()}

    def _results(self, name: str, expected: int | None) -> Path:
        """The path of a Parquet file of as many rows as expected."""
        path = self.path / name
        self.verify(name)
        found = n_rows(path)
        if expected is not None and found != expected:
            raise RunError(f"{path} has {found:,} rows where config.json says {expected:,}; {DAMAGED}.")
        return path


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say which file could not be read."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror or error}); {DAMAGED}.") from error


def read_history(path: Path) -> list[Record]:
    """The records of a metrics.jsonl, one for every epoch; a last line that was cut off is left out."""
    if not path.exists():
        return []
    way_out = "remove the file to have a report without training curves"
    *lines, last = read_text(path, way_out).split("\n")
    lines += [last] if last.endswith("}") else []
    found = [
        check_record(path, line, EPOCH, way_out=way_out, place=f"line {number}")
        for number, line in enumerate(lines, start=1)
    ]
    return [{name: value for name, value in record.items() if name != "format"} for record in found]
