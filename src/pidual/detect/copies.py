"""Annotators who copy each other: pairs who give the same answers, and the same wrong ones.

People who know agree, and so do people who copy. They differ where they are wrong: those who know are seldom wrong
together, and then often in another way. What is wrong is known from witnesses outside the pair, the input and the other
annotators; where an item has fewer than two of them, it says nothing about a pair.

1. Candidates are pairs who agree on nearly all items in common, `NEARLY` of the way from what is usual to all, and on
   more than chance explains with all pairs in mind. Usual is what the agreement of each with the others leads to.
2. Supposing that they copy, so that each cluster of candidates is one voter, a latent class model says what each item
   is: one accuracy for each voter, confusions that all share, and the class that the input favours as one more answer.
   The same model with candidates who are right wherever they agree must be clearly less likely.
3. A candidate copies if both gave the same answer to nearly all items on which one of them is surely wrong (as above),
   and to more of these than chance explains. Usual is what other pairs do there, or what the habits of the two lead
   to, whichever is more.

Mistakes that many people share make no pair, then, nor does a habit, such as to give one answer to everything. A pair
who are hardly ever wrong are not found, and need not be. Where only evidence is missing, the pair is open: they
know, or they copy.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..run.records.summary import CopyGroup
from .agreement import answer_pairs
from .counts import CROWD_ANSWERS, Counts, sums
from .items import Truth

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST_ITEMS = 20  # in common
NEARLY = 0.8
PAIR_CHANCE = 0.001  # that any pair is found without reason
LEAST_AGREEMENT = 0.05  # beyond chance, that a crowd is taken to have
SURELY = 0.8  # probability of the class of an item that shows an answer to be wrong
WITNESSES = 2
FEWEST_WRONG = 8  # items on which one is wrong
OPEN_ITEMS, OPEN_SAME = 50, 0.98  # items in common, and share of the same answers, below which nobody need wonder
HARDLY_WRONG = 0.95  # mean probability of their common answers from which it does not matter
FAVOURED = np.log(3.0)  # how much more the input must favour the class than a wrong answer, to be a witness
BEGUN, RIGHT = 4.0, 0.7  # answers that an accuracy begins with, and the share of right ones among them
NEVER_WRONG = 0.995
ROUNDS = 30
TINY = 1e-9


class Copies(NamedTuple):
    """Pairs of annotators who copy: codes a < b, items in common, and how many of these have the same answer."""

    a: Ints
    b: Ints
    items: Ints
    same: Ints

    def voters(self, size: int) -> Ints:
        """Return the voter that each of `size` annotators is: the lowest code of those who copy each other."""
        return clusters(self.a, self.b, size)

    def describe(self, names: Sequence[str]) -> list[CopyGroup]:
        """Return a record of each cluster."""
        voter, share = self.voters(len(names)), self.same / self.items
        pairs = [np.flatnonzero(voter[self.a] == one) for one in np.unique(voter[self.a])]
        least = [of[np.argmin(share[of])] for of in pairs]
        return [
            CopyGroup(
                annotators=[names[who] for who in np.flatnonzero(voter == voter[self.a[of[0]]]).tolist()],
                items=int(self.items[pair]),
                same=int(self.same[pair]),
            )
            for of, pair in zip(pairs, least, strict=True)
        ]


def find_open_pair(records: Sequence[CopyGroup]) -> str | None:
    """Return a doubt about annotators of whom nothing says whether they copy, the records of which these are."""
    if not records:
        return None
    most = max(records, key=lambda record: record.same)
    return (
        f"{len(most.annotators)} annotators gave the same answer to {most.same:,} of {most.items:,} items in "
        "common, far more than they agree with others, and nothing here shows whether they know or copy; if they copy, "
        "more labels are wrong than stated. Have some of these items answered by others."
    )


def copied_by(names: Iterable[Any], records: Iterable[CopyGroup]) -> list[str | None]:
    """Return for each annotator those with the same answers, None where there are none."""
    of = {name: record.annotators for record in records for name in record.annotators}
    others = [[other for other in of.get(str(name), []) if other != str(name)] for name in names]
    return [", ".join(found) or None for found in others]


def find_copies(
    item: npt.ArrayLike, annotator: npt.ArrayLike, given: npt.ArrayLike, p: npt.NDArray[Any]
) -> tuple[Copies, Copies]:
    """Find pairs of annotators who agree more than their accuracies and the classes of the items allow.

    `item`, `annotator`, `given` (N,): codes of items, annotators and labels; no annotator has two answers to one item.
    `p` (n, K): probability of each class of the items by their input alone, out of sample; the same row for all without
        inputs.
    Returned: pairs who copy, and pairs of whom nothing can say whether they do.
    """
    item, who, given = (np.asarray(values).astype(np.int64) for values in (item, annotator, given))
    first, second = answer_pairs(item, who)
    swapped, size = who[first] > who[second], int(who.max(initial=0)) + 1
    first, second = np.where(swapped, second, first), np.where(swapped, first, second)
    names, pair, n = np.unique(who[first] * size + who[second], return_inverse=True, return_counts=True)
    a, b = names // size, names % size
    same = sums(pair, given[first] == given[second], len(names))
    tested = n >= FEWEST_ITEMS
    n_tested = int(np.count_nonzero(tested))
    chance = PAIR_CHANCE / max(1, n_tested)
    found = open_ = tested & _is_more(same, n, _usual_agreement(a, b, n, same, given, size), chance)
    if found.any():
        voter = clusters(a[found], b[found], size)
        near = np.unique(item[(np.bincount(voter, minlength=size) > 1)[voter[who]]])  # what candidates have answered
        rows = np.flatnonzero(np.isin(item, near))
        both = np.isin(item[first], near)
        first, second, pair = np.searchsorted(rows, first[both]), np.searchsorted(rows, second[both]), pair[both]
        item, who, given = item[rows], who[rows], given[rows]
        crowd = _Crowd(item, who, voter, given, p)
        wrong, right, against = crowd.judge_pairs(first, second)
        alike = wrong & (given[first] == given[second])
        n_wrong, n_alike, n_right, habit, evidence = (
            sums(pair, values, len(names))
            for values in (wrong, alike, right, wrong * crowd.habit(first, second), against)
        )
        others = (n_alike[tested].sum() - n_alike) / np.maximum(n_wrong[tested].sum() - n_wrong, 1)
        usual = np.maximum(habit / np.maximum(n_wrong, 1), others)
        found = found & _is_more(n_alike, n_wrong, usual, chance) & (evidence > _least_evidence(chance))
        found &= n_wrong >= FEWEST_WRONG
        open_ = open_ & ~found & (n_alike >= n_wrong * _nearly(usual)) & (n_right < HARDLY_WRONG * same)
        open_ &= (n >= OPEN_ITEMS) & (same >= OPEN_SAME * n)
    pairs = (np.flatnonzero(which) for which in (found, open_))
    copies, unknown = (Copies(a[of], b[of], n[of], same[of].astype(np.int64)) for of in pairs)
    return copies, unknown


def _usual_agreement(a: Ints, b: Ints, n: Ints, same: Floats, given: Ints, size: int) -> Floats:
    """Return the share of common items on which pairs would agree by how each of the two agrees with the others.

    If agreement beyond chance is the product of two numbers, one for each annotator, that of a and b is that of a with
    the others times that of b with the others, by that of all. Where there are no others, it is 1.
    """
    by_chance = float(np.square(np.bincount(given) / max(1, len(given))).sum())
    total = [sums(a, values, size) + sums(b, values, size) for values in (n, same)]

    def beyond_chance(same: Floats, n: Floats) -> Floats:
        return (same / np.maximum(n, 1) - by_chance) / max(1 - by_chance, TINY)

    own = [beyond_chance(total[1][who] - same, total[0][who] - n).clip(min=0.0) for who in (a, b)]
    crowd = beyond_chance(same.sum() - same, n.sum() - n).clip(min=LEAST_AGREEMENT)
    usual = by_chance + (1 - by_chance) * np.minimum(own[0] * own[1] / crowd, 1.0)
    return np.where((total[0][a] > n) & (total[0][b] > n), usual, 1.0)


def _is_more(count: Floats, n: npt.NDArray[Any], usual: Floats, chance: float) -> npt.NDArray[np.bool_]:
    """Return whether `count` of n is nearly all beside the usual share, and by chance as seldom as that."""
    from scipy.special import betainc

    least, usual = np.maximum(count, 1), np.clip(usual, TINY, 1 - TINY)
    by_chance = betainc(least, n - least + 1.0, usual)  # of at least so many
    return np.asarray((count > 0) & (count >= n * _nearly(usual)) & (by_chance < chance))


def _nearly(usual: Floats) -> Floats:
    """Return shares much closer to all than to what is usual."""
    return usual + NEARLY * (1 - usual)


def _least_evidence(chance: float) -> float:
    """Return the gain in log-likelihood by one parameter that chance exceeds so seldom."""
    from scipy.special import chdtri

    return float(chdtri(1, 2 * chance)) / 2


def clusters(a: Ints, b: Ints, size: int) -> Ints:
    """Return the lowest number of the cluster that each of `size` belongs to, if a and b are in one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = np.asarray(a, np.int32), np.asarray(b, np.int32)  # older SciPy takes no others here
    number = connected_components(coo_array((np.ones(len(a)), pairs), shape=(size, size)), directed=False)[1]
    lowest: Ints = np.unique(number, return_index=True)[1][number]
    return lowest


