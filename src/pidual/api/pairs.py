"""Judge comparisons: scores of items, answers that look wrong, how good annotators are, and the pull of the left side.

    judged = judge_pairs("battles.csv")
    judged.scores, judged.predictions, judged.annotators, judged.order_pull, judged.noise

Which item of a pair is better is a class like any other: P(z) comes from the scores (`learn.closed_form.scores`),
answers from z, the annotator and PI (`learn.answers`). Both are fitted in turn, each given what the other found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..data import Inputs
from ..data.join import rows_by_name
from ..data.pairs import ORDER, SHOWN, TIE, PairTable, read_pairs
from ..errors import DataError, UsageError
from ..errors.messages import quoted
from ..fit.options import FitOptions
from ..fit.prepare import prepare
from ..learn.answers.judging import Judge, fit_judge, log_of
from ..learn.answers.rows import AnswerRows
from ..learn.closed_form.alternate import ROUNDS, SETTLED, shared_confusions, vote_shares
from ..learn.closed_form.scores import FIRST, SECOND, ScoreFitter, Scores, preferred
from ..run.records.summary import Rate, Verdict
from .judge import judge_inputs
from .verdict import status_shown, warn_of_verdict

MOST_ITEMS = 5000  # whose scores are fitted together: a matrix with a row and a column for each
KINDS = {SHOWN: "number"}
NOT_CLEAR = "Which item is better is not clear for many pairs; more answers would help."
Z_95 = 1.96


@dataclass(frozen=True)
class PairsJudgement:
    """What comparisons say.

    Parameters
    ----------
    scores : DataFrame
        One row per item, best first: its score (0 on average; a difference of 1 is preferred in 73% of cases) with a
        95% interval, how often it is preferred to another item on average, and how often it was compared.
    predictions : DataFrame
        One row per answer, in the order of the table: both sides, the answer, the better one with its probability,
        label_quality (the probability that the answer is right) and whether it looks wrong.
    annotators : DataFrame or None
        One row per annotator, where annotators are known.
    noise : Rate
        Share of the answers that go against the better item, with the range that may be stated.
    order_pull : tuple of float
        How much more often the left side is preferred than it deserves, as a share, with a 95% interval.
    verdict : str
        "ok", "doubtful" or "failed", as that of a run.

    See Also
    --------
    judge_pairs : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from pidual import judge_pairs
    >>> rng = np.random.default_rng(0)
    >>> two = [rng.choice(list("abcd"), 2, replace=False) for _ in range(200)]
    >>> battles = pd.DataFrame(two, columns=["left", "right"])
    >>> better, worse = battles.max(axis=1), battles.min(axis=1)  # d is the best one
    >>> battles["winner"] = better.where(rng.random(200) < 0.8, worse)
    >>> judged = judge_pairs(battles)
    >>> judged.scores.columns.tolist()
    ['item', 'score', 'score_low', 'score_high', 'preferred', 'num_comparisons']
    """

    scores: pd.DataFrame
    predictions: pd.DataFrame
    annotators: pd.DataFrame | None
    noise: Rate
    order_pull: tuple[float, float, float]
    verdict: str

    @property
    def n_issues(self) -> int:
        """Return the number of answers that look wrong."""
        return int(self.predictions["is_label_issue"].sum())

    def __repr__(self) -> str:
        n, n_items, about = len(self.predictions), len(self.scores), status_shown(self.verdict)
        return f"PairsJudgement({n:,} answers about {n_items:,} items, {self.n_issues:,} issues{about})"


def judge_pairs(
    table: str | Path | pd.DataFrame | PairTable, x: Inputs | None = None, **columns: Any
) -> PairsJudgement:
    """Judge comparisons of two items each: scores of the items, and which answers look wrong.

    Parameters
    ----------
    table : path or DataFrame
        One comparison per row: two items, in the order in which they were shown, and the answer: which side is better
        (left, a, 1; right, b, 2), the name of the better item, or tie.
    x : Inputs, optional
        Features of the items, as `load_inputs` reads them: alike items then have alike scores, and items nobody has
        compared get one. Rows are matched by the name of the item.
    **columns
        Names of the columns `left`, `right` and `label` (the answer), where they have others; `annotator`, `pi`,
        `keep_ids` and `key_file` as for `read_table`.

    Returns
    -------
    PairsJudgement
        `scores`, `predictions`, `annotators`, `noise`, `order_pull` and `verdict`.

    See Also
    --------
    judge : Judge labels of single items.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from pidual import judge_pairs
    >>> rng = np.random.default_rng(0)
    >>> two = [rng.choice(list("abcd"), 2, replace=False) for _ in range(200)]
    >>> battles = pd.DataFrame(two, columns=["left", "right"])
    >>> better, worse = battles.max(axis=1), battles.min(axis=1)  # d is the best one
    >>> battles["winner"] = better.where(rng.random(200) < 0.8, worse)
    >>> judge_pairs(battles).scores["item"].tolist()
    ['d', 'c', 'b', 'a']
    """
    pairs = table if isinstance(table, PairTable) else read_pairs(table, **columns)
    names, features = (pairs.items, None) if x is None else _features_of(pairs, x)
    n_items = len(names)
    if n_items > MOST_ITEMS:
        raise UsageError(
            f"{n_items:,} items are compared, and scores of at most {MOST_ITEMS:,} can be fitted together."
        )
    k = len(pairs.table.classes)
    uniform = np.full((len(pairs.first), k), 1 / k, np.float32)
    named = pairs.table.frame["item"].cat.categories.astype(str).to_numpy()
    job = prepare(pairs.table, Inputs.from_array(uniform, named, kind="probabilities"), FitOptions.judging(KINDS))
    kept = np.ones(len(pairs.table), bool)
    rows = AnswerRows.fit(job.rows, job.spec, kept)
    with threadpool_limits(1):  # the same numbers for any number of threads
        scores, judge = _alternate(pairs, rows, n_items, features)
    inputs = Inputs.from_array(scores.p.astype(np.float32), named, kind="probabilities", source="scores")
    found = judge_inputs(pairs.table, inputs, pi_kinds=KINDS, reasons=False)
    predictions = _describe_answers(pairs, found.predictions.frame)
    pull = _order_pull(pairs, job.encoder.number_names, rows, judge, scores)
    items, summary = _describe_items(pairs, names, scores), found.summary
    warn_of_verdict(Verdict(summary.verdict.status, [NOT_CLEAR]))
    return PairsJudgement(items, predictions, found.annotators, summary.noise, pull, summary.verdict.status)


def _alternate(pairs: PairTable, rows: AnswerRows, n_items: int, x: NDArray[np.float64] | None) -> tuple[Scores, Judge]:
    """Fit scores and the answer model in turn, until few pairs change their better item."""
    answers = rows.of(np.arange(len(pairs.first)))[0]
    evidence = shared_confusions(answers, vote_shares(answers))
    fitter = ScoreFitter(pairs.first, pairs.second, n_items, x)
    before, judge = np.full(len(pairs.first), -1), None
    for _ in range(ROUNDS):
        scores = fitter.fit(evidence)
        judge = fit_judge(answers, log_of(scores.p), sharpen=False, start=None if judge is None else judge.model)
        now = judge(answers, log_of(scores.p)).q.argmax(1)
        if (now != before).mean() < SETTLED:
            break
        evidence = answers.by_item @ judge.model.log_likelihood(answers)
        before = now
    assert judge is not None
    return scores, judge


def _order_pull(
    pairs: PairTable, numbers: Sequence[str], rows: AnswerRows, judge: Judge, scores: Scores
) -> tuple[float, float, float]:
    """Return by how much the left side is preferred more often than by the same people without its pull."""
    at, table = list(numbers).index(SHOWN), pairs.table
    turned = rows.rows.numbers.clone()
    turned[:, at] = turned[:, at].min() + turned[:, at].max() - turned[:, at]
    side = np.where(table.frame[SHOWN].to_numpy() > 0, FIRST, SECOND)  # what the left one is called
    expected = np.zeros(len(table))
    for shown in (rows.rows.numbers, turned):
        answers, index = replace(rows, rows=replace(rows.rows, numbers=shown)).of(np.arange(len(pairs.first)))
        for label, part in ((side[index], 0.5), (np.full(len(index), TIE), 0.25))[: len(table.classes) - 1]:
            log_p = judge.model.log_likelihood(replace(answers, label=label))
            expected[index] += part * (np.exp(log_p) * scores.p[answers.item]).sum(1)
    said = table.label_codes
    excess = (said == side) + 0.5 * (said == TIE) - expected
    of_pair = np.bincount(table.item_codes, excess - excess.mean())
    mean, reach = float(excess.mean()), Z_95 * float(np.sqrt((of_pair**2).sum())) / len(excess)
    return mean, mean - reach, mean + reach


def _describe_items(pairs: PairTable, names: "pd.Index[Any]", scores: Scores) -> pd.DataFrame:
    """Return scores, best first."""
    reach = Z_95 * np.sqrt(scores.variance)
    frame = pd.DataFrame({"item": names, "score": scores.mean})
    frame["score_low"], frame["score_high"] = scores.mean - reach, scores.mean + reach
    frame["preferred"] = preferred(scores.mean)
    frame["num_comparisons"] = np.bincount(np.concatenate([pairs.left, pairs.right]), minlength=len(names))
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def _describe_answers(pairs: PairTable, found: pd.DataFrame) -> pd.DataFrame:
    """Return answers by the names of items."""
    pair = pairs.table.item_codes
    names = np.stack([pairs.items[pairs.first], pairs.items[pairs.second], np.full(len(pairs.first), "tie")], axis=1)
    said = names[pair, [ORDER.index(one) for one in found["given_label"]]]
    better = names[pair, [ORDER.index(one) for one in found["consensus_label"]]]
    frame = pd.DataFrame({"left": pairs.items[pairs.left], "right": pairs.items[pairs.right], "answer": said})
    if "annotator" in found:
        frame.insert(0, "annotator", found["annotator"])
    frame["better"], frame["better_probability"] = better, found["consensus_quality"]
    return frame.join(found[["label_quality", "is_label_issue"]])


def _features_of(pairs: PairTable, x: Inputs) -> tuple["pd.Index[Any]", NDArray[np.float64]]:
    """Return names and features (n, d) of all items: those that are compared, in their order, then all others."""
    if x.names is None:
        raise UsageError(f"{x.source} has no names; give inputs of items a column 'item' (in .npz an array).")
    rows = rows_by_name(x.names, pairs.items, paths=x.kind == "images", source=x.source)
    if (rows < 0).any():
        lost = pairs.items[rows < 0]
        raise DataError(f"{x.source} has no input for {len(lost)} of {len(rows)} items, such as {quoted(lost[0])}.")
    others = np.setdiff1d(np.arange(len(x)), rows)
    found = np.concatenate([rows, others])
    array = x.array[found] if isinstance(x.array, np.ndarray) else x.array.take(found)
    return pairs.items.append(pd.Index(x.names[others])), np.asarray(array, np.float64).reshape(len(found), -1)
