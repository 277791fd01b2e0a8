"""What summary.json holds: what came out of a run."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from msgspec import Meta, field

from .config import Event
from .reading import AtLeast0, Count, Label, Number, Record, Seconds, Share

Difference = Annotated[float, Meta(ge=-2, le=2)]
Kappa = Annotated[float, Meta(ge=-1e6, le=1 + 1e-6)]
Shares = Annotated[list[Share], Meta(max_length=10_000)]


class Cutoff(Record, frozen=True):
    """How issues are separated from the rest: labels with a quality below `value` are issues; `note` is a sentence."""

    kind: Literal["auto"]
    value: Share
    note: str


class Verdict(Record, frozen=True):
    """What a run says about itself.

    Its reasons are sentences, the most serious first; a run that is ok has none.
    """

    status: Literal["ok", "doubtful", "failed"]
    reasons: list[str]

    @classmethod
    def of(cls, failures: Iterable[str | None], doubts: Iterable[str | None]) -> Self:
        """Return the verdict by reasons, of which some may not apply."""
        failed, doubtful = ([reason for reason in reasons if reason] for reasons in (failures, doubts))
        return cls(status="failed" if failed else "doubtful" if doubtful else "ok", reasons=failed + doubtful)


class Rate(Record, frozen=True):
    """A share with the interval that may be stated."""

    rate: Share
    low: Share
    high: Share


class Consensus(Record, frozen=True):
    """How often the consensus is stated to be right, with its range, and what the answers to an item count as."""

    accuracy: Share
    low: Share
    high: Share
    votes: AtLeast0
    answers: AtLeast0


class Findings(Record, frozen=True):
    """What looking at the first n labels, issues first and then by quality, is expected to find."""

    n: Count
    expected_wrong: AtLeast0
    precision: Share


class ClassFindings(Record, frozen=True):
    """Labels given, issues, and labels expected to be wrong, of a class."""

    label: Label | float | bool = field(name="class")
    given: Count
    issues: Count
    expected_wrong: AtLeast0


class Detection(Record, frozen=True):
    """What the issues are expected to hold, without an interval where there is no issue."""

    expected_precision: Share | None
    precision_low: Share | None
    precision_high: Share | None
    curve: list[Findings]
    classes: list[ClassFindings]


class Guard(Record, frozen=True):
    """What the guard of training did."""

    recovered: bool
    collapsed: bool
    events: list[Event]


class LabelSetsLeftOut(Record, frozen=True):
    """Of answers that are sets of labels: the numbers of classes and of rows, and the rows that are not kept.

    `n_left_out` answers leave a class out that no answer to the item has, and nothing speaks for; `expected_missing` of
    them should have it.
    """

    n_classes: Count
    n_rows: Count
    n_left_out: Count
    expected_missing: Number


class AnswerChoice(Record, frozen=True):
    """What held-out answers decided where the answer model is worked out.

    Of inputs: the weight of each kind of kernel, and the share of what answers agree on that inputs explain.
    """

    tau: Number
    sharpness: Number
    answer_log_likelihood: Number
    misleading_rate: Share | None = None
    misleading_follow: Share | None = None
    kernels: dict[str, Number] = field(default_factory=dict)
    explained: Share | None = None


class Evaluation(Record, frozen=True):
    """How well it went by clean labels of `n_items`; `score_auc` is of the method's own scores. Null: not defined."""

    noise_rate: Share | None
    detection_auc: Share | None
    gate_auc: Share | None
    score_auc: dict[str, Share | None]
    issue_precision: Share | None
    issue_recall: Share | None
    consensus_accuracy: Share | None
    test_accuracy: Share | None
    n_items: Count | None = None


class PIEffect(Record, frozen=True):
    """How likely an answer is right at two values of a PI column, and whether it indicates wrong answers (`tells`)."""

    column: str
    low: float | str
    high: float | str
    right_at_low: Share
    right_at_high: Share
    difference: Difference
    difference_low: Difference
    difference_high: Difference
    tells: bool


class PIDirection(Record, frozen=True):
    """How much more often answers with one value of a PI column say a class than their items deserve, against another.

    It rests on `n_gold` items of known class, or on the consensus where there are none; `tells`: beyond chance.
    """

    column: str
    value: str
    against: str
    label: Label | float | bool = field(name="class")
    difference: Difference
    difference_low: Difference
    difference_high: Difference
    n_gold: Count
    tells: bool


class PIProblem(Record, frozen=True):
    """What is wrong with a PI column."""

    column: str
    problem: str
    text: str


class AgreeingPair(Record, frozen=True):
    """Cohen's kappa of two annotators on the items that both answered."""

    a: str
    b: str
    kappa: Kappa
    items: Count


class Agreement(Record, frozen=True):
    """Krippendorff's alpha with its interval, and kappa of pairs of annotators."""

    alpha: Kappa
    alpha_low: Kappa
    alpha_high: Kappa
    mean_kappa: Kappa | None
    pairs: list[AgreeingPair]


class CopyGroup(Record, frozen=True):
    """Annotators who copy each other; items and same are of the two of them who agree least."""

    annotators: Annotated[list[str], Meta(min_length=2)]
    items: Count
    same: Count


class ConfusedPair(Record, frozen=True):
    """How often a class is given in place of another: expected number, and share of the answers to the true one."""

    true: str
    given: str
    count: AtLeast0
    share: Share


