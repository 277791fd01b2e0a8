"""What the columns of a run's Parquet files are called and hold."""

from dataclasses import dataclass

REASON_PARTS = tuple(f"reason_{name}" for name in ("label", "votes", "annotator", "pair", "pi"))
TOP_LABELS = tuple(f"top_{place}" for place in range(1, 6))
LABEL_COLUMNS = (
    *("given_label", "predicted_label", "noise_label", "y", "consensus_label", "worst_class", "favourite_label"),
    "true_class",
    *TOP_LABELS,
)
CATEGORY_COLUMNS = ("item", "annotator", "split")


@dataclass(frozen=True)
class Column:
    """What a column of a Parquet file of ours must hold.

    Parameters
    ----------
    kind : "label", "name", "share", "number", "count", "flag", "text" or "png"
        A class; a category of any values; a number in [0, 1]; a finite number; a whole number of at least 0; true or
        false; text; an image.
    required : bool
        Whether every such file has it.
    missing : bool
        Whether values may be missing.
    """

    kind: str
    required: bool = True
    missing: bool = False


LABEL, NAME, SHARE, COUNT = Column("label"), Column("name"), Column("share"), Column("count")
OPTIONAL_SHARE = Column("share", required=False)
PREDICTIONS_COLUMNS = {
    "row": COUNT,
    "table_row": Column("count", required=False),
    "item": NAME,
    "annotator": Column("name", required=False),
    "given_label": LABEL,
    "predicted_label": LABEL,
    "predicted_probability": SHARE,
    "consensus_label": Column("label", required=False),
    "consensus_quality": OPTIONAL_SHARE,
    "label_quality": SHARE,
    "given_probability": OPTIONAL_SHARE,
    "given_margin": Column("number", required=False),
    "is_label_issue": Column("flag"),
    "rests_on_own_answer": Column("flag"),
    "gate": OPTIONAL_SHARE,
    "noise_label": Column("label", required=False),
    "split": NAME,
    "y": Column("label", required=False, missing=True),
    "reason": Column("text"),
    **dict.fromkeys(REASON_PARTS, Column("text", required=False)),
}
ITEMS_COLUMNS = {
    "item": NAME,
    "consensus_label": LABEL,
    "consensus_quality": SHARE,
    "num_annotations": COUNT,
    "predicted_label": LABEL,
    "annotator_agreement": SHARE,
    **dict.fromkeys(TOP_LABELS, Column("label", required=False)),
    **dict.fromkeys([f"{name}_probability" for name in TOP_LABELS], OPTIONAL_SHARE),
}  # and of up to 20 classes p_<class>
ANNOTATORS_COLUMNS = {
    "annotator": NAME,
    "annotator_quality": SHARE,
    "quality_low": SHARE,
    "quality_high": SHARE,
    "num_labelled": COUNT,
    "num_issues": COUNT,
    "worst_class": Column("label", missing=True),
    "favourite_label": Column("label", required=False, missing=True),
    "favourite_excess": Column("share", required=False, missing=True),
    "worst_confusion": Column("text", required=False, missing=True),
    "worst_confusion_share": Column("share", required=False, missing=True),
    "mean_gate": OPTIONAL_SHARE,
    "harm": Column("number"),
    "expected_wrong": Column("number"),
    "worst_class_accuracy": Column("share", required=False, missing=True),
    "agreement": Column("number", required=False, missing=True),
    "median_seconds": Column("number", required=False, missing=True),
    "drift": Column("flag", required=False),
    "drift_at": Column("text", required=False, missing=True),
    "accuracy_before": Column("share", required=False, missing=True),
    "accuracy_after": Column("share", required=False, missing=True),
    "copies": Column("text", required=False, missing=True),
}
ANNOTATOR_CLASSES_COLUMNS = {
    "annotator": NAME,
    "true_class": LABEL,
    "num_items": Column("number"),
    **dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high", "others_accuracy"), SHARE),
}
THUMBNAILS_COLUMNS = {"item": Column("text"), "png": Column("png")}
PREVIEWS_COLUMNS = {
    "row": COUNT,
    "column": Column("text"),
    "text": Column("text"),
    **dict.fromkeys(["value", "low", "high", "distance"], Column("number", missing=True)),
}