class _Crowd:
    """What the answers are worth and the items are, where each cluster of candidates is one voter.

    `item`, `who`, `given`, `p`: as for `find_copies`.
    `voter` (A,): of each annotator.
    """

    def __init__(self, item: Ints, who: Ints, voter: Ints, given: Ints, p: npt.NDArray[Any]):
        self.item, self.who, self.voter, self.given = item, who, voter, given
        log_p = np.log(np.maximum(p.astype(np.float64), TINY))
        self.favour = log_p - log_p.mean(0)  # how much more the input speaks for a class than inputs do on average
        votes, vote, rows = np.unique(item * len(voter) + voter[who], return_inverse=True, return_counts=True)
        self.vote, self.weight = vote, 1 / rows[vote]
        self.vote_item = votes // len(voter)
        says_something = np.ptp(self.favour, axis=0).max() > 1e-6
        seen = np.unique(item) if says_something else np.zeros(0, np.int64)
        answers = LatentClassModel(
            np.concatenate([item, seen]),
            np.concatenate([voter[who], np.full(len(seen), len(voter))]),
            np.concatenate([given, p[seen].argmax(1)]),
            np.concatenate([self.weight, np.ones(len(seen))]),
        )
        candidates = np.bincount(voter, minlength=len(voter) + 1) > 1
        self.q, likelihood = answers.fit(p.shape, len(voter) + 1)
        self.label, self.sure = self.q.argmax(1), self.q.max(1) >= SURELY
        truth = Truth.by_consensus(self.label[item], np.ones(len(item)))
        self.counts = Counts.of(who, given, truth, p.shape[1])
        self.gain = likelihood - answers.fit(p.shape, len(voter) + 1, candidates)[1]

    def judge_pairs(self, first: Ints, second: Ints) -> tuple[npt.NDArray[np.bool_], Floats, Floats]:
        """Return which pairs of answers hold a wrong one, by witnesses.

        Beside that, where both are the same, the probability that they are right, and the evidence against a pair that
        is always right then.
        """
        item = self.item[first]
        label, one, other = self.label[item], self.given[first], self.given[second]
        says = self.weight * (self.given == self.label[self.item])
        of_vote = sums(self.vote, says, len(self.vote_item))
        witnesses = sums(self.item, says, len(self.label))[item] - of_vote[self.vote[first]]
        answer = np.where(one != label, one, other)
        witnesses += self.favour[item, label] - self.favour[item, answer] > FAVOURED
        wrong = self.sure[item] & (answer != label) & (witnesses > WITNESSES - 0.5)
        return wrong, np.where(one == other, self.q[item, one], 0.0), np.where(one == other, self.gain[item], 0.0)

    def habit(self, first: Ints, second: Ints) -> Floats:
        """Return how often each of two would give the other's wrong answer to such items, the higher of both."""
        return np.maximum(self._habit(second, self.given[first]), self._habit(first, self.given[second]))

    def _habit(self, row: Ints, answer: Ints) -> Floats:
        """Return how often the annotator of a row gives an answer to other items of the class; 0 for the class."""
        who, label = self.who[row], self.label[self.item][row]
        of_class, nobody = self.counts.per("true", "given"), np.zeros_like(row)
        usual = of_class.number(nobody, label, answer) / of_class.by_class()[0][label]
        count = self.counts.number(who, label, answer) - (self.given[row] == answer)
        n = self.counts.per("who", "true").number(who, label, nobody)
        share = (count + CROWD_ANSWERS * usual) / (n - 1 + CROWD_ANSWERS)
        return np.where(answer == label, 0.0, share)


