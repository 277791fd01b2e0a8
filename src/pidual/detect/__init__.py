"""From predictions to suspected labels: scores, the cut-off, consensus, annotators, reasons. No torch."""

from ..run.records.summary import Cutoff as Cutoff
from ..run.records.summary import Verdict as Verdict
from .annotators import describe_annotators as describe_annotators
from .classes import describe_annotator_classes as describe_annotator_classes
from .cutoff import auto_cutoff as auto_cutoff
from .cutoff import find_issues as find_issues
from .cutoff import mark_issues as mark_issues
from .items import Posteriors as Posteriors
from .items import describe_items as describe_items
from .listing import Choice as Choice
from .listing import expected_precision as expected_precision
from .listing import list_labels as list_labels
from .next_answers import next_answers as next_answers
from .next_gold import next_gold as next_gold
from .noise import expected_findings as expected_findings
from .noise import noise_rate as noise_rate
from .reasons import find_reasons as find_reasons
