"""The report in a real browser: nothing is loaded, nothing is cut off, whatever the data holds is text.

Needs playwright and a Chromium of the system, and is skipped where there is none.
"""

import numpy as np
import pandas as pd
import pytest
from fabricated import change_files, fabricate_run, png
from in_browser import CHROMIUM, CONTRAST, FLAGS

from pidual.api.run import Run
from pidual.run.predictions import read_frame, write_frame
from pidual.show.report import build_report

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.draws_figures,
    pytest.mark.shapes_unchecked,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]

SCRIPT = "<script>document.title = 'taken over'</script>"
IMAGE = '<img src="https://example.org/a.png" onerror="alert(1)">'
CLASSES = [SCRIPT, IMAGE, "unbroken" * 40, '"><style>*{display:none}</style>', "\u202eright to left", "猫"]
STYLES = [(width, scheme) for width in (360, 768, 1200) for scheme in ("light", "dark")]
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true })"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a run whose data does all it can to be more than text."""
    run = fabricate_run(
        tmp_path_factory.mktemp("runs") / "hostile", n_items=200, classes=CLASSES, warnings=(IMAGE,) * 5
    )
    rows = np.flatnonzero(Run(run).predictions.is_issue)
    text = pd.Series([f"{SCRIPT} {IMAGE} {'endless' * 60}"] * len(rows), dtype="str")
    numbers = dict.fromkeys(("value", "low", "high", "distance"), np.full(len(rows), np.nan))
    write_frame(
        run / "previews.parquet",
        pd.DataFrame({"row": rows, "column": pd.Series(SCRIPT, text.index), "text": text} | numbers),
    )
    people = read_frame(run / "annotators.parquet")
    names = pd.Categorical([f"{IMAGE}{i}" for i in range(len(people))])
    write_frame(run / "annotators.parquet", people.assign(annotator=names, worst_confusion=SCRIPT, harm=1.0))
    k = len(CLASSES)
    matrix = np.full((k, k), 0.02) + np.eye(k) * (1 - 0.02 * k)
    summary = {
        "verdict": {"status": "doubtful", "reasons": [IMAGE, "unbroken" * 40]},
        "noise": {"rate": 0.2, "low": 0.1, "high": 0.3},
        "detection": {
            "expected_precision": 0.9,
            "precision_low": 0.8,
            "precision_high": 0.95,
            "curve": [{"n": n, "expected_wrong": n**0.9, "precision": n**-0.1} for n in (1, 10, 100, 400)],
            "classes": [{"class": name, "given": 50, "issues": 10, "expected_wrong": 9.5} for name in CLASSES],
        },
        "agreement": {
            "alpha": 0.7,
            "alpha_low": 0.6,
            "alpha_high": 0.8,
            "mean_kappa": None,
            "pairs": [{"a": IMAGE, "b": "unbroken" * 40, "kappa": 0.5, "items": 9}],
        },
        "classes": {
            "names": CLASSES,
            "transitions": matrix.tolist(),
            "pairs": [{"true": CLASSES[i], "given": CLASSES[i - 1], "count": 9 - i, "share": 0.1} for i in range(k)],
            "advice": [SCRIPT, "unbroken" * 40],
        },
        "pi_health": [{"column": "unbroken" * 40, "problem": "constant", "text": IMAGE}],
        "pi_effects": [
            {"column": SCRIPT, "low": "unbroken" * 40, "high": IMAGE, "right_at_low": 0.1, "right_at_high": 0.9}
            | dict.fromkeys(("difference", "difference_low", "difference_high"), 0.8)
            | {"tells": True}
        ],
        "pi_directions": [
            {"column": SCRIPT, "value": "unbroken" * 40, "against": IMAGE, "class": CLASSES[0], "n_gold": 0}
            | dict.fromkeys(("difference", "difference_low", "difference_high"), 0.8)
            | {"tells": True}
        ],
    }
    change_files(run, summary)
    items = sorted({str(item) for item in Run(run).predictions.frame["item"]})
    Run(run).write_thumbnails(pd.DataFrame({"item": items, "png": [png()] * len(items)}))
    return build_report(Run(run))


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, report):
    """Opens the report without a network; what it asked for and complained of is in `page.heard`."""
    contexts = []

    def open_page(width=1200, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.heard = []
        page.on("request", lambda request: page.heard.append(request.url))
        page.on("console", lambda message: page.heard.append(message.text))
        page.on("pageerror", lambda error: page.heard.append(str(error)))
        page.on("dialog", lambda dialog: page.heard.append(dialog.message))
        page.goto(report.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), STYLES)
def test_nothing_is_loaded_and_nothing_is_wider_than_the_window(opened, report, width, scheme):
    page = opened(width, scheme)
    for unfold in ("", OPEN_ALL):
        page.evaluate(unfold)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
    heard = [entry for entry in page.heard if not entry.startswith("data:image/png;base64,")]
    assert heard == [report.as_uri()]
    assert page.title().endswith(" of 400 labels look wrong · labels.csv")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_the_data_holds_is_text(opened, scheme):
    page = opened(scheme=scheme)
    page.evaluate(OPEN_ALL)
    assert page.evaluate("document.querySelectorAll('script, style:not(svg style)').length") == 1  # our style
    assert page.evaluate("[...document.images].every(each => each.src.startsWith('data:image/png'))")
    shown = page.inner_text("body")
    for text in (SCRIPT, IMAGE, '"><style>*{display:none}</style>', "猫", "\\u202eright to left"):
        assert text in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_told_from_what_is_behind_it(opened, scheme):
    page = opened(scheme=scheme)
    page.evaluate(OPEN_ALL)
    assert page.evaluate(CONTRAST) == []


def test_the_page_works_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    skip = page.locator(".skip")
    assert skip.evaluate("each => each === document.activeElement")
    assert skip.bounding_box()["width"] > 50  # seen where it has the focus
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    more = page.locator("#suspects summary")
    more.focus()
    assert more.evaluate("each => getComputedStyle(each).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("#suspects details").evaluate("each => each.open")


def test_print_has_room_for_reasons_and_shows_pictures(opened, tmp_path):
    page = opened(width=700)  # about that of A4
    page.emulate_media(media="print")
    why = page.locator("#suspects tbody td.why").first.bounding_box()
    assert why["width"] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.evaluate("[...document.images].every(each => each.complete && each.naturalWidth > 0)")
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    settings = page.locator("#settings dl").first
    assert settings.bounding_box()["height"] > 20  # what is folded on the screen is printed
