"""Why a label looks wrong, in a few plain sentences with numbers, from evidence that is in the data.

Nothing is said that chance explains: of the annotator, of the pair of classes and of PI (`informative`) only what is
beyond it, all that is tested taken together. What weighs most comes first. Annotators are called "this annotator"; no
id is ever written. Of each part there is a text for every issue, "" where there is nothing to say, and its weight: the
logarithm of how many times more frequent such wrong answers are than usual.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..data.pi.encoder import MILLISECONDS, is_moment, short_name, value_text, words
from ..run.predictions import Predictions, join_parts
from .classes import MIN_ANSWERS
from .counts import CHANCE, CROWD_ANSWERS, Counts, chance_excess
from .informative import LOW, LOWEST, MISSING, InformativeColumn, WrongAnswers, find_informative
from .items import Truth

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Part = tuple[list[str], Floats]

CLEARLY_LOWER = 0.05  # by how much an annotator must be below the others to be mentioned
LIFT = 1.5  # how many times more frequent than usual, to be worth saying


def annotator_part(rows: Ints, names: Array, counts: Counts) -> Part:
    """Return how this annotator does on this class beside the others, else on all classes, where clearly worse.

    `rows` (R,): the issues.
    `names` (K,): names of the classes.
    `counts`: all answers, by the consensus of their items.
    """
    texts, weights = _on_class(rows, names, counts)
    general, general_weights = _overall(rows, counts.per("who"), counts.cell)
    both = [one or other for one, other in zip(texts, general, strict=True)]
    return both, np.where([bool(one) for one in texts], weights, general_weights)


def _on_class(rows: Ints, names: Array, counts: Counts) -> Part:
    """Compare how often annotators give a label to items of a class with how often the others do."""
    count, (n, _) = counts.n, counts.totals("who", "true")
    (all_count, _), (all_n, _) = counts.totals("true", "given"), counts.totals("true")
    others = (all_count - count + CROWD_ANSWERS * all_count / all_n) / (all_n - n + CROWD_ANSWERS)
    tested = counts.is_wrong & (n >= MIN_ANSWERS) & (all_n > n)
    bound = n * others + _most_by_chance(n * others * (1 - others), tested)
    share = (count + CROWD_ANSWERS * others) / (n + CROWD_ANSWERS)
    found = tested & (count > bound) & (share >= LIFT * others)
    mine = counts.cell[rows]
    sentences = {
        one: f"This annotator says {names[counts.given[one]]} to {count[one] / n[one]:.0%} of items that are "
        f"{names[counts.true[one]]} ({count[one]:,.0f} of {n[one]:,.0f}); the others to {others[one]:.0%}."
        for one in np.unique(mine[found[mine]]).tolist()
    }
    weights = np.log(share[mine] / np.maximum(others[mine], 1e-3), out=np.zeros(len(rows)), where=found[mine])
    return [sentences.get(one, "") for one in mine.tolist()], weights


def _overall(rows: Ints, own: Counts, cell: Ints) -> Part:
    """Compare how often annotators agree with the consensus with how often the others do."""
    n, agreed = own.n, own.right
    rest = (agreed.sum() - agreed) / np.maximum(n.sum() - n, 1)
    share = agreed / n
    tested = (n >= MIN_ANSWERS) & (n < n.sum())
    bound = n * rest - _most_by_chance(n * rest * (1 - rest), tested)
    worse = tested & (share < rest - CLEARLY_LOWER) & (agreed < bound)
    texts = np.full(len(n), "", dtype=object)
    for one in np.flatnonzero(worse):
        texts[one] = (
            f"The consensus agrees with {share[one]:.0%} of this annotator's labels, with {rest[one]:.0%} of the "
            "others'."
        )
    weight = np.where(worse, np.log(np.maximum(1 - share, 1e-3) / np.maximum(1 - rest, 1e-3)), 0.0)
    mine = own.cell[cell[rows]]
    return texts[mine].tolist(), weight[mine]


def own_record(rows: Ints, names: Array, counts: Counts) -> list[str]:
    """Return how often this annotator is right on this class, if clearly less often than all and not only here.

    Chance is not excluded: it is a fact to look at, which has no weight among the reasons.
    """
    own = counts.per("who", "true")
    n, right, (all_n, all_right) = own.n, own.right, own.totals("true")
    worse = (n >= MIN_ANSWERS) & (n - right > 1) & (right / n < all_right / all_n - CLEARLY_LOWER)
    mine = own.cell[counts.cell[rows]]
    sentences = {
        one: f"This annotator is right on {right[one]:,.0f} of {n[one]:,.0f} items that are {names[own.true[one]]} "
        f"({right[one] / n[one]:.0%}; all: {all_right[one] / all_n[one]:.0%})."
        for one in np.unique(mine[worse[mine]]).tolist()
    }
    return [sentences.get(one, "") for one in mine.tolist()]


def pair_part(rows: Ints, names: Array, counts: Counts) -> Part:
    """Return how often items of the suggested class are given this label, where that is more frequent than usual."""
    pairs = counts.per("true", "given")
    count, (n, _), wrong = pairs.n, pairs.totals("true"), pairs.is_wrong
    usual = float(count[wrong].sum() / count.sum()) / max(len(names) - 1, 1)
    share = count / n
    bound = n * usual + _most_by_chance(n * usual * (1 - usual), wrong)
    found = wrong & (n >= MIN_ANSWERS) & (count > bound) & (share >= LIFT * usual)
    mine = pairs.cell[counts.cell[rows]]
    sentences = {
        one: f"{share[one]:.0%} of the answers to items that are {names[pairs.true[one]]} say "
        f"{names[pairs.given[one]]}."
        for one in np.flatnonzero(found).tolist()
    }
    weights = np.log(share[mine] / max(usual, 1e-3), out=np.zeros(len(rows)), where=found[mine])
    return [sentences.get(one, "") for one in mine.tolist()], weights


def _most_by_chance(variance: Floats, tested: npt.NDArray[np.bool_]) -> Floats:
    """Return by how much any of the tested numbers exceeds its expectation with a probability of at most `CHANCE`."""
    return chance_excess(variance, CHANCE / max(int(np.count_nonzero(tested)), 1))


Texts = list[str]

MAX_NAMED_CATEGORIES = 50  # values of a column with more may be ids and are not written out
SECONDS = {"s", "sec", "secs", "seconds"}
TIMED = SECONDS | MILLISECONDS | {"time", "duration", "latency", "rt", "elapsed"}
_PERCENT = [f"{i / 10:.0f}%" if 10 <= i <= 990 else f"{i / 10:.1f}%" for i in range(1, 1000)]
PERCENT = np.array(["under 0.1%", *_PERCENT, "over 99.9%"], dtype=object)


def find_reasons(predictions: Predictions, is_issue: npt.ArrayLike) -> dict[str, Texts]:
    """Find why each issue looks wrong, in parts that each say one thing.

    The gate is no part: the quality is a posterior, from which it follows.

    `is_issue` (N,): which labels to explain.
    Returned: by name of the part: label (what the consensus says instead), votes (what the item's other labels and its
        input say), annotator (beyond chance, or where there is no other evidence their record on this class), pair (of
        classes), pi; and whole, all of it with `label` first and then what weighs most. One text per issue, in row
        order; "" where there is nothing to say. There are no parts without issues.
    """
    rows = np.flatnonzero(np.asarray(is_issue, dtype=bool))
    if not len(rows):
        return {}
    classes, who, item = predictions.classes, predictions.annotator, predictions.item.astype(np.int64)
    given, suggested = predictions.given.astype(np.int64), predictions.suggested.astype(np.int64)
    names = np.array([short_name(name) for name in classes], dtype=object)
    parts: dict[str, Part] = {"votes": _votes(rows, names, given, suggested, item, who)}
    if predictions.has_input and np.ptp(predictions.predicted_probability) > 1e-6:  # else it is the same for all
        parts["votes"] = _with_input(parts["votes"], rows, names, predictions)
    counts = Counts.of(who, given, Truth.by_consensus(suggested, np.ones(len(given))), len(names))
    if who is not None:
        parts["annotator"] = annotator_part(rows, names, counts)
    parts["pair"] = pair_part(rows, names, counts)
    if predictions.pi_columns:
        pi = predictions.frame[predictions.pi_columns]
        found = find_informative(pi, WrongAnswers.of(given != suggested, who, item))
        parts["pi"] = _pi(rows, [_pi_column(rows, one, pi.iloc[:, at]) for at, one in enumerate(found)])
    if who is not None:  # a record where nothing else is known than consensus, votes and input
        said, weights = parts["annotator"]
        evidence = zip(*(texts for name, (texts, _) in parts.items() if name != "votes"), strict=True)
        record = zip(own_record(rows, names, counts), said, evidence, strict=True)
        parts["annotator"] = [text or ("" if any(row) else fact) for fact, text, row in record], weights
    label = _other_label(rows, names, predictions)
    return {"label": label} | {name: texts for name, (texts, _) in parts.items()} | {"whole": _join(label, parts)}


def find_item_reasons(predictions: Predictions, is_issue: npt.ArrayLike) -> dict[str, Texts]:
    """Find why each issue looks wrong by its item alone: what `find_reasons` says as `label` and `votes`, and whole.

    Nothing depends on the other items, so that any part of a table has the reasons of the whole.
    """
    rows, names = np.flatnonzero(np.asarray(is_issue, bool)), [short_name(name) for name in predictions.classes]
    if not len(rows):
        return {}
    given, suggested = predictions.given.astype(np.int64), predictions.suggested.astype(np.int64)
    how = (rows, np.array(names, dtype=object))
    votes = _votes(*how, given, suggested, predictions.item.astype(np.int64), predictions.annotator)
    votes = _with_input(votes, *how, predictions) if predictions.has_input else votes
    parts = {"votes": votes}
    label = _other_label(*how, predictions)
    return {"label": label, "votes": votes[0], "whole": _join(label, parts)}


def _join(label: Texts, parts: dict[str, Part]) -> Texts:
    """Join the parts of each row to one text, the label first and then by weight."""
    texts, weights = zip(*parts.values(), strict=True)
    order = np.argsort(-np.stack(weights, 1), axis=1, kind="stable").tolist()
    return [
        join_parts([first, *(row[place] for place in places)])
        for first, places, *row in zip(label, order, *texts, strict=True)
    ]


def _other_label(rows: Ints, names: Array, predictions: Predictions) -> Texts:
    """Return what the consensus says instead, and how likely the given label is."""
    given, suggested = predictions.given[rows], predictions.suggested[rows]
    sure, left = _percent(predictions.suggested_probability[rows]), _percent(predictions.label_quality[rows])
    if predictions.is_of_sets:
        tags, has = names[given | 1], (given % 2 == 1).tolist()
        return [
            f"It should {'not ' * have}have {tag} ({p}), which this answer {'has' if have else 'leaves out'}."
            if differs
            else f"The consensus is {b} as in this answer ({p}), but rests on it alone: counted half, it has {q}."
            for differs, have, tag, b, p, q in zip(given != suggested, has, tags, names[given], sure, left, strict=True)
        ]
    return [
        f"The consensus is {a} ({p}), not {b} ({q})."
        if differs
        else f"The consensus is {b} as labelled ({p}), but rests on this one answer: counted half, it has {q}."
        for differs, a, p, b, q in zip(given != suggested, names[suggested], sure, names[given], left, strict=True)
    ]


def _with_input(votes: Part, rows: Ints, names: Array, predictions: Predictions) -> Part:
    """Add what the input alone says to what the item's other labels say."""
    (texts, weights), said = votes, predictions.predicted[rows]
    given, suggested = predictions.given[rows], predictions.suggested[rows]
    probability = predictions.predicted_probability[rows].astype(np.float64)
    words = np.where(said == given, "as labelled ", np.where(said == suggested, "too ", ""))
    alone = [
        f"By its input alone it is {name} {word}({p})."
        for name, word, p in zip(names[said], words.tolist(), _percent(probability), strict=True)
    ]
    sure = np.clip(probability, 1e-3, 1 - 1e-3)
    weights = weights + np.where(said == suggested, np.log(sure / (1 - sure)), 0.0)
    return [join_parts(both) for both in zip(texts, alone, strict=True)], weights


