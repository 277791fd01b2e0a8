"""What a run says about its people and classes, for summary.json."""

from ..run.predictions import Predictions
from ..run.records.summary import Agreement, Classes
from .agreement import describe_agreement
from .classes import describe_classes
from .tables import Posteriors, Truth


def describe_people(predictions: Predictions, posteriors: Posteriors | None = None) -> tuple[Agreement | None, Classes]:
    """How far annotators agree, and how they label the classes.

    Parameters
    ----------
    predictions : Predictions
    posteriors : Posteriors, optional
        Of the items, in the order of their codes; by default what the consensus says.
    """
    truth = Truth.of(predictions, posteriors)
    who, given, classes = predictions.annotator, predictions.given, predictions.classes
    names = None if who is None else predictions.frame["annotator"].cat.categories
    agreement = describe_agreement(predictions.item, who, names, given, len(classes))
    return agreement, describe_classes(given, truth, classes, who)
