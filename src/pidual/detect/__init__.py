"""From predictions to suspected labels: scores, the cut-off, consensus, annotators, reasons. No torch."""

from ..run.records.summary import Cutoff, Verdict
from .annotators import describe_annotators
from .class_accuracy import describe_annotator_classes
from .cutoff import auto_cutoff, find_issues, mark_issues
from .items import Posteriors, describe_items
from .listing import Choice, expected_precision, list_labels
from .next_answers import next_answers
from .next_gold import next_gold
from .noise import expected_findings, noise_rate
from .reasons import find_reasons

__all__ = [
    "Choice",
    "Cutoff",
    "Posteriors",
    "Verdict",
    "auto_cutoff",
    "describe_annotator_classes",
    "describe_annotators",
    "describe_items",
    "expected_findings",
    "expected_precision",
    "find_issues",
    "find_reasons",
    "list_labels",
    "mark_issues",
    "next_answers",
    "next_gold",
    "noise_rate",
]
