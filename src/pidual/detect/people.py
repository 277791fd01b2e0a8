"""What a run says about its people and classes, for summary.json."""

from typing import Any

from ..run.predictions import Predictions
from .agreement import describe_agreement
from .classes import describe_classes
from .tables import Posteriors, Truth


def describe_people(predictions: Predictions, posteriors: Posteriors | None = None) -> dict[str, Any]:
    """How far annotators agree, and how they label the classes, as JSON values.

    Parameters
    ----------
    predictions : Predictions
    posteriors : Posteriors, optional
        Of the items, in the order of their codes; by default what the consensus says.

    Returns
    -------
    dict
        agreement (see `describe_agreement`), where there is any, and classes (see `describe_classes`).
    """
    truth = Truth.of(predictions, posteriors)
    who, given, classes = predictions.annotator, predictions.given, predictions.classes
    names = None if who is None else predictions.frame["annotator"].cat.categories
    agreement = describe_agreement(predictions.item, who, names, given, len(classes))
    found = {} if agreement is None else {"agreement": agreement}
    return found | {"classes": describe_classes(given, truth, classes, who)}
