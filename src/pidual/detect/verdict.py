"""A verdict on the fit itself: can its list of wrong labels be trusted? Nothing here needs clean labels.

failed     what was learned is unrelated to the labels: the list means nothing
doubtful   there is a reason not to rely on it, and the verdict says which
ok         no such reason was found
"""

import math
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.classes import sense
from ..errors.messages import quoted
from ..metrics import detection_auc
from ..run.predictions import Predictions
from ..run.records.summary import Consensus, Detection, PIProblem

Floats = npt.NDArray[np.floating[Any]]
Codes = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]

AT_CHANCE = 3.0  # standard errors above one half, below which the AUC of f may be chance
WEAK, SURELY = 0.6, 2.0  # and it is called so where it lies surely, by so many standard errors, below this AUC
FEW_LABELS, FEW_OTHERS = 30, 10  # and those that are not of the most frequent class
SAMPLE = 200_000  # labels whose ranking is looked at
FEW_ANSWERS = 1.5  # mean answers to an item, below which f alone can contradict one
CONTRADICTED = 2.5, 0.05  # times the noise rate, and beyond it, that f must disagree with held-out labels
GIVEN_BACK, GIVEN_BACK_LABELS = 0.999, 300  # share of labels that are given back, of at least so many
WHOLE_CLASS, CLASS_LABELS = 0.9, 10  # share of a class that looks wrong, of at least so many labels
SPELLINGS = 0.01  # share of the labels that look wrong for which another spelling of the same class is likelier
NO_ANSWER = ["unsure", "not sure", "dont know", "do not know", "cannot tell", "cant tell", "no answer", "no idea"]
NO_ANSWERS = 0.005  # share of such labels that matters
ONE_ANSWER, OPEN_GATE = 0.99, 0.1  # share of one label among the noise network's, and mean gate
SURE_HITS = 0.37  # low end of the expected precision; about 0.5 the end varies with the seed of good lists
SURE_HITS_OF_SETS = 0.55  # of sets, where that end leaves out labels that many answers share
FEW_ISSUES = 5  # labels that look wrong, of fewer of which nothing is concluded
MANY_CLASSES, CLASS_ITEMS = 32, 10  # classes, and items for each of more, that inputs need to tell them apart
HALF_WRONG = 0.45  # share of single answers that look wrong
SURE_CONSENSUS = 0.88  # stated accuracy of the consensus
HAVE_CHECKED = "Have 50 items checked: `pidual next RUN --gold 50`."


def find_collapse(collapsed: bool) -> str | None:
    """Warn if the guard gave up."""
    if not collapsed:
        return None
    return (
        "Training collapsed and could not be recovered: the classifier has learned nothing. Check that inputs and "
        "labels are in the same order, and that the inputs can show the class; if so, use a smaller --lr."
    )


def find_small_classes(n_items: int, n_classes: int) -> str | None:
    """Warn if there are many classes of so few items that inputs cannot show what each is like."""
    if n_classes <= MANY_CLASSES or n_items >= CLASS_ITEMS * n_classes:
        return None
    return (
        f"There are {n_classes:,} classes and {n_items / n_classes:.1f} items for each: too few to learn what "
        "a class is like from inputs. Merge rare classes, or judge with a model that knows them (--probs)."
    )


def find_leaks(problems: Iterable[PIProblem]) -> str | None:
    """Warn if PI that gives the label away was learned from."""
    return next((problem.text for problem in problems if problem.problem == "leaks"), None)


