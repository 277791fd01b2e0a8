"""The review page in a real browser: a session by keyboard alone, two reviewers, a server that is killed.

Needs playwright and a Chromium of the system, and is skipped where there is none.
"""

import json
import re
import shutil
import signal
import threading

import pandas as pd
import pytest
from command_line import run_cli
from in_browser import CHROMIUM, CONTRAST, FLAGS
from review_server import CLASSES, SCRIPT, Server

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
DESKTOP, PHONE = (1200, 800), (360, 740)
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def looked_at(whole_run, tmp_path_factory):
    """A server for tests that decide nothing."""
    server = Server(shutil.copytree(whole_run, tmp_path_factory.mktemp("looked at") / "run"))
    yield server
    server.stop(signal.SIGKILL)


@pytest.fixture
def open_page(browser):
    """Opens the page as a reviewer does; nothing may go wrong in it, and nothing be asked of others."""
    contexts, wrong = [], []

    def open_one(server, reviewer="ann", size=DESKTOP, scheme="light"):
        width, height = size
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda asked: check_own(asked.url, server, wrong))
        page.goto(server.address)
        page.wait_for_selector("#name[open]")
        page.keyboard.type(reviewer)
        page.keyboard.press("Enter")
        page.wait_for_selector("#label:not([hidden])")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []


def check_own(url, server, wrong):
    if not url.startswith((f"http://{server.parts.netloc}/", "data:")):
        wrong.append(url)


def until(page, check):
    """Wait until the check holds. Playwright's own way is blocked by the page's Content-Security-Policy."""
    for _ in range(300):
        if check():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{page.text_content('#progress')}; {page.text_content('#error')}")


def test_a_probability_is_never_called_certain(looked_at, open_page):
    page = open_page(looked_at)
    texts = [page.evaluate(f"likely({share})") for share in ("null", 1, 0.9999, 0.996, 0.5)]
    assert texts == ["", "over 99.9%", "over 99.9%", "99.6%", "50%"]
    assert page.evaluate("percent(1)") == "100%"  # of decisions
    assert page.text_content("#sure") == page.evaluate("likely(state.current.suggested_probability)")
    assert page.text_content("#predicted-sure") == page.evaluate("likely(state.current.predicted_probability)")


def press(page, key, *, decided=None):
    """Press a key and wait for what it does: another label, or this many that are decided."""

    def shown():
        return [page.text_content(place) for place in ("#item", "#given", "#progress", "#said")]

    before = shown()
    page.keyboard.press(key)
    until(page, lambda: shown() != before and not page.evaluate("state.busy"))
    if decided is not None:
        assert page.text_content("#progress").startswith(f"{decided} of")


def test_a_session_by_keyboard_alone(run, start, open_page):
    issues = run.predictions.issues().set_index("row")
    page = open_page(start())
    rows = issues.index.tolist()
    for key, decided in zip("ktu", (1, 2, 3), strict=True):
        press(page, key, decided=decided)
    page.keyboard.press("l")
    page.wait_for_selector("#choose[open]")
    other = next(name for name in ("owl", "cat") if name != issues.loc[rows[3], "given_label"])
    page.keyboard.type(other.upper())
    assert page.locator("#matches li").count() == 1
    press(page, "Enter", decided=4)
    press(page, "s")
    press(page, "k", decided=5)
    found = run.reviews.set_index("row")
    assert found["decision"].to_dict() == {
        rows[0]: "keep", rows[1]: "change", rows[2]: "unsure", rows[3]: "change", rows[5]: "keep"
    }  # fmt: skip
    assert found.loc[rows[1], "label"] == issues.loc[rows[1], "consensus_label"]
    assert found.loc[rows[3], "label"] == other
    assert set(found["reviewer"]) == {"ann"}
    assert re.match(
        r"2 of 4 were wrong: 50% \(95% interval 15% to 85%\); 1 undecidable", page.text_content("#precision")
    )
    press(page, "z", decided=4)
    assert page.text_content("#item") == issues.loc[rows[5], "item"]
    press(page, "z", decided=3)
    press(page, "k", decided=4)
    assert run.reviews.set_index("row")["decision"][rows[3]] == "keep"
    page.reload()
    page.wait_for_selector("#label:not([hidden])")  # who and where are known
    assert page.text_content("#progress").startswith("4 of")
    assert page.text_content("#item") == issues.loc[rows[4], "item"]