def _votes(rows: Ints, names: Array, given: Ints, suggested: Ints, item: Ints, annotator: Array | None) -> Part:
    """Count the other labels of the item; the same label by the same annotator counts once."""
    k, mine = len(names), item[rows]
    once = np.ones(len(item), bool)
    if annotator is not None:
        once[:] = ~pd.DataFrame({"item": item, "annotator": annotator, "given": given}).duplicated().to_numpy()
    others = np.bincount(item[once])[mine] - 1
    concerned = np.zeros(int(item.max()) + 1, dtype=bool)
    concerned[mine] = True
    near = concerned[item] & once
    keys, counts = np.unique(item[near] * k + given[near], return_counts=True)

    def votes(label: Array) -> Array:
        wanted = mine * k + label
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, counts[at], 0)

    differs = given[rows] != suggested[rows]
    same = votes(given[rows]) - 1
    against = np.where(differs, votes(suggested[rows]), 0)
    texts = [
        "" if not n else _vote_text(n, m, s, a) if other else _support_text(n, s)
        for n, m, s, a, other in zip(
            others.tolist(), against.tolist(), same.tolist(), names[suggested[rows]], differs.tolist(), strict=True
        )
    ]
    right = float(np.clip(np.mean(given == suggested), 0.6, 0.95))
    return texts, (against - same) * np.log(right / (1 - right))


