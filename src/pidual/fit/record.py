"""What a fit writes into its run directory: first what it is, and at its end what came out."""

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import torch
from msgspec.structs import replace

from .. import __version__
from ..data.pi import PIColumn, quantity
from ..errors import RunError, UsageError
from ..files import fingerprint, write_json
from ..learn.engine import Fitted
from ..learn.engine.checkpoint import save_tensors
from ..learn.engine.session import threads_on_resume
from ..learn.methods import METHODS, Method
from ..learn.methods.fitted_truth import AnswerWeights
from ..learn.nets import Standardize
from ..run.files import RunFiles, pictures_by_item
from ..run.lifecycle import NEW, choose_folder, find_changes, refuse_change
from ..run.predictions import write_frame
from ..run.records.config import (
    Config,
    Data,
    Hardware,
    InputSchema,
    Model,
    PIDescription,
    Sizes,
    Source,
    Splits,
    StoredNetwork,
)
from ..run.records.reading import FORMAT, as_record, parse_record, seal
from ..run.records.summary import Summary
from .judge import Results
from .prepare import Job
from .previews import previews, thumbnails


def describe(job: Job, source: Source | None = None) -> Config:
    """Describe a run: everything needed to run it again."""
    table, options, source = job.table, job.options, source or Source()
    frame = table.frame
    n_known, truth = _describe_truth(job)
    return Config(
        pidual=__version__,
        format=FORMAT,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        method=options.method,
        method_title=METHODS[options.method].title,
        method_choice=job.choice,
        setting=options.setting,
        seed=options.seed,
        valid_fraction=options.valid_fraction,
        pi_kinds=dict(options.pi_kinds),
        splits=Splits(options.valid_items, options.split_seed, options.pi_min_count),
        source=source,
        data=Data(
            table=table.source,
            x=source.x or "array",
            n_rows=len(table),
            n_items=int(frame["item"].nunique()),
            n_annotators=int(frame["annotator"].nunique()) if "annotator" in frame else None,
            n_classes=len(table.all_classes),
            n_train=int(job.train.sum()),
            n_valid=int(job.valid.sum()),
            n_test=int(job.test.sum()),
            keep_ids=table.keeps_ids,
            fingerprint=table.fingerprint(),
            x_shape=[int(size) for size in job.inputs.array.shape],
            x_fingerprint=job.inputs.digest(),
            pi=[describe_pi(column, frame[column.name]) for column in job.encoder.columns_],
            n_known_items=n_known,
            truth_fingerprint=truth,
        ),
        method_options=job.method_options,
        training=asdict(job.training),
        network=job.network,
        versions={name: version(name) for name in ("torch", "lightning-fabric", "numpy", "pandas", "scikit-learn")}
        | {"python": platform.python_version()},
        hardware=Hardware(platform.machine(), platform.system(), job.threads),
    )


def _describe_truth(job: Job) -> tuple[int | None, str | None]:
    """Return of how many items the class is known, and a digest of what is; None where nothing is."""
    if job.rows.truth is None:
        return None, None
    truth = job.rows.truth.numpy()
    return len(np.unique(job.rows.item.numpy()[truth >= 0])), fingerprint([truth.tobytes()])


def describe_pi(column: PIColumn, values: "pd.Series[Any]") -> PIDescription:
    """Describe a PI column for people: what kind it is and what is in it."""
    name, kind = column.name, column.kind
    if kind == "category":
        return PIDescription(name, kind, int(values.isna().sum()), n_categories=column.n_codes)
    missing = np.isnan(quantity(values, kind))
    described = PIDescription(name, kind, int(missing.sum()))
    if pd.api.types.is_datetime64_any_dtype(values):
        return replace(described, first=str(values.min()), last=str(values.max()))
    if kind == "duration":  # its mean and spread are of logarithms
        return replace(described, median=float(np.median(quantity(values, "number")[~missing])))
    return replace(described, mean=column.mean, std=column.std)


def check_config(out: Path, config: Config) -> Config:
    """Return a config as it is read from config.json; refuse what that cannot hold, before anything is written."""
    path = out / "config.json"
    try:
        text = json.dumps(config.to_json(), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{path} cannot hold this run ({error}); give finite numbers or text as options and PI."
        ) from error
    try:
        return parse_record(path, text, Config, way_out="give other options")
    except RunError as error:
        raise UsageError(str(error)) from error


