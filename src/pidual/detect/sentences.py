"""Put what a run or a judgement found into sentences: for the terminal, the report and progress.

What they are made of is the summary of a run, or a part of it, and counts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..data.pi.encoder import short_name
from ..run.records.config import Config, Event
from ..run.records.summary import (
    CopyGroup,
    Detection,
    Evaluation,
    FromRun,
    GoldEstimates,
    PIDirection,
    PIWorth,
    Rate,
    Summary,
    Verdict,
)
from .gold.calibrator import LEAST_GOLD

UNKNOWN = "–"
MOST_SHARES = 5  # classes of which the shares are said
FEW_HELD_OUT = 300  # items, on which a difference of a few points does not stand out
DEFAULT = "latent_truth"  # whose own scores nobody needs to know about
VERDICTS = {"failed": "Do not use this result: the fit failed.", "doubtful": "Do not rely on this result alone."}
KERNELS = {"linear": "a linear rule", "gauss": "similar items", "relu": "a rule with bends"}


def count(value: float | None) -> str:
    """Return a whole number as text."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{round(value):,}"


def percent(share: float | None) -> str:
    """Return a share with one decimal; "0%" and "100%" are exact."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "under 0.1%" if share < 0.5 else "over 99.9%"
    return f"{100 * share:.0f}%" if share in (0, 1) else f"{100 * share:.1f}%"


def whole_percent(share: float) -> str:
    """Return a share in whole per cent; "0%" and "100%" are exact."""
    if 0 < share < 0.005 or 0.995 <= share < 1:
        return "under 1%" if share < 0.5 else "over 99%"
    return f"{share:.0%}"


def between(low: float | None, high: float | None) -> str:
    """Return an interval of shares, or nothing where it is not known."""
    return "" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def _ends_in_percent(low: float | None, high: float | None) -> list[str]:
    """Return both ends of an interval of shares; none where it is unknown, or all of it is over 99%."""
    return [] if low is None or high is None or low >= 0.995 else [whole_percent(low), whole_percent(high)]


def _share_between(found: Rate, digits: int) -> str:
    """Return a share with its interval."""
    return f"{found.rate:.{digits}%} ({found.low:.{digits}%} to {found.high:.{digits}%})"


def duration(seconds: float) -> str:
    """Return seconds in the unit that people would take."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h"


def describe_epoch(record: Mapping[str, Any]) -> str:
    """Describe an epoch in a few words."""
    words = [record["stage"]] if "stage" in record else []
    words.append(f"loss {record['loss']:.3f}")
    if "gate" in record:
        words.append(f"gate {record['gate']:.2f}")
    if "valid_accuracy" in record:
        words.append(f"noisy validation {record['valid_accuracy']:.1%}")
    return ", ".join(words)


def describe_run(config: Config, summary: Summary) -> list[str]:
    """Describe what a run found, in lines for a terminal."""
    data, verdict, consensus = config.data, summary.verdict, summary.consensus
    restarts = _describe_restarts(summary.guard.events)
    if verdict.status == "failed":
        return [*_describe_verdict(verdict), *restarts]
    spread = f"{consensus.low:.1%} to {consensus.high:.1%}"
    sets = summary.label_sets
    what = f"{data.n_rows:,} labels of" if sets is None else f"{data.n_rows:,} sets of {sets.n_classes:,} classes for"
    of = "the labels" if sets is None else f"{sets.n_rows:,} answers about classes that some set has, or may miss"
    judged = "items" if sets is None else "pairs of item and class"
    lines = [
        *_describe_verdict(verdict),
        *_describe_note(summary),
        f"{what} {data.n_items:,} items; {summary.n_issues:,} look wrong{describe_precision(summary.detection)}",
        f"Estimated noise: {summary.noise.rate:.1%} of {of} ({summary.noise.low:.1%} to {summary.noise.high:.1%}).",
        f"Consensus: right for {consensus.accuracy:.1%} of the {judged} ({spread}).",
    ]
    if summary.gold is not None:
        lines += describe_gold(summary.gold)
    if summary.from_run is not None:
        lines += describe_decisions(summary.from_run)
    if summary.valid_accuracy is not None:
        lines.append(f"Agreement with held-out noisy labels: {summary.valid_accuracy:.1%}.")
    if summary.pi_worth:
        lines.append(describe_worth(summary.pi_worth))
    if summary.evaluation is not None:
        partly = (summary.evaluation.n_items or 0) < data.n_items
        lines += _describe_evaluation(summary.evaluation, own_scores=config.method != DEFAULT, partly=partly)
    told = [describe_direction(each) for each in (summary.pi_directions or [])[:1] if each.tells]
    return [*lines, *told, *_describe_votes(summary), *_describe_choice(summary, kernels=False), *restarts]


