"""A run once more, with what reviewers decided on it; table and inputs must be those it was made from.

    known_classes       what was decided, and what the run knew already, for every annotation
    refit_options       what was asked of it
    begin_again         the answer model begins where its own ended
    describe_change     what the decisions have changed

Only what is known about annotators goes on. Networks of x start over: with their old weights they keep the wrong labels
that they have learned, and are less often right than without (docs/loop.md).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from msgspec import structs
from numpy.typing import NDArray

from ..data import AnnotationTable, read_truth
from ..detect.reviewed_run import calibrate_run, decided_classes
from ..errors import RunError, UsageError
from ..errors.messages import quoted
from ..learn.methods.fitted_truth import FittedTruth
from ..options import option_names
from ..run.decisions import read_decisions
from ..run.files import WITHOUT_TRAINING, RunFiles
from ..run.records.config import Source
from ..run.records.summary import FromRun, Summary
from .load_model import FETCHING, check_library_name, load_method
from .options import FitOptions
from .prepare import Job


def known_classes(run: RunFiles, table: AnnotationTable, truth: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return the class of each annotation's item if known, else -1 (N,): decided on, or known to the run before.

    `table`: the one that it was made from.
    `truth` (N,): what else is known, as `read_truth` reads it, in place of the file that the run before used; decisions
        of reviewers count more.
    """
    if table.sets is not None:
        raise UsageError("Sets of labels are not fitted again with decisions; `pidual export` writes what was decided.")
    _check_same_data(run, "fingerprint", table.fingerprint(), table.source)
    before, decided = run.config.source.truth, decided_classes(run)
    known = np.full(len(table), -1, np.int64) if truth is None else truth
    if truth is None and before is not None:
        if not Path(before).exists():
            raise UsageError(f"{run.path} used the classes of {before}, which is missing; put it back.")
        known = read_truth(before, table)
    if not len(decided) and not (known >= 0).any():
        raise UsageError(f"Nobody has decided on a label of {run.path}; review some with `pidual review {run.path}`.")
    of_item = np.full(int(table.item_codes.max()) + 1, -1, np.int64)
    of_item[table.item_codes[known >= 0]] = known[known >= 0]
    codes = pd.Index([str(name) for name in table.classes]).get_indexer(pd.Index(decided["label"]))
    of_item[table.item_codes[decided["row"].to_numpy()]] = codes
    found: NDArray[np.int64] = of_item[table.item_codes]
    return found


def run_options(run: RunFiles) -> FitOptions:
    """Return what the fit of a run was asked for; see `FitOptions`."""
    config, network = run.config, run.config.network
    own = network.name not in WITHOUT_TRAINING
    options = {name: value for name, value in config.training.items() if name in option_names() and name != "seed"}
    options |= config.method_options | {f"network.{name}": value for name, value in network.options.items()}
    return FitOptions(
        method=config.method,
        setting=config.setting,
        options=options if own else {},
        network=network.name if own else None,
        valid_fraction=config.valid_fraction,
        pi_kinds=config.pi_kinds,
        seed=config.seed,
        **config.splits.to_json(),
    )


def refit_options(run: RunFiles, *, options: Mapping[str, Any] | None = None, **changes: Any) -> FitOptions:
    """Return what the fit of a run was asked for, with some options changed."""
    network, asked = run.config.network, options or {}
    if ":" in network.name:
        check_library_name(run.path / "config.json", network.name)
        fetched = [name for name in FETCHING if network.options.get(name) and f"network.{name}" not in asked]
        if fetched:
            raise UsageError(
                f"{run.path} began with weights from elsewhere (network.{fetched[0]}); say which to begin with, with "
                f"--set network.{fetched[0]}=..., or none, with --set network.{fetched[0]}=none."
            )
    again = run_options(run)
    return replace(again, options={**again.options, **asked}, **changes)


def begin_again(run: RunFiles, job: Job, source: Source) -> Source:
    """Let a job begin where a run of the same inputs ended; what config.json says about it, beside `source`.

    The answer model of a job that trains no network begins with that of the run, unless that failed.
    """
    _check_same_data(run, "x_fingerprint", job.inputs.digest(), job.inputs.source)
    before, now = run.model.inputs.embed, job.inputs.schema.get("embed")
    if now != (None if before is None else before.to_json()):
        named = "no model" if before is None else quoted(before.name)
        raise RunError(f"{run.path} was fitted with embeddings by {named}; fit it again with the same.")
    if not (job.trains or run.trains or run.summary.verdict.status == "failed"):
        method = load_method(run)[0]
        job.start = method.learned.judge.model if isinstance(method, FittedTruth) else None
    reviews = read_decisions(run)
    return structs.replace(
        source,
        before=str(run.path),
        warm_start=job.start is not None,
        decided_until=reviews["at"].max().isoformat() if len(reviews) else source.decided_until,
        truth=source.truth or run.config.source.truth,
    )


def _check_same_data(run: RunFiles, name: Literal["fingerprint", "x_fingerprint"], now: str, what: str) -> None:
    """Refuse another table or other inputs (`what`, with the digest `now`) than those that a run was made from."""
    if getattr(run.config.data, name) == now:
        return
    key = name == "fingerprint" and not run.config.data.keep_ids
    raise RunError(
        f"{what} is not as it was when {run.path} was made from it"
        f"{', or the key of the pseudonyms is another one' if key else ''}; decisions on its labels need the data as "
        "it was."
    )


def describe_change(run: RunFiles, items: pd.DataFrame, summary: Summary) -> FromRun:
    """Say what the decisions on `run` were, and what they have changed in the new one; for summary.json."""
    decisions, before = read_decisions(run), run.items
    decided = set(run.predictions.frame["item"].iloc[decisions["row"]].astype(str))
    names = before["item"].astype(str)
    now = items.set_index(items["item"].astype(str))["consensus_label"].loc[names].astype(str).to_numpy()
    changed, looked_at = now != before["consensus_label"].astype(str).to_numpy(), names.isin(decided).to_numpy()
    return FromRun(
        run=str(run.path),
        calibration=calibrate_run(run),
        n_decisions=len(decisions),
        n_unsure=int((decisions["decision"] == "unsure").sum()),
        n_wrong=int((decisions["decision"] == "change").sum()),
        n_consensus_changed=int(changed.sum()),
        n_others_changed=int((changed & ~looked_at).sum()),
        n_issues=(run.summary.n_issues, summary.n_issues),
        noise_rate=(run.summary.estimated_noise_rate, summary.estimated_noise_rate),
    )
