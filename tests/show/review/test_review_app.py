"""The HTTP interface: what is shown, decided and counted, and what hostile requests get."""

import json

import numpy as np
import pytest
from fabricated import change_files, fabricate_run
from review_server import CLASSES, PORT, SCRIPT, TOKEN, Client

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from pidual.api.run import Run
from pidual.errors import RunError
from pidual.metrics import wilson_interval
from pidual.run.decisions import Store
from pidual.show.review.access import HEADERS, is_own_host
from pidual.show.review.app import MAX_BODY, make_app


@pytest.fixture
def store(run):
    opened = Store(run)
    yield opened
    opened.close()


@pytest.fixture
def app(run, store):
    return make_app(run, store, TOKEN)


@pytest.fixture
def client(app):
    return Client(app)


def test_the_worst_label_of_each_item_to_check_comes_first_where_a_sample_is_asked_for(run, store):
    quality, issue = run.predictions.label_quality, run.predictions.is_issue
    names, items = run.predictions.frame["item"].astype(str), run.next_gold(5)["item"].astype(str)
    wanted = np.array([min(np.flatnonzero(names == item), key=quality.__getitem__) for item in items])
    assert 0 < issue[wanted].sum() < 5  # it goes beyond the list
    client, seen, place = Client(make_app(run, store, TOKEN, sample=5)), [], 0
    filtered = client.ask(everything=1)["label"]["row"]
    assert filtered == int(np.argsort(quality, kind="stable")[0])
    second = client.ask(place=client.ask(place=0)["label"]["place"] + 1)["label"]  # in this order, also unless decided
    assert second["row"] == wanted[1]
    assert client.ask(place=second["place"], back=1)["label"]["row"] == wanted[0]
    for _ in wanted:
        label = client.ask(place=place)["label"]
        seen.append(label["row"])
        client.decide(label["row"])
        place = label["place"] + 1
    assert seen == wanted.tolist()
    progress = client.ask(place=place)["progress"]
    assert progress["sample"] == {"total": 5, "decided": 5}
    assert progress["decided"] == issue[wanted].sum()
    assert client.ask(everything=1)["progress"]["sample"] is None
    after = client.ask(place=place)["label"]["row"]
    left = [row for row in np.argsort(quality, kind="stable").tolist() if row not in seen]
    assert after == left[0]


def test_labels_come_by_what_looking_at_them_is_worth(run, client):
    issues = run.predictions.issues()
    about = client.ask("about")
    assert (about["n_labels"], about["n_issues"]) == (len(run.predictions), len(issues))
    assert about["classes"] == [str(name) for name in run.predictions.classes]
    seen, place = [], 0
    for _ in range(len(issues)):
        label = client.ask(place=place)["label"]
        seen.append(label["row"])
        place = label["place"] + 1
    assert seen == issues["row"].tolist()
    assert client.ask(place=place)["label"]["row"] == seen[0]  # begins again


def test_a_label_is_shown_with_all_that_is_known_of_it(run, client):
    frame = run.predictions.frame
    label = client.ask()["label"]
    row = frame.iloc[label["row"]]
    names = client.ask("about")["classes"]
    assert names[label["given"]] == row["given_label"]
    assert names[label["suggested"]] == row["consensus_label"]
    assert names[label["predicted"]] == row["predicted_label"]
    assert label["quality"] == pytest.approx(row["label_quality"])
    assert label["suggested_probability"] == pytest.approx(row["consensus_quality"])
    assert (label["item"], label["annotator"], label["reason"]) == (row["item"], row["annotator"], row["reason"])
    assert label["text"] == f"Text {label['row']} {SCRIPT} <b>bold</b>"
    others = frame[(frame["item"] == row["item"]) & (frame["row"] != row["row"])]
    assert [(names[a["label"]], a["annotator"]) for a in label["answers"]] == list(
        zip(others["given_label"], others["annotator"], strict=True)
    )
    pictures = {client.ask(place=place, everything=1)["label"]["picture"] is not None for place in range(20)}
    assert True in pictures