class Classes(Record, frozen=True):
    """How people label the classes: P(given | true) of at most 20, frequent mistakes, and what to do about them."""

    names: list[str]
    pairs: list[ConfusedPair]
    advice: list[str]
    transitions: list[Shares] | None = None

    def __post_init__(self) -> None:
        if self.transitions is not None and {len(self.transitions), *map(len, self.transitions)} != {len(self.names)}:
            raise ValueError("must have a row and a column of transitions for each of its names")


class ClassShare(Rate, frozen=True):
    """The share of items of a class, with its interval."""

    label: Label | float | bool = field(name="class")


class GoldEstimates(Record, frozen=True):
    """What items of known class (gold) say about all items, with 95% intervals.

    Parameters
    ----------
    n_gold : int
        Items of known class.
    sharpness : float
        By which the votes that the answers count as are multiplied; `votes` are so multiplied.
    noise, accuracy : Rate
        Share of wrong labels, and of the items without a known class whose consensus is right.
    shares : list of ClassShare
        Of the items, by class.
    stated_noise, stated_accuracy : float
        What is stated without gold.
    contradicted : bool
        Whether the interval of one of them excludes that.
    precision, cutoff, n_issues
        Of decisions of reviewers on a finished run: share of wrong labels among those that look wrong, the quality
        below which labels should be called wrong, and how many are.
    """

    n_gold: Count
    sharpness: Number
    votes: AtLeast0
    noise: Rate
    accuracy: Rate
    shares: list[ClassShare]
    stated_noise: Share
    stated_accuracy: Share
    contradicted: bool
    precision: Rate | None = None
    cutoff: Share | None = None
    n_issues: Count | None = None

    @property
    def holds_accuracy(self) -> bool:
        """Whether the interval of the accuracy holds what is stated without gold."""
        return self.accuracy.low <= self.stated_accuracy <= self.accuracy.high


class FromRun(Record, frozen=True):
    """What the decisions on a run were, and what they have changed; pairs are of before and after."""

    run: str
    calibration: GoldEstimates | None
    n_decisions: Count
    n_unsure: Count
    n_wrong: Count
    n_consensus_changed: Count
    n_others_changed: Count
    n_issues: tuple[Count, Count]
    noise_rate: tuple[Share, Share]


class PIWorth(Record, frozen=True):
    """How often a classifier agrees with `what` of held-out items: with PI as it is, and with shuffled PI."""

    what: str
    n_items: Count
    own: Share
    shuffled: Share
    difference: Difference
    difference_low: Difference
    difference_high: Difference


class Judged(Record, frozen=True):
    """What is said about labels, however they were judged.

    Parameters
    ----------
    n_issues : int
        number of labels that look wrong
    cutoff : Cutoff
        `kind` and `value` of the cut-off, and a `note` on how it was chosen
    verdict : Verdict
        `status` (`ok`, `doubtful` or `failed`) and `reasons`, a list of sentences
    noise : Rate
        estimated share of wrong labels: `rate`, with its range `low` to `high`
    estimated_noise_rate : float
        the same as `noise.rate`
    detection : Detection
        expected precision of the list, of each class, and of the first n labels
    """

    n_issues: Count
    cutoff: Cutoff
    verdict: Verdict
    noise: Rate
    estimated_noise_rate: Share
    detection: Detection


class Summary(Judged, frozen=True):
    """The results, in one object. Fields that a run has no value for are null or left out.

    Parameters
    ----------
    format : int
        number of the file format
    selected_epoch : int
        epoch of the weights that predict, counted from 0
    valid_accuracy : float
        agreement with noisy held-out labels
    seconds : float
        time of training
    guard : Guard
        whether training collapsed and was restarted, with `events`
    model_selection : list of AnswerChoice
        what held-out answers decided
    warnings : list of str
        warnings of the run, as sentences
    evaluation : Evaluation
        accuracy, AUC and others by clean labels, if these were given
    consensus : Consensus
        how often the consensus is right, `accuracy` from `low` to `high`, and how many `votes` the `answers` to an item
        count as
    classes : Classes
        confusions of classes, and `advice`
    pi_health : list of PIProblem
        problems of PI columns: `column`, `problem`, `text`
    pi_effects : list of PIEffect
        how the chance of a right answer depends on each PI column
    pi_directions : list of PIDirection
        which classes answers say more often than their items deserve, by PI column; null with more than 20 classes
    agreement : Agreement
        Krippendorff's alpha and kappas of annotators
    copies : list of CopyGroup
        clusters of annotators who copy each other, with items in common and same answers
    gold : GoldEstimates
        what items of known class say about all, from 20 of them on
    label_sets : LabelSetsLeftOut
        where answers are sets of labels: number of classes, and rows that are not kept
    from_run : FromRun
        of `fit --from`: the decisions used and what they changed
    pi_worth : list of PIWorth
        of `fit --control`: what PI was worth to the classifier, by held-out items
    seconds_total : float
        time of the whole run
    run_id : str
        digest of method, options and data
    digests : dict
        digest of every other result file
    digest : str
        digest of this file
    """

    format: int
    selected_epoch: Count
    valid_accuracy: Share | None
    seconds: Seconds
    guard: Guard
    model_selection: list[AnswerChoice]
    warnings: list[str]
    evaluation: Evaluation | None
    consensus: Consensus
    classes: Classes
    pi_health: list[PIProblem]
    pi_effects: list[PIEffect] | None = None
    pi_directions: list[PIDirection] | None = None
    agreement: Agreement | None = None
    copies: list[CopyGroup] = field(default_factory=list)
    gold: GoldEstimates | None = None
    label_sets: LabelSetsLeftOut | None = None
    from_run: FromRun | None = None
    pi_worth: list[PIWorth] | None = None
    seconds_total: Seconds | None = None
    run_id: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    digest: str = ""
