"""What the columns of a run's Parquet files are called, mean and hold: what writes, checks and documents them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a Parquet file of ours."""

    # "label", "name", "share", "number", "count", "flag", "text" or "png": a class; a category of any values; a number
    # in [0, 1]; a finite number; a whole number of at least 0; true or false; text; an image
    kind: str
    meaning: str  # what it says, for docs/run_directory.md
    required: bool = True  # whether every such file has it
    missing: bool = False  # whether values may be missing


def _with_interval(kind: str, **meanings: str) -> dict[str, Column]:
    """Return columns that not every run has, each followed by the ends of its interval."""
    ends = {"": "", "_low": "lower end of the 95% interval of ", "_high": "upper end of the 95% interval of "}
    return {
        f"{name}{end}": Column(kind, f"{words}{f'`{name}`' if end else meaning}", required=False, missing=True)
        for name, meaning in meanings.items()
        for end, words in ends.items()
    }


PREDICTIONS_COLUMNS = {
    "row": Column("count", "number of the answer, counted from 0: its row in the table, if no row was skipped"),
    "table_row": Column(
        "count", "row of the table, counted from 0; only if rows without an answer were skipped", required=False
    ),
    "item": Column("name", "name of the item"),
    "tagged_item": Column("name", "the item alone; only where answers are sets of labels", required=False),
    "tag": Column("name", "the class that the row is about; only where answers are sets of labels", required=False),
    "annotator": Column("name", "who gave the label: a pseudonym, or the id with `--keep-ids`", required=False),
    "given_label": Column("label", "the label in the table"),
    "predicted_label": Column("label", "most likely class by the classifier, from the input alone"),
    "predicted_probability": Column("share", "its probability"),
    "consensus_label": Column("label", "most likely class of the item by the posterior; replaces a wrong label"),
    "consensus_quality": Column("share", "its probability"),
    "label_quality": Column(
        "share",
        "probability that the given label is right, given the input and all answers to the item, with the label "
        "itself counted half ([why](detection.md#which-score)); low = likely wrong",
    ),
    "given_probability": Column("share", "the classifier's probability of the given label", required=False),
    "given_margin": Column(
        "number", "log of its ratio to the probability of the most likely other class", required=False
    ),
    "is_label_issue": Column(
        "flag",
        "whether the label looks wrong: its quality is below the cut-off, and it does not rest on its own answer",
    ),
    "rests_on_own_answer": Column(
        "flag",
        "whether its quality is below the cut-off, but the consensus of several answers, for which it counts in "
        "full, is the label itself; not counted as wrong ([why](detection.md#labels-that-rest-on-one-answer))",
    ),
    "gate": Column(
        "share",
        "high = likely wrong: Pi-DUAL's gate, or, for a method that judges items, the probability that the answer "
        "does not come from the true class",
        required=False,
    ),
    "noise_label": Column("label", "the label that the noise network predicts from PI", required=False),
    "split": Column("name", "`train`, `valid` or `test`"),
    "y": Column("label", "clean label, if given; for evaluation only", required=False, missing=True),
    "reason": Column(
        "text",
        "why the label looks wrong, or rests on its own answer, in sentences ([what is "
        "reported](run_directory.md#when-something-is-reported)); with more than 200,000 labels below the cut-"
        "off, for those of lowest quality",
    ),
    "reason_label": Column("text", "part of the reason: the class suggested instead", required=False),
    "reason_votes": Column("text", "part of the reason: the other labels of the item", required=False),
    "reason_annotator": Column("text", "part of the reason: this annotator on this class", required=False),
    "reason_pair": Column("text", "part of the reason: how often these two classes are confused", required=False),
    "reason_pi": Column("text", "part of the reason: unusual PI", required=False),
}
_ORDINALS = ("most likely", "second most likely", "third most likely", "fourth most likely", "fifth most likely")
TOP_LABELS = {f"top_{n}": Column("label", f"{word} class", required=False) for n, word in enumerate(_ORDINALS, 1)}
ITEMS_COLUMNS = {
    **{name: PREDICTIONS_COLUMNS[name] for name in ("item", "consensus_label", "consensus_quality")},
    "num_annotations": Column("count", "number of labels of the item"),
    "predicted_label": PREDICTIONS_COLUMNS["predicted_label"],
    "annotator_agreement": Column("share", "share of its labels that equal the consensus"),
    **TOP_LABELS,
    **{f"{name}_probability": Column("share", "its probability", required=False) for name in TOP_LABELS},
}  # and of up to 20 classes p_<class>
ANNOTATORS_COLUMNS = {
    "annotator": Column("name", "who gave the label: a pseudonym, or the id with `--keep-ids`"),
    "annotator_quality": Column(
        "share",
        "mean probability that their labels are right, with two prior labels of the crowd's quality; by gold where the "
        "run has enough (`summary.gold`)",
    ),
    "quality_low": Column(
        "share",
        "lower end of its 95% interval (of Beta distributions, with answers counted half, and in full at the most that "
        "may be stated; or by gold)",
    ),
    "quality_high": Column("share", "upper end of its 95% interval"),
    "num_labelled": Column("count", "number of their labels"),
    "no_answers": Column(
        "count",
        "number of their rows with a label that means no answer (`--no-answer`), left out elsewhere",
        required=False,
    ),
    "num_issues": Column("count", "how many of them look wrong"),
    "worst_class": Column(
        "label",
        "true class on which they are right least often, among classes with at least 5 items and a mistake",
        missing=True,
    ),
    "favourite_label": Column(
        "label",
        "label they give more often than the crowd does to items with the same consensus; only if beyond chance",
        required=False,
        missing=True,
    ),
    "favourite_excess": Column(
        "share", "how much more often, as a share of their labels", required=False, missing=True
    ),
    "worst_confusion": Column("text", "their most frequent mistake, as `dog -> cat`", required=False, missing=True),
    "worst_confusion_share": Column("share", "its share of the items of the first class", required=False, missing=True),
    "mean_gate": Column("share", "mean gate of their labels", required=False),
    "harm": Column(
        "number",
        "sorts the table: number of wrong labels that the others would not have given to the same items; a "
        "mistake on a class k times rarer than the average class counts k times. The lower end of its interval, "
        "so that annotators with few labels do not come first by chance; 0 = no worse than the others, or unknown",
    ),
    "expected_wrong": Column("number", "expected number of wrong labels"),
    "worst_class_accuracy": Column(
        "share",
        "how often they are right on it, with two prior labels of the others' accuracy",
        required=False,
        missing=True,
    ),
    "agreement": Column(
        "number",
        "kappa with all others who labelled the same items, with five prior pairs of the crowd's; missing if "
        "nobody did",
        required=False,
        missing=True,
    ),
    "median_seconds": Column("number", "median of the PI column that is a duration", required=False, missing=True),
    "copies": Column(
        "text",
        "annotators who gave [the same answers, wrong ones too](what_can_go_wrong.md#annotators-who-copy-each-"
        "other); together they count as one voter",
        required=False,
        missing=True,
    ),
    **_with_interval("number", gold_kappa="Cohen's kappa with the truth, by items of known class"),
    "order_pairs": Column("count", "pairs of their answers to one item shown in two orders", required=False),
    **_with_interval("share", order_agreement="share of these pairs in which both answers are the same"),
    "order_favours": Column(
        "text", "class that depends most on the order, as `pass when first`", required=False, missing=True
    ),
    **_with_interval("number", order_shift="how much more often they say it then than in the other order"),
}
ANNOTATOR_CLASSES_COLUMNS = {
    "annotator": Column("name", "who gave the label: a pseudonym, or the id with `--keep-ids`"),
    "true_class": Column("label", "true class, by the consensus"),
    "num_items": Column("number", "expected number of items of this class that they labelled, where it is at least 1"),
    "accuracy": Column("share", "how often they are right on it, with two prior labels of the others' accuracy"),
    "accuracy_low": Column("share", "lower end of its 95% interval"),
    "accuracy_high": Column("share", "upper end of its 95% interval"),
    "others_accuracy": Column("share", "how often all others are right on it"),
    **_with_interval(
        "share",
        gold_sensitivity="how often they say the class where it is true, by items of known class",
        gold_specificity="how often they do not say it where it is not true, by items of known class",
    ),
}
THUMBNAILS_COLUMNS = {"item": Column("text", "name of the item"), "png": Column("png", "the picture")}
PREVIEWS_COLUMNS = {
    "row": Column("count", "number of the answer, counted from 0: its row in the table, if no row was skipped"),
    "column": Column("text", "name of the column of the inputs"),
    "text": Column("text", "beginning of the text; empty for a number"),
    "value": Column("number", "value of the item in this column", missing=True),
    "low": Column("number", "lower end of the usual values of the given class", missing=True),
    "high": Column("number", "upper end of these", missing=True),
    "distance": Column("number", "distance from their median, in robust standard deviations", missing=True),
}
REASON_PARTS = tuple(name for name in PREDICTIONS_COLUMNS if name.startswith("reason_"))
_TABLES = PREDICTIONS_COLUMNS | ITEMS_COLUMNS | ANNOTATORS_COLUMNS | ANNOTATOR_CLASSES_COLUMNS
LABEL_COLUMNS = tuple(name for name, column in _TABLES.items() if column.kind == "label")
CATEGORY_COLUMNS = ("item", "tagged_item", "tag", "annotator", "split")