def test_decisions_are_kept_counted_and_taken_back(run, client):
    first, *_ = rows = run.predictions.issues()["row"].tolist()
    shown = client.ask()["label"]
    client.decide(first, "keep")
    client.decide(rows[1], "change", shown["given"] if client_given(client, rows[1]) != shown["given"] else 0)
    client.decide(rows[2], "unsure")
    answer = client.ask()
    assert answer["label"]["row"] == rows[3]
    progress = answer["progress"]
    low, high = wilson_interval(1, 2)
    assert progress["precision"] == {"share": 0.5, "low": pytest.approx(float(low)), "high": pytest.approx(float(high))}
    counted = [progress[name] for name in ("total", "undecided", "kept", "changed", "unsure", "decided")]
    assert counted == [len(rows), len(rows) - 3, 1, 1, 1, 3]
    assert client.ask(show="decided")["label"]["decided"]["reviewer"] == "ann"
    assert client.post("undo")["label"]["row"] == rows[2]
    assert client.ask()["label"]["row"] == rows[2]
    assert run.reviews["row"].tolist() == sorted(rows[:2])
    assert [client.post("undo")["label"] is None for _ in range(3)] == [False, False, True]


def client_given(client, row):
    for place in range(400):
        label = client.ask(place=place, everything=1, show="all")["label"]
        if label["row"] == row:
            return label["given"]
    raise AssertionError(row)


def test_filters(run, client):
    frame, names = run.predictions.issues(), client.ask("about")["classes"]
    for code, name in enumerate(names):
        expected = frame[frame["given_label"] == name]["row"].tolist()
        answer = client.ask(label=code)
        assert answer["progress"]["total"] == len(expected)
        assert (answer["label"] or {"row": None})["row"] == (expected or [None])[0]
    who = str(frame["annotator"].iloc[3])
    assert client.ask("annotators", text=who[2:].upper())["annotators"] == [who]
    assert client.ask(annotator=who)["progress"]["total"] == (frame["annotator"].astype(str) == who).sum()
    assert client.ask(annotator="nobody")["progress"]["total"] == 0
    middle = float(frame["label_quality"].median())
    assert client.ask(low=middle)["progress"]["total"] == (frame["label_quality"] >= np.float32(middle)).sum()
    assert client.ask(high=middle)["progress"]["total"] == (frame["label_quality"] <= np.float32(middle)).sum()
    assert client.ask(everything=1)["progress"]["total"] == len(run.predictions)


def test_labels_that_rest_on_one_answer_are_shown_by_a_filter(run, store):
    frame = run.predictions.frame
    frame["rests_on_own_answer"] = ~frame["is_label_issue"] & (frame["row"] % 7 == 0)
    run.predictions.write(run.path / "predictions.parquet")
    change_files(run.path)
    client = Client(make_app(Run.open(run.path), store, TOKEN))
    found, n = client.ask(resting=1), frame["rests_on_own_answer"].sum()
    assert 0 < n == found["progress"]["total"] == client.ask("about")["n_resting"]
    assert (found["label"]["rests"], found["label"]["looks_wrong"]) == (True, False)
    assert client.ask()["progress"]["total"] == run.predictions.n_issues


def test_two_reviewers_are_shown_different_labels(run, store, app):
    ann, bob = Client(app, "ann"), Client(app, "bob")
    rows = run.predictions.issues()["row"].tolist()
    assert [ann.ask()["label"]["row"], bob.ask()["label"]["row"]] == rows[:2]
    ann.decide(rows[0])
    assert ann.ask()["label"]["row"] == rows[2]
    assert bob.post("undo")["label"] is None  # nobody takes back what another decided
    store.add_all([(row, "unsure", None, "ann", f"all {row}") for row in rows[:-1]])
    assert ann.ask()["label"]["row"] == bob.ask()["label"]["row"] == rows[-1]  # rather twice than never


def test_another_server_of_the_run_is_heard(run, app):
    second = Store(run)
    ann, bob = Client(app, "ann"), Client(make_app(run, second, TOKEN), "bob")
    row = ann.ask()["label"]["row"]
    bob.decide(row)
    assert ann.ask()["label"]["row"] != row
    bob.post("undo")
    assert ann.ask()["label"]["row"] == row
    second.close()


