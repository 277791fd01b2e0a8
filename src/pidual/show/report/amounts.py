"""How many labels are wrong, how sure that is, how well scores separate them, and what clean labels say about it."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...detect.sentences import between, count, percent
from ...run.files import RunFiles
from ...run.predictions import Predictions
from ...run.records.summary import Evaluation
from . import figures
from .headline import known_wrong
from .words import Array, Context, auc

MILESTONES = (0.1, 0.25, 0.5, 1.0, 2.0)  # parts of the flagged labels that are looked at
DRAWN = 2.5  # and up to which part the curve is drawn
MAX_CLASSES = 50
OPEN_CLASSES = 6


def amounts(run: RunFiles, predictions: Predictions) -> Context:
    """Return the estimate with its interval, and what looking at so many labels should find."""
    detection, noise = run.summary.detection, run.summary.noise
    precision, n_issues, n = detection.expected_precision, predictions.n_issues, len(predictions)
    curve = [(float(one.n), one.expected_wrong, one.precision) for one in detection.curve]
    if precision is not None and n_issues and curve:  # between two points of the curve it may bend just here
        curve = sorted(
            [*(point for point in curve if point[0] != n_issues), (n_issues, precision * n_issues, precision)]
        )
    classes = sorted(detection.classes, key=lambda of_class: -of_class.expected_wrong)
    return {
        "rate": noise.rate,
        "wrong": noise.rate * n,
        "interval": between(noise.low, noise.high),
        "counts": f"{count(noise.low * n)} to {count(noise.high * n)}",
        "precision": precision,
        "precision_interval": between(detection.precision_low, detection.precision_high),
        "n_issues": n_issues,
        "svg": _curve_svg(curve, n_issues) if len(curve) > 1 else None,
        "milestones": _milestones(curve, n_issues),
        "classes": classes[:OPEN_CLASSES],
        "more_classes": classes[OPEN_CLASSES:MAX_CLASSES],
        "n_classes": len(classes),
    }


def _curve_svg(curve: list[tuple[float, float, float]], n_issues: int) -> str:
    end = max(DRAWN * n_issues, curve[1][0]) if n_issues else curve[-1][0]
    curve = [point for point in curve if point[0] <= end]
    n, wrong, _ = curve[-1]
    label = f"Wrong labels found against labels looked at: {count(wrong)} are expected among the first {count(n)}."
    points = [(0.0, 0.0), *((x, y) for x, y, _ in curve)]
    return figures.found_svg("found", label, points, flagged=n_issues)


def _milestones(curve: list[tuple[float, float, float]], n_issues: int) -> list[Context]:
    """Return what looking at a part of the flagged labels should find, and at more than these."""
    if not curve:
        return []
    n, wrong, _ = (np.array(values) for values in zip(*[(0.0, 0.0, 0.0), *curve], strict=True))
    end = n_issues or n[-1] / max(MILESTONES)
    wanted = {n_issues if part == 1 and n_issues else int(float(f"{part * end:.2g}")) for part in MILESTONES}
    looked = [size for size in sorted(wanted) if 1 <= size <= n[-1]]
    found = np.interp(looked, n, wrong).tolist()
    return [{"n": size, "wrong": hits, "precision": hits / size} for size, hits in zip(looked, found, strict=True)]


def histograms(p: Predictions) -> list[Context]:
    """Label quality and gate: flagged beside not flagged, and wrong beside right where that is known."""
    wrong = known_wrong(p)
    scores = {"quality": ("Label quality", "label quality (low = likely wrong)", p.label_quality)}
    if p.gate is not None:
        scores["gate"] = ("Gate", "gate (high = likely wrong)", p.gate)
    found = []
    for key, (name, axis, values) in scores.items():
        groups = {"not flagged": (_bins(values[~p.is_issue]), False), "flagged": (_bins(values[p.is_issue]), True)}
        found.append(_histogram(f"{key}-flagged", f"{name}, by what was flagged", axis, groups))
        if wrong is not None:
            is_wrong, known = wrong
            groups = {
                "really right": (_bins(values[known & ~is_wrong]), False),
                "really wrong": (_bins(values[known & is_wrong]), True),
            }
            found.append(_histogram(f"{key}-wrong", f"{name}, by the clean label", axis, groups))
    return found


def _histogram(name: str, title: str, axis: str, groups: dict[str, tuple[Array, bool]]) -> Context:
    groups = {group: part for group, part in groups.items() if part[0].sum()}
    told = "; ".join(f"{group}: {int(c.sum()):,} labels, mean {_mean_of(c):.2f}" for group, (c, _) in groups.items())
    return {"title": title, "svg": figures.histogram_svg(name, f"Histogram. {title}. {told}.", axis, groups)}


def _bins(values: Array) -> npt.NDArray[np.int64]:
    return np.histogram(values[np.isfinite(values)], bins=figures.N_BINS, range=(0, 1))[0].astype(np.int64)


def _mean_of(counts: Array) -> float:
    centres = (np.arange(len(counts)) + 0.5) / len(counts)
    return float((counts * centres).sum() / max(counts.sum(), 1))


def evaluation(found: Evaluation | None, *, gate: bool) -> list[tuple[str, str, str]]:
    """Return what the clean labels say, each with its meaning; empty where there were none."""
    if found is None:
        return []
    meaning: list[tuple[str, str, str, Callable[[float | None], str]]]
    meaning = [
        ("test_accuracy", "Test accuracy", "share of test items the model gets right", percent),
        ("detection_auc", "Detection AUC", "1 = every wrong label ranks below every right one", auc),
        ("gate_auc", "Gate AUC", "the same, ranked by the gate", auc),
        ("consensus_accuracy", "Consensus accuracy", "share of items whose consensus is right", percent),
        ("noise_rate", "True noise", "share of labels that are wrong", percent),
        ("issue_precision", "Precision", "share of flagged labels that are wrong", percent),
        ("issue_recall", "Recall", "share of wrong labels that are flagged", percent),
    ]
    shown = [
        (name, show(value), what)
        for key, name, what, show in meaning
        if (value := getattr(found, key)) is not None and (gate or key != "gate_auc")
    ]
    native = {name: value for name, value in found.score_auc.items() if name != "gate"}
    return shown + [
        (f"{name.replace('_', ' ').capitalize()} AUC", auc(value), "the same, ranked by the method's own score")
        for name, value in native.items()
    ]
