"""What a fit writes into its run directory: first what it is, and at its end what came out."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from .. import __version__
from ..data.pi import PIColumn, quantity
from ..errors import RunError, UsageError
from ..files import fingerprint, write_json
from ..learn.engine import Fitted
from ..learn.engine.checkpoint import save_tensors
from ..learn.engine.threads import threads_on_resume
from ..learn.methods import METHODS, Method
from ..learn.nets import Standardize
from ..run.files import RunFiles
from ..run.identity import find_changes, refuse_change
from ..run.lifecycle import NEW, choose_folder
from ..run.predictions import write_frame
from ..run.schemas import CONFIG, FORMAT, IDENTITY, check_record, run_id, sealed
from .judge import Results
from .prepare import Job
from .previews import previews, thumbnails


def describe(job: Job, source: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run: everything needed to run it again."""
    table = job.table
    frame = table.frame
    return {
        "pidual": __version__,
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": job.options.method,
        "method_title": METHODS[job.options.method].title,
        "method_choice": job.choice,
        "setting": job.options.setting,
        "seed": job.options.seed,
        "valid_fraction": job.options.valid_fraction,
        "pi_kinds": dict(job.options.pi_kinds),
        "splits": {name: getattr(job.options, name) for name in ("valid_items", "split_seed", "pi_min_count")},
        "source": dict(source),
        "data": {
            "table": table.source,
            "x": str(source.get("x", "array")),
            "n_rows": len(table),
            "n_items": int(frame["item"].nunique()),
            "n_annotators": int(frame["annotator"].nunique()) if "annotator" in frame else None,
            "n_classes": job.spec.n_classes,
            "n_train": int(job.train.sum()),
            "n_valid": int(job.valid.sum()),
            "n_test": int(job.test.sum()),
            "keep_ids": table.keeps_ids,
            "fingerprint": table.fingerprint(),
            "x_shape": [int(size) for size in job.inputs.array.shape],
            "x_fingerprint": job.inputs.digest(),
            "pi": [describe_pi(column, frame[column.name]) for column in job.encoder.columns_],
            **describe_truth(job),
        },
        "method_options": job.method_options,
        "training": asdict(job.training),
        "network": job.network,
        "versions": {name: version(name) for name in ("torch", "lightning-fabric", "numpy", "pandas", "scikit-learn")}
        | {"python": platform.python_version()},
        "hardware": {"machine": platform.machine(), "system": platform.system(), "threads": job.threads},
    }


def describe_truth(job: Job) -> dict[str, Any]:
    """What is known about the classes of items, where something is: of how many, and a digest."""
    if job.rows.truth is None:
        return {}
    truth = job.rows.truth.numpy()
    n_known = len(np.unique(job.rows.item.numpy()[truth >= 0]))
    return {"n_known_items": n_known, "truth_fingerprint": fingerprint([truth.tobytes()])}


def describe_pi(column: PIColumn, values: "pd.Series[Any]") -> dict[str, Any]:
    """A PI column for people: what kind it is and what is in it."""
    described: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.kind == "category":
        return described | {"n_missing": int(values.isna().sum()), "n_categories": column.n_codes}
    missing = np.isnan(quantity(values, column.kind))
    described["n_missing"] = int(missing.sum())
    if pd.api.types.is_datetime64_any_dtype(values):
        return described | {"first": str(values.min()), "last": str(values.max())}
    if column.kind == "duration":  # its mean and spread are of logarithms
        return described | {"median": float(np.median(quantity(values, "number")[~missing]))}
    return described | {"mean": column.mean, "std": column.std}


def check_config(out: Path, config: dict[str, Any]) -> None:
    """Refuse what config.json cannot hold, before anything is written."""
    try:
        text = json.dumps(config, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{out / 'config.json'} cannot hold this run ({error}); give finite numbers or text as options and PI."
        ) from error
    try:
        check_record(out / "config.json", text, CONFIG, way_out="give other options")
    except RunError as error:
        raise UsageError(str(error)) from error