def test_every_answer_has_the_headers(client):
    for path in ("/", "/review.css", "/review.js", "/api/about", "/nothing"):
        answer = client.http.get(path)
        assert HEADERS.items() <= {name.title(): value for name, value in answer.headers.items()}.items()
    assert "'unsafe" not in HEADERS["Content-Security-Policy"]
    page = client.http.get("/").text
    assert TOKEN not in page
    assert "://" not in page  # nothing comes from elsewhere
    assert "style=" not in page


GOOD = {"row": 0, "decision": "keep", "label": None, "reviewer": "ann", "request": "r"}
FORGED = {
    "no token": ({"Authorization": None}, 401),
    "another token": ({"Authorization": "Bearer guess"}, 401),
    "no origin": ({"Origin": None}, 403),
    "another origin": ({"Origin": "http://example.org"}, 403),
    "no particular origin": ({"Origin": "null"}, 403),
    "origin of another port": ({"Origin": "http://127.0.0.1:1"}, 403),
    "another host": ({"Host": f"example.org:{PORT}", "Origin": f"http://example.org:{PORT}"}, 421),
    "a name that ends like ours": ({"Host": f"127.0.0.1.example.org:{PORT}"}, 421),
    "somebody's name": ({"Host": f"me@127.0.0.1:{PORT}"}, 421),
    "another type": ({"Content-Type": "text/plain"}, 415),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_requests_change_nothing(run, client, case):
    changed, status = FORGED[case]
    headers = {"Content-Type": "application/json", "Host": f"127.0.0.1:{PORT}"} | client.headers | changed
    headers = {name: value for name, value in headers.items() if value is not None}
    answer = client.http.post("/api/decide", content=json.dumps(GOOD), headers=headers)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert len(run.reviews) == 0


def test_an_item_is_shown_or_the_page_says_why_not(client):
    seen = client.ask("item", row=0)
    assert seen["row"] == 0
    assert "is not where it was" in seen["note"]
    assert (seen["picture"], seen["text"], seen["columns"]) == (None, None, [])


@pytest.mark.parametrize("path", ["about", "next?reviewer=ann", "annotators?text=a", "item?row=0"])
def test_nothing_is_read_without_the_token(client, path):
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": TOKEN}, {"Authorization": "Bearer \xff"}):
        headers = {name: value.encode("latin-1") for name, value in headers.items()}
        assert client.http.get(f"/api/{path}", headers=headers).status_code == 401


def test_a_decision_that_cannot_be_written_is_not_confirmed(run, client, monkeypatch):
    def full(*args, **options):
        raise RunError("/secret/place cannot be used (database or disk is full)")

    monkeypatch.setattr(Store, "add", full)
    answer = client.http.post("/api/decide", json=GOOD, headers=client.headers)
    assert answer.status_code == 503
    assert "secret" not in answer.text
    assert len(run.reviews) == 0


def test_a_file_that_went_away_stops_the_answers_until_it_is_back(run, client, tmp_path):
    path = run.path / "reviews.sqlite"
    assert client.decide(0)["new"]
    away = path.rename(tmp_path / "away")
    for method, address, more in (
        ("GET", "next?reviewer=ann", {}),
        ("POST", "undo", {"json": {"reviewer": "ann", "request": "u"}}),
        ("POST", "decide", {"json": GOOD}),
    ):
        answer = client.http.request(method, f"/api/{address}", headers=client.headers, **more)
        assert answer.status_code == 503
        assert "cannot be used" in answer.json()["error"]
    away.rename(path)
    assert client.decide(3)["new"]
    assert run.reviews["row"].tolist() == [0, 3]


BAD = {
    "row": [-1, 10**9, 10**30, 1.0, "0", None, True, [0]],
    "decision": ["", "undo", "KEEP", None, 1, ["keep"]],
    "label": [0, "cat"],
    "reviewer": ["", "  ", "x" * 61, None, 5, "a\x00b", "a\u202eb", "\ud800"],
    "request": ["", "x" * 61, None, {}],
    "more": [1],
}
LABELS = [None, -1, len(CLASSES), 0.0, "dog", True, 10**30, "given"]  # for a change
FIELDS = [{name: value} for name, values in BAD.items() for value in values]
FIELDS += [{"decision": "change", "label": label} for label in LABELS]
UNDO = [{"reviewer": "ann", "request": "r"} | fields for fields in FIELDS if {"reviewer", "request"} & {*fields}]
BODIES = [json.dumps(body).encode() for body in [*(GOOD | fields for fields in FIELDS), *UNDO]]
BODIES += [b"", b"{", b"[]", b"null", b"\xff", b"[" * 4000, b'{"row": 0}', b"{}"]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_malformed_changes_change_nothing(run, client, body):
    body = body.replace(b'"given"', str(int(run.predictions.given[0])).encode())
    for path in ("decide", "undo"):
        answer = client.http.post(f"/api/{path}", content=body, headers=json_headers(client))
        assert answer.status_code == 400, answer.text
        assert list(answer.json()) == ["error"]
    assert len(run.reviews) == 0


def test_what_is_too_large_is_refused(run, client):
    large = json.dumps(GOOD | {"reviewer": "x" * MAX_BODY}).encode()
    for content in (large, iter([large[:3000], large[3000:]])):  # with and without its length
        assert client.http.post("/api/decide", content=content, headers=json_headers(client)).status_code == 413
    assert client.http.get(f"/api/next?reviewer={'x' * 3000}", headers=client.headers).status_code == 400
    assert len(run.reviews) == 0


@pytest.mark.parametrize(
    "path",
    [
        "/../config.json",
        "/..%2fconfig.json",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/config.json",
        "/reviews.sqlite",
        "/review.js/../../store.py",
        "/static/page.html",
        "//etc/passwd",
        "/api/..%2f..%2fconfig.json",
    ],
)
def test_no_other_file_is_served(client, path):
    answer = client.http.get(path, headers=client.headers)
    assert answer.status_code in (404, 405), answer.text
    assert len(answer.content) < 100


WRONG = ["place=-1", "place=1e3", "place=99999999999999", "place=²", "label=6", "label=x", "low=nan", "high=2"]
WRONG += ["high=inf", "low=" + "0" * 40, "show=everything", "reviewer=", "reviewer=%00"]
WRONG = [f"next?{query}" + "&reviewer=ann" * ("reviewer" not in query) for query in WRONG]
WRONG += [f"item?row={row}" for row in ("-1", "999999", "1e9", "0x1", "../etc/passwd", "", "%D9%A3")]


@pytest.mark.parametrize("query", WRONG)
def test_malformed_questions_are_refused(client, query):
    answer = client.http.get(f"/api/{query}", headers=client.headers)
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("asked", "host", "own"),
    [
        ("127.0.0.1:80", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("[::1]:80", "::1", True),
        ("192.168.1.5:80", "127.0.0.1", False),
        ("192.168.1.5:80", "0.0.0.0", True),
        ("example.org:80", "0.0.0.0", False),
        ("box.local:80", "box.local", True),
        ("127.0.0.1:81", "127.0.0.1", False),
        ("127.0.0.1:80/x", "127.0.0.1", False),
        ("127.0.0.1:x", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("[::1", "::1", False),
    ],
)
def test_names_of_the_server(asked, host, own):
    assert is_own_host(asked, host, ("127.0.0.1", 80)) is own


def json_headers(client):
    return client.headers | {"Content-Type": "application/json"}


def test_a_run_without_annotators_and_pictures(tmp_path):
    run = Run.open(fabricate_run(tmp_path / "run", n_items=60, classes=[3, 5, 8], annotators=None))
    store = Store(run)
    client = Client(make_app(run, store, TOKEN))
    about, label = client.ask("about"), client.ask()["label"]
    assert (about["classes"], about["has_annotators"]) == (["3", "5", "8"], False)
    assert (label["annotator"], label["picture"]) == (None, None)
    row = run.predictions.frame.iloc[label["row"]]
    assert label["suggested_probability"] == pytest.approx(row["consensus_quality"])
    assert client.ask("annotators", text="a")["annotators"] == []
    client.decide(label["row"], "change", (label["given"] + 1) % 3)
    assert run.reviews["label"].tolist() == [about["classes"][(label["given"] + 1) % 3]]
    store.close()
