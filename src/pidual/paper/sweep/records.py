"""What a sweep keeps of itself: sweep.json."""

from typing import Annotated, Any

from msgspec import Meta

from ...run.records.reading import Count, Options, Record


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