def check_same(out: Path, config: dict[str, Any]) -> None:
    """Refuse to continue a run with other data or options."""
    old = RunFiles(out).config
    way_out = "resume with the data and options it was started with, or use another directory (--out)."
    if out.name == NEW:
        way_out = f"resume with the data and options it was started with, or remove {out} to keep the run before it."
    old_pi, pi = ([column["name"] for column in part.get("data", {}).get("pi", [])] for part in (old, config))
    if old_pi != pi:  # the fingerprint covers these columns, and would blame the contents of the table
        raise RunError(
            f"The run in {out} was started with the PI columns {old_pi!s:.400}, and now they are {pi}; {way_out}"
        )
    keeps, kept = config["data"]["keep_ids"], old.get("data", {}).get("keep_ids", config["data"]["keep_ids"])
    if kept != keeps:
        which = ("without", "with") if keeps else ("with", "without")
        raise RunError(
            f"The run in {out} was started {which[0]} --keep-ids (keep_ids in Python), and its files hold "
            f"annotators accordingly; resume {which[0]} it, or fit again {which[1]} it into another directory (--out)."
        )
    contents = {"fingerprint": config["data"]["table"], "x_fingerprint": config["data"]["x"]}
    contents["truth_fingerprint"] = "the classes that are known (--truth, or decisions of reviewers)"
    for name, was, now in find_changes(old, {part: config[part] for part in (*IDENTITY, "data")}):
        if name not in ("table", "x", "keep_ids", "n_known_items"):  # the same data may have moved
            refuse_change(f"The run in {out}", name, was, now, way_out, contents)


def start_run(out: Path, config: dict[str, Any], *, force: bool, resume: bool) -> Path:
    """The folder to write to, with the config of this run in it; one that is continued must be the same run."""
    try:
        folder = choose_folder(out, force=force, resume=resume)
        if (folder / "config.json").exists():
            check_same(folder, config)
        else:
            write_json(folder / "config.json", config)
    except OSError as error:
        raise RunError(f"Cannot write to {out} ({error.strerror}); choose another directory (--out).") from error
    return folder


def go_on_as_started(folder: Path, job: Job) -> None:
    """Let a run that is continued have the threads it was started with, and warn of what would change its last digits.

    The job of a finished run, or of a new one, stays as it is.
    """
    if not (folder / "config.json").exists() or (folder / "summary.json").exists():
        return
    old = RunFiles(folder).config
    versions = {
        "pidual": (old.get("pidual"), __version__),
        "torch": (old.get("versions", {}).get("torch"), version("torch")),
    }
    changes = [f"{name} {was} (now {now})" for name, (was, now) in versions.items() if was != now]
    threads = old.get("hardware", {}).get("threads", job.threads)
    if job.options.threads is None:
        job.threads = threads_on_resume(threads, job.threads)
    if threads != job.threads:
        changes.append(f"{threads} threads (now {job.threads})")
    if changes:
        job.warnings.append(
            f"The run was started with {', '.join(changes)}; its numbers may differ a little from those of a run that "
            "was not interrupted."
        )


def write_run(out: Path, job: Job, fitted: Fitted, results: Results) -> None:
    """Write everything a finished run holds but its report; summary.json marks it as finished, so it comes last."""
    method = fitted.method
    selected = {f"method.{name}": value for name, value in method.state_dict().items()}
    arrays = {
        f"inputs.{name}": torch.from_numpy(np.ascontiguousarray(value)) for name, value in job.inputs.tensors.items()
    }
    save_tensors(out / "model.safetensors", selected | arrays, {})
    save_tensors(
        out / "model-last.safetensors", {f"method.{name}": value for name, value in fitted.last.items()} | arrays, {}
    )
    write_json(out / "model.json", describe_model(job, method))
    results.predictions.write(out / "predictions.parquet")
    if results.items is not None:
        write_frame(out / "items.parquet", results.items)
    if results.annotators is not None:
        write_frame(out / "annotators.parquet", results.annotators)
    if results.annotator_classes is not None:
        write_frame(out / "annotator_classes.parquet", results.annotator_classes)
    write_frame(out / "thumbnails.parquet", thumbnails(job, results.predictions))
    write_frame(out / "previews.parquet", previews(job, results.predictions))
    run = RunFiles(out)
    about = {"format": FORMAT, "run_id": run_id(run.config), "digests": run.digests()}
    write_json(out / "summary.json", sealed(results.summary | about))


def describe_model(job: Job, method: Method) -> dict[str, Any]:
    """What model.json holds: all that is needed, beside weights, to make the method again."""
    standardize = next((part for part in method.modules() if isinstance(part, Standardize)), None)
    return {
        "format": FORMAT,
        "classes": job.table.classes,
        "method": job.options.method,
        "method_options": job.method_options,
        "spec": asdict(job.spec),
        "network": job.network | {"standardize": len(standardize.mean) if standardize is not None else 0},
        "pi": job.encoder.to_json(),
        "inputs": job.inputs.schema,
    }