def test_filters(run, start, open_page):
    issues = run.predictions.issues()
    page = open_page(start())
    page.keyboard.press("f")
    page.fill("#class", "dog")
    page.keyboard.press("Enter")
    until(page, lambda: page.text_content("#given") == "dog")
    assert page.text_content("#progress") == f"0 of {(issues['given_label'] == 'dog').sum()} decided"
    page.fill("#class", "")
    who = str(issues["annotator"].iloc[0])
    page.locator("#annotator").press_sequentially(who[:6])
    page.wait_for_selector("#annotators option", state="attached")
    page.fill("#annotator", who)
    page.keyboard.press("Enter")
    total = (issues["annotator"].astype(str) == who).sum()
    until(page, lambda: page.text_content("#progress") == f"0 of {total} decided")
    page.reload()
    until(page, lambda: page.text_content("#progress") == f"0 of {total} decided")
    page.click("summary")
    page.fill("#class", "no such class")
    page.click("#filter button[type=submit]")
    page.wait_for_selector("#error:not([hidden])")
    page.click("#clear")
    until(page, lambda: page.text_content("#progress") == f"0 of {len(issues)} decided")


def test_two_reviewers_at_once(run, start, open_page):
    server = start()
    ann, bob = open_page(server, "ann"), open_page(server, "bob")
    assert ann.text_content("#item") + ann.text_content("#given") != bob.text_content("#item") + bob.text_content(
        "#given"
    )
    for decided in (2, 4):
        for page in (ann, bob):  # nobody waits for the other
            page.keyboard.press("k")
        for page in (ann, bob):
            until(page, lambda page=page: not page.evaluate("state.busy"))
        assert len(run.reviews) == decided
    found = run.reviews
    assert found["row"].tolist() == sorted(run.predictions.issues()["row"].tolist()[:4])
    assert found["reviewer"].value_counts().to_dict() == {"ann": 2, "bob": 2}


def test_a_server_that_is_killed_and_started_again(run, start, open_page):
    server, confirmed = start(), []
    page = open_page(server)

    def hear(answer):
        confirmed.extend(rows_of(answer))
        if len(confirmed) == 4:  # at any moment from now on
            threading.Timer(0.01, server.process.send_signal, [signal.SIGKILL]).start()

    page.on("response", hear)

    def pressed():  # as fast as fingers can, until the server is gone
        for _ in range(10):
            page.keyboard.press("k")
        return page.is_visible("#error")

    until(page, pressed)
    until(page, lambda: not page.evaluate("state.busy"))
    assert "The server does not answer" in page.text_content("#error")
    rows = run.predictions.issues()["row"].tolist()
    written = run.reviews["row"].tolist()
    assert 4 <= len(confirmed) <= len(written) <= len(confirmed) + 1  # one may be written whose answer was cut off
    assert set(confirmed) <= set(written)
    again = open_page(start())
    assert again.text_content("#progress").startswith(f"{len(written)} of")
    press(again, "k", decided=len(written) + 1)
    assert run.reviews["row"].tolist() == sorted(rows[: len(written) + 1])


BAD_REPLIES = [
    {"body": '{"label": null, "progr'},
    {"body": ""},
    {"body": "null"},
    {"body": "{}"},
    {"body": '{"label": {}, "progress": {"decided": 1, "total": 2}}'},
    {"body": "<html>", "status": 502},
    "none",
]