def _vote_text(others: int, against: int, same: int, suggested: str) -> str:
    if others == 1:
        only = f"says {suggested}" if against else "says the same as this one" if same else "says something else again"
        return f"The only other label of this item {only}."
    if max(against, same) == others:
        return f"{_all(others)} other labels of this item say {suggested if against else 'the same as this one'}."
    say, agree = ("says" if against == 1 else "say"), ("agrees" if same == 1 else "agree")
    first = f"{against or 'none'} of {others} other labels of this item {say} {suggested}"
    return f"{first[0].upper()}{first[1:]}, {same or 'none'} {agree} with this one."


def _all(others: int) -> str:
    return "Both" if others == 2 else f"All {others}"


def _support_text(others: int, same: int) -> str:
    """Return how many other labels say the same, where no other class is likelier."""
    if others == 1:
        return f"The only other label of this item {'says the same as this one' if same else 'says something else'}."
    if same == others:
        return f"{_all(others)} other labels of this item say the same as this one."
    return (
        f"{same or 'None'} of {others} other labels of this item {'say' if same > 1 else 'says'} the same as this one."
    )


def _pi(rows: Ints, columns: list[Part]) -> Part:
    """Return what all PI columns say, the strongest evidence first."""
    if not columns:
        return [""] * len(rows), np.zeros(len(rows))
    weights = np.stack([weight for _, weight in columns], 1)
    order = np.argsort(-weights, axis=1, kind="stable").tolist()
    texts = zip(*(text for text, _ in columns), strict=True)
    joined = [join_parts(row[place] for place in places) for row, places in zip(texts, order, strict=True)]
    return joined, weights.max(1)


