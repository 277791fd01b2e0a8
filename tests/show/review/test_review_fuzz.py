"""Requests of any kind, straight to the application: none is answered by a failure, or tells what it may not."""

import asyncio
import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")

from pidual.api.run import Run
from pidual.run.decisions import Store
from pidual.show.review.access import HEADERS
from pidual.show.review.app import make_app

TOKEN, HOST = "s3cret-t0ken", "127.0.0.1:8123"
PATHS = ["/", "/review.js", "/api/about", "/api/next", "/api/item", "/api/annotators", "/api/decide", "/api/undo"]
HOSTILE = ["/../config.json", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/api", "/api/", "/api/decide/", "/static/"]
QUERY = ["reviewer=ann", "row=0", "place=1", "label=2", "show=all", "low=0.1", "back=1", "annotator=%ff", "row=../x"]
GOOD = {"row": 3, "decision": "keep", "label": None, "reviewer": "ann", "request": "fuzz"}
VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70) | st.just([])


@pytest.fixture(scope="module")
def server(whole_run, tmp_path_factory):
    """The application of a run on which 5 labels are decided, and the run."""
    run = Run.open(shutil.copytree(whole_run, tmp_path_factory.mktemp("fuzz") / "run"))
    store = Store(run)
    for row in range(5):
        store.add(row, "unsure", None, reviewer="bob", request=str(row))
    yield make_app(run, store, TOKEN), run, store
    store.close()


def header(name, good, *others):
    """A header that is right, wrong, any bytes, twice or not there."""
    wrong = st.sampled_from([value.encode() for value in others]) | st.binary(max_size=30)
    right = st.just([good.encode()])
    values = right | right | right | right | st.lists(wrong, max_size=2) | wrong.map(lambda one: [good.encode(), one])
    return values.map(lambda found: [(name.encode(), value) for value in found])


HEADER = st.tuples(
    header("host", HOST, "example.org", "127.0.0.1", "127.0.0.1:1", "localhost:8123", "[::1]:8123"),
    header("authorization", f"Bearer {TOKEN}", "Bearer", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN} "),
    header("origin", f"http://{HOST}", "null", "http://example.org", "http://localhost:8123", f"https://{HOST}"),
    header("content-type", "application/json", "text/plain", "multipart/form-data"),
    header("content-length", "120", "-1", "99999999999", "1e3", "\u00b2"),
).map(lambda parts: [pair for part in parts for pair in part])
BODY = (
    st.binary(max_size=200)
    | st.dictionaries(st.sampled_from([*GOOD, "more"]), VALUE).map(lambda fields: as_json(GOOD | fields))
    | st.sampled_from([b"[" * 5000, b'{"row": 1' + b"0" * 5000 + b"}", b'{"row": NaN}', b"\xff\xfe{\x00}\x00"])
)


def as_json(fields):
    return json.dumps(fields).encode("utf-8", "replace")


REQUEST = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "get", ""]),
        "path": st.sampled_from([*PATHS, *HOSTILE]) | st.text(max_size=20).map(lambda text: f"/{text}"),
        "query_string": st.lists(st.sampled_from(QUERY).map(str.encode) | st.binary(max_size=9), max_size=4).map(
            b"&".join
        ),
        "headers": HEADER,
        "body": BODY,
    }
)


def ask(app, request):
    """Status, headers and content of the answer."""
    body, sent = request["body"], []
    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1), "root_path": ""}
    scope |= {"server": ("127.0.0.1", 8123), "raw_path": request["path"].encode(), **request}
    parts = [
        {"type": "http.request", "body": body[:50], "more_body": True},
        {"type": "http.request", "body": body[50:]},
    ]

    async def receive():
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    content = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), content


def good_request(**fields):
    own = {
        "host": HOST,
        "authorization": f"Bearer {TOKEN}",
        "origin": f"http://{HOST}",
        "content-type": "application/json",
    }
    headers = [(name.encode(), value.encode()) for name, value in own.items()]
    return {
        "method": "POST",
        "path": "/api/decide",
        "query_string": b"",
        "headers": headers,
        "body": as_json(GOOD),
    } | fields


def test_a_good_request_is_made_by_the_same_means(server):
    app, run, _ = server
    assert ask(app, good_request())[0] == 200
    assert run.reviews.set_index("row")["reviewer"][3] == "ann"
    assert ask(app, good_request(path="/api/undo", body=b'{"reviewer": "ann", "request": "u"}'))[0] == 200
    assert ask(app, good_request(path="/api/item", method="GET", query_string=b"row=0", body=b""))[0] == 200


def test_an_address_that_is_nearly_ours(server):
    app, *_ = server
    assert ask(app, good_request(path="/api/decide/", query_string=b"\x80"))[0] == 404
    assert ask(app, good_request(path="/api/decide/"))[0] == 404


@settings(max_examples=200, deadline=None)
@given(request_=REQUEST)
def test_any_request(server, request_):
    app, run, store = server
    before = store.latest()
    status, headers, content = ask(app, request_)
    assert status < 500, content
    assert HEADERS["Content-Security-Policy"].encode() == headers[b"content-security-policy"]
    for secret in (TOKEN, str(run.path), "Traceback", "site-packages", "fingerprint"):
        assert secret.encode() not in content
    given_ = dict(request_["headers"])
    trusted = (
        given_.get(b"authorization") == f"Bearer {TOKEN}".encode()
        and sum(name == b"authorization" for name, _ in request_["headers"]) == 1
        and given_.get(b"host") in (HOST.encode(), b"localhost:8123", b"[::1]:8123")
    )
    if request_["path"].startswith("/api/") and not trusted:
        assert status >= 400
        assert list(json.loads(content)) == ["error"]
    if store.latest() != before:
        assert (request_["method"], status, trusted) == ("POST", 200, True)
        assert given_[b"origin"] == b"http://" + given_[b"host"]
