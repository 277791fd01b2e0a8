"""A population in groups: members that are trained apart, one group after the other or on several processes.

Every group is a training of its own, with its own rows, state, guard and attempts; the networks of all groups are drawn
before any is left out, so that a member is the same however members are grouped. Process r of W trains the groups
r, r + W, ... by itself; then all processes have all groups. A group that is finished is not trained again.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from ..batch import Rows
from ..methods.base import Group, Method
from .checkpoint import StateStore
from .history import Record
from .progress import Progress
from .stopping import Together

Weights = dict[str, Tensor]


@dataclass
class Learned:
    """What one training has learned.

    Parameters
    ----------
    last : dict of tensors
        Weights after the last epoch.
    selected : dict of tensors, optional
        Those of the selected epoch, where that is not the last one by rule.
    epoch : int
        The selected epoch.
    history, events : list of dict
        Records of all epochs, and what the guard did.
    collapsed : bool
        Whether the guard calls it collapsed.
    """

    last: Weights
    selected: Weights | None
    epoch: int
    history: list[Record]
    events: list[Record]
    collapsed: bool

    def of(self, group: str) -> "Learned":
        """The same as part of a whole: events name their group, and any process can receive the weights."""
        last = {name: value.cpu() for name, value in self.last.items()}
        selected = None if self.selected is None else {name: value.cpu() for name, value in self.selected.items()}
        events = [event | {"reason": f"{group}: {event['reason']}"} for event in self.events]
        return replace(self, last=last, selected=selected, events=events)


class Learn(Protocol):
    """Trains a method on rows."""

    def __call__(
        self, build: Callable[[], Method], rows: Rows, *, store: StateStore | None, progress: Progress, stage: str
    ) -> Learned: ...


def train_groups(
    groups: Sequence[Group],
    build: Callable[[], Method],
    train: Rows,
    learn: Learn,
    together: Together,
    store: StateStore | None,
    progress: Progress,
    stage: str = "",
) -> list[Learned | None]:
    """What each group has learned; None where every row is kept from it.

    Parameters
    ----------
    groups : sequence of Group
    build : callable
        Makes the whole method.
    train : Rows
        Training rows of all groups.
    learn : callable
        Trains one group, on this process alone.
    together : Together
        The processes that share the groups.
    store : StateStore, optional
        Has a part for every group.
    progress : Progress
        Called for the groups of this process as for one training.
    stage : str
        Name of all of it, where it is one of several.
    """
    mine = range(together.rank, len(groups), together.world_size)
    stores = {at: store.group(at, len(groups)) for at in mine} if store else {}
    for part in stores.values() if together.rank else ():  # on a machine where nobody else does
        part.forget_other_runs()
    watch = Parts(progress, [part.values() for part in stores.values()], len(mine))
    n_members = sum(len(group.members) for group in groups)
    found: dict[int, Learned | None] = dict.fromkeys(mine)
    for at in mine:
        group = groups[at]
        rows = train if group.left_out is None else train.subset((train.fold != group.left_out).nonzero()[:, 0])
        name = (
            f"member {group.members[0] + 1} of {n_members}"
            if len(group.members) == 1
            else f"group {at + 1} of {len(groups)}"
        )
        if len(rows):
            make, staged = partial_build(build, group.members), f"{stage}, {name}" if stage else name
            found[at] = learn(make, rows, store=stores.get(at), progress=watch, stage=staged).of(name)
        watch.done += 1
    together.wait()
    return together.exchange(found, len(groups))


def partial_build(build: Callable[[], Method], members: Sequence[int]) -> Callable[[], Method]:
    """Makes the whole method, and leaves out all but these members."""

    def make() -> Method:
        method = build()
        method.keep(members)
        return method

    return make


def join(method: Method, groups: Sequence[Group], learned: Sequence[Learned | None]) -> Learned:
    """What all groups together have learned; the method has the weights after the last epoch."""
    found = [one for one in learned if one is not None]
    selected = None
    if any(one.selected is not None for one in found):
        put(method, groups, [None if one is None else one.selected or one.last for one in learned])
        selected = {name: value.clone() for name, value in method.state_dict().items()}
    put(method, groups, [None if one is None else one.last for one in learned])
    epochs = sorted(one.epoch for one in found)
    return Learned(
        last=method.state_dict(),
        selected=selected,
        epoch=epochs[len(epochs) // 2],
        history=[record for one in found for record in one.history],
        events=[event for one in found for event in one.events],
        collapsed=all(one.collapsed for one in found),
    )


def put(method: Method, groups: Sequence[Group], weights: Sequence[Weights | None]) -> None:
    """Let the method have these weights of its groups."""
    for group, learned in zip(groups, weights, strict=True):
        if learned is not None:
            part = copy.deepcopy(method)
            part.keep(group.members)
            part.load_state_dict(learned)
            method.put(group.members, part)


class Parts(Progress):
    """Passes on the progress of the groups of this process, one after the other, as that of one training.

    Parameters
    ----------
    progress : Progress
    states : sequence
        What is stored of each group: the values of its state, or None.
    n_parts : int
        How many groups there are.
    """

    def __init__(self, progress: Progress, states: Sequence[dict[str, Any] | None], n_parts: int):
        self.progress, self.states, self.n_parts = progress, states, n_parts
        self.done, self.started, self.stage = 0, False, ""

    def start(self, epochs: int, steps: int, done: int, stage: str = "", parts: int = 1) -> None:
        if not self.started:
            at = [state["position"] for state in self.states if state is not None]
            before = sum(position["epoch"] * steps + min(position["step"], steps) for position in at)
            self.progress.start(epochs, steps, before, "", self.n_parts)
        self.started, self.stage = True, stage
        self.progress.part(self.done, stage)

    def step(self, epoch: int, step: int) -> None:
        self.progress.step(epoch, step)

    def epoch(self, record: Record) -> None:
        self.progress.epoch(record)

    def heading(self, text: str) -> None:
        self.progress.heading(f"{self.stage.capitalize()}: {text}")