def _pi_column(rows: Ints, found: InformativeColumn, column: "pd.Series[Any]") -> Part:
    """Return what a PI column says about each issue, if anything."""
    code = found.code[rows]
    said = np.flatnonzero((code >= 0) & found.is_informative[np.maximum(code, 0)])
    texts, weights = [""] * len(rows), np.zeros(len(rows))
    weights[said] = np.log(found.lift[code[said]])
    share, usual, name = found.share, found.usual, short_name(found.name)
    values = column.iloc[rows[said]]
    for at, value in zip(said.tolist(), values.tolist(), strict=True):
        one = int(code[at])
        look = f"{share[one]:.0%} of such answers look wrong, where {usual[one]:.0%} would be usual."
        if found.categories is None:
            texts[at] = f"{_extreme(found, one, value, is_moment(column))}; {look}"
        elif len(found.categories) <= MAX_NAMED_CATEGORIES:
            texts[at] = f"{name} is {short_name(value_text(found.categories[one]))}; {look}"
        else:
            texts[at] = f"Of answers with the same {name}, {look.replace(' of such answers', '', 1)}"
    return texts, weights


def _extreme(found: InformativeColumn, tail: int, value: Any, moment: bool) -> str:
    """Say that a value of a column is lower, or higher, than most."""
    name, parts = found.name, {*words(found.name)}
    if tail == MISSING:
        return f"{short_name(name)} is missing"
    number = pd.Timestamp(value).timestamp() if moment else float(value)
    lower = tail in (LOWEST, LOW)
    if lower:
        beyond = 1 - np.searchsorted(found.ordered, number, side="right") / len(found.ordered)
    else:
        beyond = np.searchsorted(found.ordered, number, side="left") / len(found.ordered)
    share = f"{min(int(100 * beyond + 0.5), 99)}%"
    timed = not moment and bool(parts & TIMED or name.lower().endswith("time"))
    unit = " ms" if parts & MILLISECONDS else " s" if parts & SECONDS else ""
    side = ("faster", "slower") if timed else ("earlier", "later") if moment else ("lower", "higher")
    what = f"Answered in {value_text(value)}{unit}" if timed and unit else f"{short_name(name)} is {value_text(value)}"
    return f"{what}, {side[not lower]} than {share} of answers"


def _percent(shares: Array) -> Texts:
    """Return shares as words; a share that rounds to nothing or all is said to be under or over."""
    shares = np.asarray(shares, np.float64)
    tenths = np.clip(np.rint(shares * 1000), 0, 1000).astype(np.int64)
    whole = 10 * np.rint(shares * 100).astype(np.int64)  # not rounded to tenths first
    found: Texts = PERCENT[np.where((tenths >= 10) & (tenths <= 990), np.clip(whole, 10, 990), tenths)].tolist()
    return found
