"""What a sweep keeps: sweep.json, and what workers say about a trial."""

from typing import Annotated, Any

from msgspec import Meta

from ...run.records.reading import Count, Number, Options, Record, Seconds, Share


class SweepRecord(Record, frozen=True):
    """What sweep.json holds: what all workers search, on what."""

    pidual: str
    format: int
    created: str
    source: dict[str, Any]
    study: str
    storage: str | None
    method: str
    setting: str
    seed: Count
    method_options: Options
    training: Options
    network: Options
    data: dict[str, Any]
    search: dict[str, Annotated[list[Any], Meta(min_length=1)]]
    sampler: str
    prune: bool


class Trial(Record, frozen=True):
    """What a worker says about a trial: itself, when its heart last beat, and what it has found."""

    point: Count
    claim: str
    host: str
    lock: str
    beat: Count | None = None
    error: str | None = None
    valid_accuracy: Share | None = None
    selected_epoch: Count | None = None
    valid_loss: Number | None = None
    seconds: Seconds | None = None


class CompleteTrial(Trial, frozen=True, kw_only=True):
    """A trial that has a result."""

    valid_accuracy: Share
    selected_epoch: Count
    valid_loss: Number | None
    seconds: Seconds
