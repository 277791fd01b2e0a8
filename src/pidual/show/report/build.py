"""Build report.html from the files of a run directory, and from nothing else."""

from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...errors import RunError
from ...errors.messages import printable
from ...files import write_text
from ...run.files import RunFiles
from ...run.predictions import Predictions
from .people import agreement, annotators, by_class, classes
from .sections import MAX_EFFECTS, amounts, curves, evaluation, headline, histograms, pi_effects, settings, suspects
from .words import FILTERS, Context

MAX_DIRECTIONS = 20
MAX_TEXT = 500  # characters of any text on the page
COUNTED = (
    *("given_label", "predicted_label", "predicted_probability", "consensus_label", "consensus_quality"),
    *("label_quality", "is_label_issue", "rests_on_own_answer", "gate", "y"),
)


def build_report(run: RunFiles, *, max_suspects: int = 200) -> Path:
    """Write report.html into a run directory; no other file is changed.

    `run`: a finished run. Of its thumbnails 2 MB at most are shown beside the suspects.
    `max_suspects`: how many of the labels that look wrong are listed.
    Returned: the page: one file that opens offline, without scripts.
    """
    predictions = _read_counted(run)
    summary = run.summary
    context: Context = {
        **headline(run, predictions),
        "has_gate": predictions.gate is not None,
        "suspects": suspects(run, predictions, max_suspects),
        "amounts": amounts(run, predictions),
        "histograms": histograms(predictions),
        "evaluation": evaluation(summary.evaluation, gate=predictions.gate is not None),
        "annotators": annotators(run.annotators),
        "by_class": by_class(run.annotators, run.annotator_classes),
        "agreement": agreement(summary.agreement),
        "classes": classes(summary.classes, predictions),
        "pi_health": summary.pi_health[:MAX_EFFECTS],
        "pi_effects": pi_effects(summary.pi_effects or []),
        "pi_directions": (summary.pi_directions or [])[:MAX_DIRECTIONS],
        "curves": curves(run),
        "restarted": len({epoch.get("attempt") for epoch in run.history}) > 1,
        "made_by": run.config.source.command,
        "settings": settings(run.config),
    }
    context["suspects"]["has"]["gate"] &= context["has_gate"]
    target = run.path / "report.html"
    write_text(target, _template().render(context | {"sections": _sections(context)}))
    return target


def _read_counted(run: RunFiles) -> Predictions:
    """Return the columns of the predictions that are counted; or say what the run lacks."""
    for name in ("summary.json", "predictions.parquet"):
        if not (run.path / name).is_file():
            raise RunError(f"{run.path} has no {name}; it is not a finished run, so fit into it first.")
    has_gate = run.config.method.startswith("pi_dual")  # what others call a gate is the label quality again
    return run.read_predictions([name for name in COUNTED if name != "gate" or has_gate])


def _sections(context: Context) -> list[tuple[str, str]]:
    """Id and name of the sections that the page has, for its navigation."""
    there = [
        ("suspects", "Suspects", True),
        ("amounts", "How many", context["amounts"]),
        ("evaluation", "Evaluation", context["evaluation"]),
        ("annotators", "Annotators", context["annotators"]),
        ("classes", "Classes", True),
        ("pi", "PI", context["pi_health"] or context["pi_effects"] or context["pi_directions"]),
        ("scores", "Scores", True),
        ("training", "Training", context["curves"]),
        ("settings", "Settings", True),
    ]
    return [(name, title) for name, title, shown in there if shown]


@cache
def _template() -> Any:
    """Compile the template of the page, which takes longer than to fill it in."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8")
    environment = Environment(
        loader=templates,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {**FILTERS, "svg": Markup}
    return environment.get_template("report.html")


def _shown(value: object) -> object:
    """Make a text of the data fit for the page: of limited length, with control characters spelled out."""
    if not isinstance(value, str) or isinstance(value, Markup):  # markup is our own
        return value
    return printable(value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…", keep="\n\t")
