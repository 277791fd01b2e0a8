"""From scores to a yes or no: which given labels to call issues.

The automatic cut-off asks two things of an issue: the model predicts another label, and the quality of the given
one lies below a cut. The cut comes from the data: label quality, on the logit scale, is taken as a mixture of two
normal components of one common width ("looks wrong" and "looks right"), and the cut is where both are equally likely.
Where the scores do not fall into two groups, or are too few, a simpler rule is used, and `Cutoff.note` says which.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import UsageError

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MAX_CUT = 0.5  # a label that is not predicted has at most this quality
MIN_ROWS = 50  # fewer rows do not show a mixture
MIN_GROUP = 10  # nor does a component of fewer rows
MIN_SEPARATION = 2.0  # distance of the means in widths from which a mixture of two equal components has two peaks
LOOKS_WRONG = 0.25  # mean quality below which a group looks wrong, not just hard
MANY = 0.25  # share from which a group below one half need not be hard examples
CLIP = 1e-3  # qualities beyond CLIP and 1 - CLIP count as equally extreme
N_BINS = 400


@dataclass(frozen=True)
class Cutoff:
    """How issues are told from the rest.

    Attributes
    ----------
    kind : "auto", "fixed" or "budget"
    value : float
        Labels with a quality below this are candidates. For a budget: the highest quality among those taken.
    needs_disagreement : bool
        Whether an issue must also have another label predicted.
    budget : int or None
        Number of issues asked for, if any.
    estimated_noise_rate : float
        Estimated share of wrong labels, in [0, 1]; an estimate of the data, whatever the cut.
    rule : str
        Which rule gave `value`: "mixture", "tenth-typical", "half-typical" or "none" (see `auto_cutoff`), or the kind.
    note : str
        One sentence for people.
    """

    kind: Literal["auto", "fixed", "budget"]
    value: float
    needs_disagreement: bool
    budget: int | None
    estimated_noise_rate: float
    rule: str
    note: str

    def to_json(self) -> dict[str, Any]:
        """The same as a dict of plain values."""
        return asdict(self)


def choose_cutoff(
    label_quality: npt.ArrayLike,
    given: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    cutoff: float | Literal["auto"] = "auto",
    budget: int | None = None,
) -> Cutoff:
    """The cut-off a user asked for: `budget` if given, else a number, else automatic."""
    if budget is not None:
        return budget_cutoff(label_quality, given, predicted, budget)
    if cutoff == "auto":
        return auto_cutoff(label_quality, given, predicted)
    return fixed_cutoff(label_quality, given, predicted, cutoff)


def by_posterior(cutoff: Cutoff, label_quality: npt.ArrayLike) -> Cutoff:
    """The same cut-off where the quality is a posterior probability: its mean says how many labels are wrong.

    The automatic one is then MAX_CUT: a label that is less likely than not, and not the consensus.
    """
    noise = float(1 - np.mean(np.asarray(label_quality, np.float64))) if len(np.atleast_1d(label_quality)) else 0.0
    cutoff = replace(cutoff, estimated_noise_rate=min(max(noise, 0.0), 1.0))
    if cutoff.kind != "auto":
        return cutoff
    note = "A label is an issue if the consensus of its item is another one, by the input and all answers together."
    return replace(cutoff, value=MAX_CUT, rule="posterior", note=note)


def find_issues(cutoff: Cutoff, label_quality: npt.ArrayLike, given: npt.ArrayLike, predicted: npt.ArrayLike) -> Mask:
    """Which labels are issues under a cut-off: bool array (N,)."""
    quality, disagrees = _checked(label_quality, given, predicted)
    if cutoff.budget is not None:
        found = np.zeros(len(quality), dtype=bool)
        found[_lowest(quality, cutoff.budget)] = True
        return found
    found = quality < cutoff.value
    return found & disagrees if cutoff.needs_disagreement else found


def auto_cutoff(label_quality: npt.ArrayLike, given: npt.ArrayLike, predicted: npt.ArrayLike) -> Cutoff:
    """A first cut-off from the scores themselves.

    Parameters
    ----------
    label_quality : array (N,)
        Probability of the given label, in [0, 1], low = likely wrong.
    given, predicted : int array (N,)
        Codes of the given and the predicted labels.

    Returns
    -------
    Cutoff
        Its `rule` is "mixture" where the scores show two groups; "tenth-typical" or "half-typical" (that part of the
        median quality of labels the model agrees with; half where it disagrees with a quarter of them or more) where
        they do not; "none" where there is nothing to tell labels apart by.
    """
    quality, disagrees = _checked(label_quality, given, predicted)
    n = len(quality)
    if not disagrees.any():
        return _auto(0.0, 0.0, "none", "The model predicts the given label everywhere, so no label looks wrong.")
    if np.ptp(quality) < 1e-6:
        note = "All labels have the same quality, so nothing tells right from wrong; train longer or check the inputs."
        return _auto(0.0, 0.0, "none", note)
    if disagrees.all():
        note = "The model agrees with no given label, so it cannot be used to judge them; check inputs and training."
        return _auto(0.0, 0.0, "none", note)
    if n < MIN_ROWS:
        return _part_of_typical(
            quality, disagrees, f"There are only {n} labels, too few to see two groups in their quality"
        )
    mixture = _Mixture.fit(_logit(quality), disagrees)
    if not mixture.has_two_groups(n):
        return _part_of_typical(quality, disagrees, "The quality of the labels does not fall into two clear groups")
    value = min(MAX_CUT, float(_expit(mixture.crossing())))
    rate = float(np.where(disagrees, mixture.low_posterior(_logit(quality)), 0.0).mean())
    note = f"Label quality falls into two groups that part at {value:.2g}."
    return _auto(value, rate, "mixture", note)


def fixed_cutoff(label_quality: npt.ArrayLike, given: npt.ArrayLike, predicted: npt.ArrayLike, value: float) -> Cutoff:
    """An issue is every label of a quality below `value` for which another label is predicted."""
    if isinstance(value, str) or not 0 <= value <= 1:
        raise UsageError(f"The cut-off {value!r} is not between 0 and 1, where label quality lies.")
    rate = auto_cutoff(label_quality, given, predicted).estimated_noise_rate
    note = f"Labels with a quality below {value:g} were asked for."
    return Cutoff("fixed", float(value), True, None, rate, "fixed", note)


def budget_cutoff(label_quality: npt.ArrayLike, given: npt.ArrayLike, predicted: npt.ArrayLike, n: int) -> Cutoff:
    """The `n` labels of lowest quality are issues, whatever the model predicts; ties go to earlier rows."""
    if n < 0:
        raise UsageError(f"The budget {n} is negative; give the number of labels that can be looked at.")
    quality, _ = _checked(label_quality, given, predicted)
    rate = auto_cutoff(label_quality, given, predicted).estimated_noise_rate
    taken = _lowest(quality, n)
    value = float(quality[taken].max()) if len(taken) else 0.0
    note = f"The {len(taken):,} labels of lowest quality were asked for."
    return Cutoff("budget", value, False, int(n), rate, "budget", note)


def _auto(value: float, rate: float, rule: str, note: str) -> Cutoff:
    return Cutoff("auto", value, True, None, rate, rule, note)


def _part_of_typical(quality: Floats, disagrees: Mask, why: str) -> Cutoff:
    """Cut at a part of what a label the model agrees with usually gets: strict unless the model disagrees with many."""
    strict = disagrees.mean() < MANY
    value = float(np.median(quality[~disagrees])) / (10 if strict else 2)
    rate = float(np.mean(disagrees & (quality < value)))
    name = "a tenth" if strict else "half"
    note = f"{why}; cut at {name} of the median quality of labels the model agrees with ({value:.2g}), a rough guide."
    return _auto(value, rate, "tenth-typical" if strict else "half-typical", note)


@dataclass(frozen=True)
class _Mixture:
    """Two normal components of one width on the logit scale, fitted to a histogram so that rows cost nothing."""

    low_weight: float
    low_mean: float
    high_mean: float
    width: float

    @classmethod
    def fit(cls, z: Floats, disagrees: Mask, *, max_steps: int = 500) -> "_Mixture":
        """Expectation-maximisation, started from the labels the model disagrees and agrees with."""
        counts, edges = np.histogram(z, bins=N_BINS)
        centres = (edges[1:] + edges[:-1]) / 2
        share = counts / counts.sum()
        means = float(z[disagrees].mean()), float(z[~disagrees].mean())
        fitted = cls(float(disagrees.mean()), *means, max(0.25, float(z.std()) / 2))
        for _ in range(max_steps):
            before, fitted = fitted, fitted._step(centres, share)
            if abs(fitted.low_mean - before.low_mean) + abs(fitted.high_mean - before.high_mean) < 1e-4:
                break
        return fitted

    def _step(self, centres: Floats, share: Floats) -> "_Mixture":
        low = self.low_posterior(centres) * share
        high = share - low
        low_weight = float(np.clip(low.sum(), 1e-9, 1 - 1e-9))
        low_mean = float((low * centres).sum() / low_weight)
        high_mean = float((high * centres).sum() / (1 - low_weight))
        variance = (low * (centres - low_mean) ** 2 + high * (centres - high_mean) ** 2).sum()
        return _Mixture(low_weight, low_mean, high_mean, max(0.25, float(np.sqrt(variance))))

    def low_posterior(self, z: Floats) -> Floats:
        """Probability that a label of logit quality `z` belongs to the component that looks wrong."""
        slope = (self.low_mean - self.high_mean) / self.width**2
        posterior: Floats = _expit(slope * (z - self.crossing()))
        return posterior

    def crossing(self) -> float:
        """The logit quality at which both components are equally likely."""
        gap = self.high_mean - self.low_mean
        odds = np.log(self.low_weight / (1 - self.low_weight))
        return float((self.low_mean + self.high_mean) / 2 + odds * self.width**2 / max(gap, 1e-6))

    def has_two_groups(self, n: int) -> bool:
        """Whether both components have rows, lie apart with the cut between them, and the lower one looks wrong.

        The last guards clean data: there the lower component holds right labels of hard examples, few and not very low.
        """
        smaller = min(self.low_weight, 1 - self.low_weight) * n
        apart = (self.high_mean - self.low_mean) / self.width
        between = self.low_mean < self.crossing() < self.high_mean
        low = _expit(self.low_mean)
        looks_wrong = low < LOOKS_WRONG or (low < MAX_CUT and self.low_weight >= MANY)
        return bool(smaller >= MIN_GROUP and apart >= MIN_SEPARATION and between and looks_wrong)


def _lowest(quality: Floats, n: int) -> npt.NDArray[np.int64]:
    """Rows of the n lowest qualities, earlier rows first among equals."""
    n = min(n, len(quality))
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    last = np.partition(quality, n - 1)[n - 1]
    below, tied = np.flatnonzero(quality < last), np.flatnonzero(quality == last)
    return np.concatenate([below, tied[: n - len(below)]]).astype(np.int64)


def _logit(quality: Floats) -> Floats:
    clipped = np.clip(quality, CLIP, 1 - CLIP)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _expit(z: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(z, -500, 500)))


def _checked(label_quality: npt.ArrayLike, given: npt.ArrayLike, predicted: npt.ArrayLike) -> tuple[Floats, Mask]:
    """Quality as float64, and where the model predicts another label than the given one."""
    quality = np.asarray(label_quality, dtype=np.float64)
    given, predicted = np.asarray(given), np.asarray(predicted)
    if not quality.shape == given.shape == predicted.shape or quality.ndim != 1:
        raise UsageError(
            f"Quality, given and predicted labels need one value per annotation, but their shapes are {quality.shape}, "
            f"{given.shape} and {predicted.shape}."
        )
    if not len(quality):
        raise UsageError("There are no annotations to judge.")
    if not ((quality >= 0) & (quality <= 1 + 1e-6)).all():
        raise UsageError(
            "Label quality must lie between 0 and 1 and not be NaN; pass probabilities of the given labels."
        )
    return quality, given != predicted