def _check_same(out: Path, old: Config, config: Config) -> None:
    """Refuse to continue a run with other data or options."""
    way_out = "resume with the data and options it was started with, or use another directory (--out)."
    if out.name == NEW:
        way_out = f"resume with the data and options it was started with, or remove {out} to keep the run before it."
    old_pi, pi = ([column.name for column in one.data.pi] for one in (old, config))
    if old_pi != pi:  # the fingerprint covers these columns, and would blame the contents of the table
        raise RunError(
            f"The run in {out} was started with the PI columns {old_pi!s:.400}, and now they are {pi}; {way_out}"
        )
    if old.data.keep_ids != config.data.keep_ids:
        which = ("without", "with") if config.data.keep_ids else ("with", "without")
        raise RunError(
            f"The run in {out} was started {which[0]} --keep-ids (keep_ids in Python), and its files hold "
            f"annotators accordingly; resume {which[0]} it, or fit again {which[1]} it into another directory (--out)."
        )
    contents = {"fingerprint": config.data.table, "x_fingerprint": config.data.x}
    contents["truth_fingerprint"] = "the classes that are known (--truth, or decisions of reviewers)"
    parts = (one.identity() | {"data": one.data.to_json()} for one in (old, config))
    for name, was, now in find_changes(*parts):
        if name not in ("table", "x", "keep_ids", "n_known_items"):  # the same data may have moved
            refuse_change(f"The run in {out}", name, was, now, way_out, contents)


def start_run(out: Path, config: Config, *, force: bool, resume: bool) -> tuple[Path, Config, bool]:
    """Return the folder to write to, the config in it (of this run, or of the same one continued), and whether the
    run there is finished."""
    try:
        folder = choose_folder(out, force=force, resume=resume)
        if (folder / "config.json").exists():
            old = RunFiles(folder).config
            _check_same(folder, old, config)
            return folder, old, (folder / "summary.json").exists()
        write_json(folder / "config.json", config.to_json())
    except OSError as error:
        raise RunError(f"Cannot write to {out} ({error.strerror}); choose another directory (--out).") from error
    return folder, config, False


def go_on_as_started(folder: Path, job: Job) -> None:
    """Let a run that is continued have the threads it was started with, and warn of what would change its last digits.

    The job of a finished run, or of a new one, stays as it is.
    """
    if not (folder / "config.json").exists() or (folder / "summary.json").exists():
        return
    old = RunFiles(folder).config
    versions = {"pidual": (old.pidual, __version__), "torch": (old.versions.get("torch"), version("torch"))}
    changes = [f"{name} {was} (now {now})" for name, (was, now) in versions.items() if was != now]
    threads = old.hardware.threads
    if job.options.threads is None:
        job.threads = threads_on_resume(threads, job.threads)
    if threads != job.threads:
        changes.append(f"{threads} threads (now {job.threads})")
    if changes:
        job.warnings.append(
            f"The run was started with {', '.join(changes)}; its numbers may differ a little from those of a run that "
            "was not interrupted."
        )


def write_run(folder: Path, config: Config, job: Job, fitted: Fitted, results: Results) -> RunFiles:
    """Write everything a finished run holds but its report; summary.json marks it as finished, so it comes last.

    What is returned knows what the files hold.
    """
    method = fitted.method
    selected = {f"method.{name}": value for name, value in method.state_dict().items()}
    arrays = {
        f"inputs.{name}": torch.from_numpy(np.ascontiguousarray(value)) for name, value in job.inputs.tensors.items()
    }
    save_tensors(folder / "model.safetensors", selected | arrays)
    last = {f"method.{name}": value for name, value in fitted.last.items()}
    save_tensors(folder / "model-last.safetensors", last | arrays)
    write_json(folder / "model.json", describe_model(job, method).to_json())
    results.predictions.write(folder / "predictions.parquet")
    pictures, texts = thumbnails(job, results.predictions), previews(job, results.predictions)
    frames = {"items": results.items, "annotators": results.annotators, "annotator_classes": results.annotator_classes}
    frames |= {"thumbnails": pictures, "previews": texts}
    for name, frame in frames.items():
        if frame is not None:
            write_frame(folder / f"{name}.parquet", frame)
    known = frames | {"thumbnails": pictures_by_item(pictures), "predictions": results.predictions}
    run = RunFiles.holding(folder, config=config, history=fitted.history, **known)
    summary = seal(replace(results.summary, run_id=config.run_id, digests=run.digests()).to_json())
    write_json(folder / "summary.json", summary)
    return RunFiles.holding(folder, **run.known, summary=as_record("summary", summary, Summary))


def describe_model(job: Job, method: Method) -> Model:
    """Return what model.json holds: all that is needed, beside weights, to make the method again."""
    standardize = next((part for part in method.modules() if isinstance(part, Standardize)), None)
    size = len(standardize.mean) if standardize is not None else 0
    return Model(
        format=FORMAT,
        classes=["no", "yes"] if job.left_out is not None else [*job.table.classes],
        method=job.options.method,
        method_options=job.method_options,
        spec=Sizes(**asdict(job.spec)),
        network=StoredNetwork(**msgspec.structs.asdict(job.network), standardize=size),
        pi=job.encoder.to_json(),
        inputs=msgspec.convert(job.inputs.schema, InputSchema),
        answers=method.learned.given if job.trains and isinstance(method.learned, AnswerWeights) else None,
    )