class LatentClassModel:
    """A latent class model of answers to items: an accuracy for each voter, and confusions that all share."""

    def __init__(self, item: Ints, voter: Ints, given: Ints, weight: Floats):
        order = np.argsort(item, kind="stable")
        self.item, self.voter, self.given, self.weight = item[order], voter[order], given[order], weight[order]
        self.items, self.starts = np.unique(self.item, return_index=True)

    def fit(
        self, shape: tuple[int, ...], n_voters: int, never_wrong: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Floats, Floats]:
        """Return the posterior (n, K) of all items, and the log-likelihood of the answers to each.

        `shape` (n, K).
        `never_wrong` (n_voters,): voters who are taken to be right.
        """
        from scipy.sparse import csr_array

        (n, k), rows, w = shape, np.arange(len(self.item)), self.weight
        says = csr_array((w, (self.given, rows)), shape=(k, len(rows)))
        q, likelihood = np.full((n, k), 1 / k), np.zeros(n)
        q[self.items] = np.add.reduceat(w[:, None] * np.eye(k)[self.given] + 0.1 / k, self.starts)
        q /= q.sum(1, keepdims=True)
        for _ in range(ROUNDS):
            right = sums(self.voter, w * q[self.item, self.given], n_voters)
            accuracy = (right + BEGUN * RIGHT) / (sums(self.voter, w, n_voters) + BEGUN)
            if never_wrong is not None:
                accuracy[never_wrong] = NEVER_WRONG
            confusion = (says @ q[self.item]).T + 1 / k  # of true and given class
            np.fill_diagonal(confusion, 0.0)
            confusion /= np.maximum(confusion.sum(1, keepdims=True), TINY)
            log_p = np.log(np.maximum((1 - accuracy[self.voter])[:, None] * confusion.T[self.given], TINY))
            log_p[rows, self.given] = np.log(accuracy[self.voter])
            joint = np.log(q[self.items].mean(0)) + np.add.reduceat(w[:, None] * log_p, self.starts)
            likelihood[self.items] = np.logaddexp.reduce(joint, axis=1)
            q[self.items] = np.exp(joint - likelihood[self.items, None])
        return q, likelihood