def _describe_verdict(verdict: Verdict) -> list[str]:
    """Describe the verdict on a fit: nothing where it is ok."""
    if verdict.status == "ok":
        return []
    return [VERDICTS[verdict.status], *(f"- {reason}" for reason in verdict.reasons)]


def _describe_note(summary: Summary) -> list[str]:
    """Describe what gold contradicts, where that is no reason for doubt."""
    text = describe_contradiction(summary.gold)
    return [] if text is None or text in summary.verdict.reasons else [text]


def describe_precision(found: Detection) -> str:
    """Describe how many of the labels that look wrong should be; nothing where none does."""
    if found.expected_precision is None:
        return "."
    ends = _ends_in_percent(found.precision_low, found.precision_high)
    interval = f" ({' to '.join(ends)})" if ends else ""
    return f", of which {whole_percent(found.expected_precision)} are expected to be{interval}."


def _describe_evaluation(found: Evaluation, *, own_scores: bool, partly: bool) -> list[str]:
    """Describe how well a fit went by clean labels, with the method's own scores where asked for.

    `partly`: whether only some items have such a label, so that they can say more as known classes.
    """
    shown = {"test accuracy": found.test_accuracy, "detection AUC": found.detection_auc}
    if own_scores:
        shown |= {f"{name.replace('_', ' ')} AUC": auc for name, auc in found.score_auc.items()}
    known = [f"{title} {value:.4f}" for title, value in shown.items() if value is not None]
    lines = [f"Against clean labels: {', '.join(known)}."] if known else []
    if found.consensus_accuracy is not None and found.n_items:
        right = round(found.consensus_accuracy * found.n_items)
        items = "item" if found.n_items == 1 else "items"
        use = " They only measure; as known classes (--truth) they correct all numbers." if partly else ""
        lines.append(f"Of {found.n_items:,} checked {items} the consensus is right for {right:,}.{use}")
    return lines


def _describe_restarts(events: Sequence[Event]) -> list[str]:
    """Describe how often training had to begin again, and which networks were left out; the report says why."""
    again = sum(event.action.startswith("started again") for event in events)
    times = "once" if again == 1 else f"{again} times"
    others = [event for event in events if event.action == "left them out"]
    return [
        *([f"Training collapsed and was started again {times} with a smaller learning rate."] if again else []),
        *(f"Training: {event.reason}, and were left out." for event in others),
    ]


def _describe_votes(summary: Summary) -> list[str]:
    """Describe how many independent ones the answers to an item count as, where they are several, and by what."""
    votes, answers = summary.consensus.votes, summary.consensus.answers
    if answers < 1.05:
        return []
    why = ": people may make the same mistakes." if summary.gold is None else ", by your checked items."
    return [f"{answers:.1f} answers to an item count as {votes:.1f} independent ones{why}"]


def describe_direction(found: PIDirection) -> str:
    """Describe which way a value of a PI column moves answers, in a sentence."""
    column, label = short_name(found.column), short_name(found.label)
    way = "more" if found.difference >= 0 else "less"
    points = [100 * math.copysign(1, found.difference) * end for end in (found.difference_low, found.difference_high)]
    moved = f"{100 * abs(found.difference):.0f}"
    return (
        f"Answers with {column} {short_name(found.value)}: '{label}' {moved} point{'' if moved == '1' else 's'} {way} "
        f"often than their items deserve (95%: {min(points):.0f} to {max(points):.0f}), compared with {column} "
        f"{short_name(found.against)}."
    )


def _describe_choice(summary: Summary, *, kernels: bool) -> list[str]:
    """Describe what was found out from the inputs (and by which kernels), and how many items seem to mislead."""
    if not summary.model_selection:
        return []
    found, sentences = summary.model_selection[0], []
    if found.explained is not None and found.kernels:
        by = max(found.kernels, key=found.kernels.__getitem__)
        mostly = f", mostly by {KERNELS.get(by, by)}" if kernels else ""
        sentences.append(f"The inputs explain {found.explained:.0%} of what the answers agree on{mostly}.")
    if rate := found.misleading_rate:
        sentences.append(
            f"About {rate:.0%} of the items seem to mislead: most answers to them agree on a class that is wrong. "
            "There the input counts for more than the majority."
        )
    return sentences