def test_a_bad_reply_is_never_shown(looked_at, open_page):
    page, now = open_page(looked_at), {"bad": None}

    def reply(route):
        if now["bad"] is None:
            route.continue_()
        elif now["bad"] == "none":
            route.abort()
        else:
            route.fulfill(**{"status": 200} | now["bad"])

    page.route("**/api/*", reply)
    for now["bad"] in BAD_REPLIES:
        before = page.text_content("#item"), page.text_content("#progress")
        for key in "szk" if now["bad"] == "none" else "s":
            page.keyboard.press(key)
            until(page, lambda: page.is_visible("#error") and not page.evaluate("state.busy"))
            said = page.text_content("#error")
            assert said.startswith(("The server does not answer", "The server answers with status 502")), (now, said)
        assert (page.text_content("#item"), page.text_content("#progress")) == before
        now["bad"] = None
        page.keyboard.press("s")  # goes on as if nothing had been
        until(page, lambda: not page.is_visible("#error") and not page.evaluate("state.busy"))
        assert page.text_content("#item") != before[0]


def test_a_sample_is_counted(run, start, open_page):
    n_issues = len(run.predictions.issues())
    page = open_page(start("--sample", "5"))
    assert page.text_content("#progress") == f"0 of 5 in the sample, 0 of {n_issues} in the list decided"
    for decided in range(1, 6):
        press(page, "k", decided=decided)
    in_list = run.predictions.is_issue[run.reviews["row"]].sum()
    assert in_list < 5  # the rest lies beyond it
    assert page.text_content("#progress") == f"5 of 5 in the sample, {in_list} of {n_issues} in the list decided"
    assert f"of {in_list} in the list were wrong" in page.text_content("#precision")


def rows_of(answer):
    """The row whose decision an answer confirms."""
    return [json.loads(answer.request.post_data)["row"]] if answer.url.endswith("/api/decide") and answer.ok else []


def test_text_is_text_and_nothing_is_cut_off(looked_at, open_page):
    page = open_page(looked_at)
    for width, height in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            check_looks(page)
            press(page, "s")
    page.click("#other")
    assert page.locator("#matches li").count() == len(CLASSES)
    assert page.evaluate(TOO_WIDE) <= 0
    page.keyboard.press("Escape")
    page.click("summary")
    assert page.evaluate(TOO_WIDE) <= 0
    unnamed = "[...document.querySelectorAll('button, input, select')].filter(e => !e.labels?.length && "
    unnamed += "!e.textContent.trim() && !e.ariaLabel && !e.getAttribute('aria-labelledby')).map(e => e.id)"
    assert page.evaluate(unnamed) == []


def check_looks(page):
    assert page.evaluate(TOO_WIDE) <= 0
    assert SCRIPT in page.text_content("#text")
    assert page.title() == "Review · run"
    until(page, lambda: "is not where it was" in page.text_content("#note"))  # the inputs are made up
    assert page.locator("#keep").bounding_box()["height"] >= 44
    assert page.evaluate(CONTRAST) == []


def test_a_page_without_its_token_shows_nothing(looked_at, browser):
    page = browser.new_page()
    page.goto(looked_at.address.split("#")[0])
    page.wait_for_selector("#error:not([hidden])")
    assert "token is missing" in page.text_content("#error")
    assert not page.is_visible("#label")
    page.close()


def test_items_are_read_from_the_inputs(tmp_path, monkeypatch, open_page):
    monkeypatch.chdir(tmp_path)
    texts = [f"{SCRIPT} {'door' if i % 2 else 'bill'} number {i} by joe@corp.example" for i in range(60)]
    rows = [(i, "yes" if (i % 2) == (who < 2) else "no", f"p{who}", texts[i]) for i in range(60) for who in range(3)]
    pd.DataFrame(rows, columns=["item", "label", "annotator", "text"]).to_csv("labels.csv", index=False)
    assert run_cli(["fit", "labels.csv", "--no-x", "--keep-going", "--quiet", "--out", "run"])[0] == 0
    server = Server(tmp_path / "run")
    page = open_page(server)
    for _ in range(2):
        item = int(page.text_content("#item"))
        until(page, lambda item=item: texts[item][:-16] in page.text_content("#columns"))
        assert "(e-mail address)" in page.text_content("#columns")
        assert page.evaluate(TOO_WIDE) <= 0
        press(page, "s")
    server.stop(signal.SIGKILL)
