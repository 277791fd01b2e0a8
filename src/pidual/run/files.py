"""The files of a run directory, each checked when it is first read: structure, digest, and that all are of one run.

summary.json is written last. It holds a digest of every other result, and the id of the run, which is a digest of
what config.json says about method, options and data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pandas as pd

from ..errors import RunError
from .lifecycle import RUN_FILES, settle
from .predictions import Predictions, column_names, read_frame
from .predictions.columns import (
    ANNOTATOR_CLASSES_COLUMNS,
    ANNOTATORS_COLUMNS,
    ITEMS_COLUMNS,
    PREVIEWS_COLUMNS,
    THUMBNAILS_COLUMNS,
)
from .records.config import Config, Epoch, Model
from .records.reading import DAMAGED, as_record, file_digest, parse_record, read_record, read_text, seal
from .records.summary import Summary

CLOSED_FORM = "closed_form"
WITHOUT_TRAINING = (CLOSED_FORM, "given", "prior")  # what stands for a network where none is trained
NAMED_FILES = tuple(name for name in RUN_FILES if name not in ("config.json", "report.html", "summary.json"))


@dataclass(frozen=True)
class RunFiles:
    """The files of a run directory; what has been read is kept, until `forget`."""

    path: Path  # the directory

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

    @classmethod
    def holding(cls, path: Path, **known: Any) -> Self:
        """Return a run of which some files need not be read, as what they hold is known."""
        run = cls(path)
        vars(run).update(known)
        return run

    def moved(self, path: Path) -> Self:
        """Return the run in another place, with what has been read of it."""
        return self.holding(path, **self.known)

    @property
    def known(self) -> dict[str, Any]:
        """What has been read of the files, by name."""
        return {name: value for name, value in vars(self).items() if name != "path"}

    @cached_property
    def config(self) -> Config:
        """What was run, on what."""
        return read_record(self.path / "config.json", Config)

    @cached_property
    def summary(self) -> Summary:
        """What came out."""
        path = self.path / "summary.json"
        values = parse_record(path, read_text(path), dict[str, Any])
        summary = as_record(str(path), values, Summary)
        if summary.digest != seal(values)["digest"]:
            raise RunError(f"{path} has changed since it was written; {DAMAGED}.")
        if summary.run_id != self.config.run_id:
            raise RunError(
                f"{path} and {self.path / 'config.json'} are not of one run, or one of them was edited; {DAMAGED}."
            )
        return summary

    @property
    def n_rows(self) -> int:
        """How many rows are judged: those of the table or, of sets of labels, answers to one class each."""
        sets = self.summary.label_sets
        return self.config.data.n_rows if sets is None else sets.n_rows

    @property
    def trains(self) -> bool:
        """Whether a network was trained."""
        return self.config.network.name not in WITHOUT_TRAINING

    @cached_property
    def model(self) -> Model:
        """Classes, network, inputs."""
        return read_record(self.checked("model.json"), Model)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """What was recorded of every epoch, in order: the records of metrics.jsonl, where there is one."""
        path = self.path / "metrics.jsonl"
        return read_history(self.checked(path.name)) if path.exists() else []

    @cached_property
    def predictions(self) -> Predictions:
        """One row per annotation."""
        return Predictions.read(self.checked("predictions.parquet"))

    def read_predictions(self, columns: Sequence[str]) -> Predictions:
        """Return the predictions with those of these columns that there are."""
        known: Predictions | None = vars(self).get("predictions")
        if known is not None:
            return known.only([name for name in columns if name in known.frame])
        path = self.checked("predictions.parquet")
        return Predictions.read(path, [name for name in columns if name in column_names(path)])

    @cached_property
    def items(self) -> pd.DataFrame:
        """One row per item."""
        path = self.checked("items.parquet")
        posterior = {name: ITEMS_COLUMNS["consensus_quality"] for name in column_names(path) if name.startswith("p_")}
        return read_frame(path, schema=ITEMS_COLUMNS | posterior)

    @cached_property
    def annotators(self) -> pd.DataFrame | None:
        """One row per annotator; None where annotators are not known."""
        if not (self.path / "annotators.parquet").exists() and not self.config.data.n_annotators:
            return None
        return read_frame(self.checked("annotators.parquet"), schema=ANNOTATORS_COLUMNS)

    @cached_property
    def annotator_classes(self) -> pd.DataFrame | None:
        """One row per annotator and true class; None where annotators are not known."""
        if not (self.path / "annotator_classes.parquet").exists():
            return None
        return read_frame(self.checked("annotator_classes.parquet"), schema=ANNOTATOR_CLASSES_COLUMNS)

    @cached_property
    def thumbnails(self) -> dict[str, bytes]:
        """PNG images of suspicious items by name; none where inputs are not images."""
        if not (self.path / "thumbnails.parquet").exists():
            return {}
        return pictures_by_item(read_frame(self.checked("thumbnails.parquet"), schema=THUMBNAILS_COLUMNS))

    @cached_property
    def previews(self) -> pd.DataFrame:
        """Text or unusual columns of suspicious annotations, see `fit.previews`; empty where there are none."""
        if not (self.path / "previews.parquet").exists():
            return pd.DataFrame(columns=list(PREVIEWS_COLUMNS))
        return read_frame(self.checked("previews.parquet"), schema=PREVIEWS_COLUMNS)

    def forget(self) -> None:
        """Read all files again when they are next asked for: they have changed."""
        for name in [name for name in vars(self) if name != "path"]:
            del self.__dict__[name]

    def digests(self) -> dict[str, str]:
        """Digests of the results that are there, for summary.json."""
        return {name: file_digest(self.path / name) for name in NAMED_FILES if (self.path / name).exists()}

    @cached_property
    def _verified(self) -> set[str]:
        """Names of the files that are known to be those the run was finished with."""
        return set()

    def checked(self, name: str) -> Path:
        """Return the path of a file; refuse one that is not the one the run was finished with."""
        path, expected = self.path / name, self.summary.digests.get(name)
        if expected is None or name in self._verified:
            return path
        if not path.is_file():
            raise RunError(f"{path} is missing or is not a file; {DAMAGED}.")
        try:
            found = file_digest(path)
        except OSError as error:
            raise RunError(f"{path} cannot be read ({error.strerror or error}); {DAMAGED}.") from error
        if found != expected:
            raise RunError(
                f"{path} is not the file this run was finished with: its contents have changed or are of another run; "
                f"{DAMAGED}."
            )
        self._verified.add(name)
        return path


def pictures_by_item(frame: pd.DataFrame) -> dict[str, bytes]:
    """Return pictures by the name of their item."""
    return dict(zip(frame["item"].astype(str), frame["png"], strict=True))


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the records of a metrics.jsonl, one for every epoch; a last line that was cut off is left out."""
    way_out = "remove the file to have a report without training curves"
    *lines, last = read_text(path, way_out).split("\n")
    lines += [last] if last.endswith("}") else []
    found = []
    for number, line in enumerate(lines, start=1):
        place = f"line {number}"
        values = parse_record(path, line, dict[str, Any], way_out=way_out, place=place)
        as_record(f"{path}, {place}", values, Epoch, way_out)
        found.append({name: value for name, value in values.items() if name != "format"})
    return found