def describe_decisions(about: FromRun) -> list[str]:
    """Describe what decisions of reviewers on the run before have changed."""
    unsure = f" ({about.n_unsure:,} undecided)" if about.n_unsure else ""
    n, others = about.n_consensus_changed, about.n_others_changed
    (issues, now), (rate, rate_now) = about.n_issues, about.noise_rate
    decisions, were = ("decision", "was") if about.n_decisions == 1 else ("decisions", "were")
    used = (
        f"{about.n_decisions:,} {decisions} on {about.run} {were} used{unsure}: the consensus of {n:,} "
        f"{'item' if n == 1 else 'items'} changed, {others:,} of which nobody looked at; labels that look wrong "
        f"{issues:,} -> {now:,}, estimated noise {rate:.1%} -> {rate_now:.1%}."
    )
    return (
        [used] if about.calibration is None else [used, describe_calibration(replace(about.calibration, cutoff=None))]
    )


def describe_few_gold(n: int) -> str:
    """Describe that items of known class are too few to correct anything."""
    return (
        f"{n} checked {'item' if n == 1 else 'items'}; with {LEAST_GOLD - n} more they correct what is stated of all."
    )


def describe_gold(found: GoldEstimates) -> list[str]:
    """Describe what checked items say about all: the consensus, labels, and the shares of a few classes."""
    sentences = [
        f"By your {found.n_gold:,} checked items the consensus is right for {_share_between(found.accuracy, 1)} of the "
        f"others; before: {found.stated_accuracy:.1%}.",
        f"Of the labels, {_share_between(found.noise, 1)} are wrong; before: {found.stated_noise:.1%}.",
    ]
    if 0 < len(found.shares) <= MOST_SHARES:
        shares = ", ".join(f"{each.label} {_share_between(each, 1)}" for each in found.shares)
        sentences.append(f"Shares of the items by class: {shares}.")
    return sentences


def describe_contradiction(found: GoldEstimates | None) -> str | None:
    """Describe what gold contradicts; None where it contradicts nothing."""
    if found is None or not found.contradicted:
        return None
    parts = [
        f"{what} {_share_between(now, 1)}, not {said:.1%} as stated before"
        for what, now, said in (
            ("the consensus is right for", found.accuracy, found.stated_accuracy),
            ("the share of wrong labels is", found.noise, found.stated_noise),
        )
        if not now.low <= said <= now.high
    ]
    return f"By your {found.n_gold:,} checked items {', and '.join(parts)}; all numbers here follow them."


def describe_calibration(found: GoldEstimates) -> str:
    """Describe what decisions of reviewers say about all labels, and the list that they lead to."""
    parts = [f"{_share_between(found.noise, 1)} of all labels are wrong"]
    if found.precision is not None:
        parts.append(f"{_share_between(found.precision, 0)} of those that looked wrong")
    parts.append(f"the consensus is right for {_share_between(found.accuracy, 1)} of the items")
    said = f"By decisions on {found.n_gold:,} items: {', '.join(parts)}."
    if found.cutoff is None:
        return said
    return f"{said} --cutoff reviewed lists the {found.n_issues or 0:,} labels below {found.cutoff:.2g}."


def describe_list(n: int, precision: float | None, stated: Detection | None, *, resting: bool) -> str | None:
    """Describe a list of n labels: how many of them should be wrong, or None where that is not known.

    `stated` has the range of the precision, where it is known; `resting` says that these labels rest on their own
    answer.
    """
    listed = f"{n:,} {'label' if n == 1 else 'labels'} listed"
    if resting:  # their quality is no more certain than their consensus
        return f"{listed} that the consensus confirms, but only by their own answer."
    if precision is None:
        return None
    ends = [] if stated is None else _ends_in_percent(stated.precision_low, stated.precision_high)
    interval = f" (between {' and '.join(ends)})" if ends else ""
    return f"{listed}; {describe_expected(precision)} expected to be wrong{interval}."


def describe_expected(share: float) -> str:
    """Describe an estimated share."""
    text = whole_percent(share)
    if text in ("0%", "100%"):
        return "none" if share < 0.5 else "all"
    return text if text.startswith(("over", "under")) else f"about {text}"