def find_chance(
    own: Floats, given: Codes, shuffled: Floats, shuffled_labels: Codes, *, answers_alone: bool, what: str = "inputs"
) -> tuple[str | None, str | None]:
    """Return a failure, or a doubt, where f ranks held-out labels no better than shuffled ones; neither for few labels.

    Where that may be chance and need not be, it is a doubt if nothing but f can tell which labels are wrong.

    `own`, `given` (N,): f's probability of the label of each held-out row, and the label.
    `shuffled`, `shuffled_labels` (N,): the same with the labels shuffled among the rows.
    `answers_alone`: whether items have several answers, which count without f.
    `what`: what f reads, for the message: "inputs", or given "probabilities".
    """
    if len(given) < FEW_LABELS:
        return None, None
    step = max(1, len(given) // SAMPLE)
    auc, error = ranks_above(own[::step], given[::step], shuffled[::step], shuffled_labels[::step])
    if not auc <= 0.5 + AT_CHANCE * error:
        return None, None
    if not auc + SURELY * error < WEAK:
        may_be = f"Whether the {what} say anything about the labels is open: held-out labels rank hardly higher than "
        ranks = f"shuffled ones (AUC {auc:.2f}, up to {0.5 + AT_CHANCE * error:.2f} by chance)"
        return None, None if answers_alone else f"{may_be}{ranks}, and items have one answer each."
    text = f"The {what} say nothing about the labels: held-out labels rank no higher than shuffled ones (AUC {auc:.2f})"
    if answers_alone:
        return None, f"{text}, so the answers to an item are judged by each other alone."
    of_x = what != "probabilities"
    same = "are in the same order" if of_x else "have rows and classes in the same order"
    shows = ", and that the inputs can show the class" if of_x else ""
    return f"{text}; check that {what} and labels {same}{shows}.", None


def ranks_above(own: Floats, given: Codes, shuffled: Floats, shuffled_labels: Codes) -> tuple[float, float]:
    """Return the AUC of f's probability of given labels against shuffled ones, and its standard error by chance.

    Within each class: the chance that a row with this label has a higher probability of it than a row of another label
    that was given this one by shuffling. Class frequencies alone, however uneven, rank nothing.
    """
    moved = given != shuffled_labels
    shuffled, shuffled_labels = shuffled[moved], shuffled_labels[moved]
    excess, variance, weight = 0.0, 0.0, 0.0
    order, other = (np.argsort(labels, kind="stable") for labels in (given, shuffled_labels))
    k = int(max(given.max(initial=0), shuffled_labels.max(initial=0))) + 1
    ends, others = (np.cumsum(np.bincount(labels, minlength=k)) for labels in (given, shuffled_labels))
    for label in np.flatnonzero(np.diff(ends, prepend=0)):
        a = own[order[ends[label - 1] if label else 0 : ends[label]]]
        b = shuffled[other[others[label - 1] if label else 0 : others[label]]]
        if not len(b):
            continue
        auc = detection_auc(np.concatenate([a, b]), np.arange(len(a) + len(b)) >= len(a))
        excess += len(a) * (auc - 0.5)
        variance += len(a) ** 2 * (len(a) + len(b) + 1) / (12 * len(a) * len(b))
        weight += len(a)
    if not weight:
        return math.nan, math.nan
    return 0.5 + excess / weight, math.sqrt(variance) / weight


def find_contradiction(disagrees: Mask, rate: float, answers_per_item: float) -> str | None:
    """Warn if f disagrees with far more held-out labels than are estimated to be wrong."""
    times, beyond = CONTRADICTED
    share = float(disagrees.mean()) if len(disagrees) else 0.0
    if answers_per_item >= FEW_ANSWERS or share <= max(times * rate, rate + beyond):
        return None
    return (
        f"The classifier disagrees with {share:.1%} of held-out labels, and {rate:.1%} are estimated to be wrong: it "
        "is often wrong itself, and misses wrong labels there."
    )


def find_given_back(agrees: Mask, answers_per_item: float, columns: Sequence[str] | None = None) -> str | None:
    """Warn if nearly every label is given back, as it is by what was made from the labels.

    `agrees` (N,): which held-out labels f, or given probabilities, favour.
    `columns`: columns of x that alone give the label away, or that of most answers; None where probabilities are given.
    """
    n, favoured, several = len(agrees), int(agrees.sum()), answers_per_item >= FEW_ANSWERS
    given_back = n >= GIVEN_BACK_LABELS and favoured >= GIVEN_BACK * n and not several
    if not given_back and not columns:
        return None
    if columns is None:
        return (
            f"The probabilities favour {favoured:,} of {n:,} given labels: either nearly all labels are right, or the "
            "model was trained on these rows and has memorised wrong labels too; use probabilities of rows that it has "
            "not seen, such as those of cross_val_predict."
        )
    if columns:
        counted = " (counted from 0)" if columns[0].isdigit() else ""
        first, does = ("Column", "gives") if len(columns) == 1 else ("Columns", "give")
        what = f"{first} {', '.join(columns)} of x{counted} alone {does} the label away"
        what += " that most answers have, even where people disagree" if several else ""
    else:
        what = f"The classifier gives {favoured:,} of {n:,} labels back that it has not seen"
    whose = "majorities" if several else "labels"
    return (
        f"{what}: either nearly all {whose} are right, or a column of x was made from the labels and repeats wrong "
        "ones; leave such a column out and fit again."
    )


def find_whole_class(findings: Detection) -> str | None:
    """Warn if nearly all labels of a class look wrong."""
    for of in findings.classes:
        n, issues = of.given, of.issues
        if n >= CLASS_LABELS and issues >= WHOLE_CLASS * n:
            return (
                f"{issues:,} of the {n:,} labels {quoted(of.label)} look wrong: the classifier may not "
                "recognise this class; check some of them before you change any."
            )
    return None


def find_spellings(predictions: Predictions) -> str | None:
    """Warn if labels look wrong because their class is written in two ways.

    A label is compared with the consensus or, where it is the consensus itself, with what f says alone.
    """
    classes, given, is_issue = predictions.classes, predictions.given, predictions.is_issue
    senses = np.unique([str(sense(str(one))) for one in classes], return_inverse=True)[1]
    likelier = np.where(predictions.suggested == given, predictions.predicted, predictions.suggested)
    alike = np.flatnonzero(is_issue & (likelier != given) & (senses[likelier] == senses[given]))
    if not len(alike) or len(alike) < SPELLINGS * is_issue.sum():
        return None
    one, other = (quoted(classes[codes[alike[0]]]) for codes in (given, likelier))
    return (
        f"In {len(alike):,} of {is_issue.sum():,} labels that look wrong, the given label and the likelier one differ "
        f"in spelling alone, such as {one} and {other}; if these are one class, write it the same way, "
        "or merge it with --same, and fit again."
    )


def find_no_answer(predictions: Predictions) -> str | None:
    """Warn if a class is called as if nobody could tell: counted as a class, it is an answer that nobody meant."""
    names = np.array([" ".join(str(one).casefold().replace("'", "").split()) for one in predictions.classes])
    for code in np.flatnonzero(np.isin(names, NO_ANSWER)).tolist():
        n = int((predictions.given == code).sum())
        if n >= max(FEW_LABELS, NO_ANSWERS * len(predictions)):
            name = str(predictions.classes[code])
            return (
                f"{n:,} labels are {quoted(name)}, which may say that somebody could not tell, and count as answers: "
                f"unless this is a class, leave them out with --no-answer {shlex.quote(name)}, and fit again."
            )
    return None


def find_low_precision(findings: Detection, *, of_sets: bool = False) -> str | None:
    """Warn if most of the list may be right labels."""
    low, n = findings.precision_low, sum(of.issues for of in findings.classes)
    if low is None or n < FEW_ISSUES or low >= (SURE_HITS_OF_SETS if of_sets else SURE_HITS):
        return None
    text = (
        f"Of the labels that look wrong, {findings.expected_precision:.0%} are expected to be "
        f"({low:.0%} to {findings.precision_high:.0%}): many of them may be right."
    )
    why = "Many other answers share them: people may understand a class in different ways, which answers cannot show."
    return f"{text} {why}" if of_sets else text


def find_half_wrong(rate: float, answers_per_item: float) -> str | None:
    """Warn if about half of single answers or more look wrong: they and f can only be judged by each other."""
    if answers_per_item >= FEW_ANSWERS or rate < HALF_WRONG:
        return None
    return (
        f"An estimated {rate:.0%} of the labels are wrong, and items have one each: the classifier learned from them, "
        f"and nothing else shows which of the two is wrong. {HAVE_CHECKED}"
    )


def find_unsure_consensus(consensus: Consensus, *, of_sets: bool = False) -> str | None:
    """Warn if answers, counted as the few votes that they are worth, leave the consensus too often open."""
    if consensus.accuracy >= SURE_CONSENSUS:
        return None
    text = (
        f"By the answers alone the consensus is right for about {consensus.accuracy:.0%} of the "
        f"{'pairs of item and class' if of_sets else 'items'}; mistakes that answers share cannot be seen in them."
    )
    return text if of_sets else f"{text} {HAVE_CHECKED}"


def find_noise_prior(predictions: Predictions) -> str | None:
    """Warn if Pi-DUAL's noise network gives one label to all rows and so carries the class frequencies."""
    gate, noise = predictions.gate, predictions.frame.get("noise_label")
    if gate is None or noise is None:
        return None
    counts = noise.value_counts(normalize=True)
    most, label = float(counts.iloc[0]), counts.index[0]
    if most < ONE_ANSWER or gate.mean() < OPEN_GATE or label != predictions.frame["given_label"].mode()[0]:
        return None
    return (
        f"The noise network says {quoted(label)} for {most:.0%} of the rows, at a mean gate of {gate.mean():.2f}: "
        "it has learned how frequent the classes are, and the classifier names the others too often; use --method auto."
    )


def find_few_labels(predictions: Predictions) -> str | None:
    """Warn if there are too few labels to judge any, or all but a few are of one class."""
    n, count = len(predictions), np.bincount(predictions.given, minlength=1)
    if n < FEW_LABELS:
        return f"There are only {n} labels, too few to learn from."
    if n - count.max() >= FEW_OTHERS:
        return None
    others, one = n - int(count.max()), quoted(predictions.classes[int(count.argmax())])
    return f"All labels but {others} are {one}: too few others to learn where {one} is wrong."