def describe_worth(found: Sequence[PIWorth]) -> str:
    """Describe what PI was worth, by a fit with shuffled PI."""
    said = ", and ".join(
        f"{each.own:.1%} agreement with {each.what}, {each.shuffled:.1%} with PI shuffled (95% interval of the "
        f"difference: {100 * each.difference_low:+.1f} to {100 * each.difference_high:+.1f} points)"
        for each in found
    )
    n, helped = found[0].n_items, any(each.difference_low > 0 for each in found)
    end = "so PI helped" if helped else "so this does not show that PI helped"
    few = f" ({n:,} items are few)" if not helped and n < FEW_HELD_OUT else ""
    return f"What PI was worth, on {n:,} held-out items: {said}; {end}{few}."


def describe_copies(record: CopyGroup) -> str:
    """Describe a cluster of annotators who copy each other, a record of `Copies.describe`."""
    names, n = record.annotators, len(record.annotators)
    who = " and ".join(names) if n == 2 else f"{', '.join(names[:3])}{'' if n == 3 else f' and {n - 3} more'}"
    some = "" if n == 2 else "at least "
    return (
        f"{who} gave the same answers, wrong ones too, to {some}{record.same:,} of {record.items:,} items in "
        "common; they count as one voter."
    )


def explain_result(
    summary: Summary, n: int, n_issues: int, n_resting: int, checked: tuple[int, int] | None
) -> list[str]:
    """Explain the result to a reader of the report.

    `n`, `n_issues`, `n_resting`: labels, those that look wrong, and those that rest on their own answer.
    `checked`: of the labels that look wrong, those that are known to be, and those for which it is known.
    """
    accuracy = summary.valid_accuracy
    of = "all labels" if summary.label_sets is None else "the judged labels"
    noise = _explain_noise(n, n_issues, n_resting, summary.noise.rate, summary.detection.expected_precision, of)
    found = [*_describe_note(summary), noise]
    if (sets := summary.label_sets) is not None:
        found.append(
            f"A label is what a set says about one class. Judged are {count(sets.n_rows)} of these: about classes that "
            f"some set of the item has, or may miss. Of the other {count(sets.n_left_out)}, about "
            f"{count(sets.expected_missing)} should have the class."
        )
    if summary.gold is not None:
        found += describe_gold(summary.gold)
    if summary.from_run is not None:
        found.append(_explain_decisions(summary.from_run))
    if accuracy is not None:
        found.append(
            f"On labels held out from training, the model agrees with the given label {percent(accuracy)} of the time. "
            "Those labels contain mistakes too, so even a perfect model would not reach 100% here."
        )
    if summary.pi_worth:
        found.append(describe_worth(summary.pi_worth))
    if checked is not None:
        found.append(
            f"According to clean labels, used for checking only, {count(checked[0])} of the {count(checked[1])} "
            "flagged labels that can be checked really are wrong."
        )
    return [*found, *_describe_votes(summary), *_describe_choice(summary, kernels=True)]


def _explain_decisions(about: FromRun) -> str:
    """Explain what reviewers decided on the run before."""
    measured = ""
    if about.calibration is not None:
        noise = about.calibration.noise
        measured = f" By these, {percent(noise.rate)} of all labels are wrong ({between(noise.low, noise.high)})."
    return (
        f"{count(about.n_decisions)} decisions of reviewers were used; the consensus of "
        f"{count(about.n_others_changed)} items that nobody looked at changed with them.{measured}"
    )


def _explain_noise(n: int, n_issues: int, n_resting: int, noise: float, precision: float | None, of: str) -> str:
    """Explain how many labels are wrong, and how many of these are listed."""
    expected = round(noise * n)
    start = f"An estimated {percent(noise)} of {of} are wrong, about {count(expected)} of them."
    if not expected:
        return "By the model's estimate, hardly any label is wrong."
    if precision is not None and n_issues:
        hits, rest = precision * n_issues, ""
        if n_resting:
            one = n_resting == 1
            alone = f"{'is' if one else 'are'} the consensus only because of {'itself' if one else 'themselves'}"
            look = f"look at {'it' if one else 'them'} next (`pidual detect RUN --resting`)"
            rest = f" Of the others, {count(n_resting)} {alone}; {look}."
        elif expected - hits > 0.1 * expected:
            rest = f" Some {count(expected - hits)} more are not flagged because they do not stand out."
        return f"{start} Of the {count(n_issues)} flagged labels, about {count(hits)} should really be wrong.{rest}"
    if n_issues > 1.25 * expected:
        return f"{start} More are flagged, so expect some of the flagged labels to be right."
    if n_issues < 0.8 * expected:
        return f"{start} Fewer are flagged: those that stand out most."
    return f"{start} The flagged ones are the most likely."
