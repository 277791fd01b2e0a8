"""`pidual review` as a process of its own: its address, what raw requests get, and what is left when it is killed."""

import signal
import socket
import sqlite3
import sys

import pytest
from command_line import run_cli

pytest.importorskip("uvicorn")


def test_every_decision_that_was_confirmed_outlives_a_kill(run, start):
    server = start()
    assert server.address.startswith("http://127.0.0.1:")
    assert len(server.token) >= 32
    confirmed = [row for row in range(40) if server.decide(row) == 200]
    server.stop(signal.SIGKILL)
    assert run.reviews["row"].tolist() == confirmed == list(range(40))
    again = start()
    assert again.token != server.token
    assert again.decide(3) == 200  # sent again: made once
    with sqlite3.connect(run.path / "reviews.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM decisions").fetchone() == (40,)
    db.close()
    code, out, err = again.stop()
    assert (code, out) == (0, "")
    assert "40 labels decided" in err


def test_raw_requests_that_are_no_http_or_no_question_of_ours(run, start):
    server = start()
    name = f"Host: {server.parts.netloc}\r\nAuthorization: Bearer {server.token}\r\n".encode()
    for request in (
        b"GET /../../config.json HTTP/1.1\r\n" + name + b"\r\n",
        b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + name + b"\r\n",
        b"GET //etc/passwd HTTP/1.1\r\n" + name + b"\r\n",
        b"GET http://example.org/api/about HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"GET /api/about HTTP/1.1\r\n" + name + b"Host: example.org\r\n\r\n",
        b"GET /api/about HTTP/1.0\r\nAuthorization: Bearer " + server.token.encode() + b"\r\n\r\n",
        b"GET /api/about HTTP/1.1\r\n" + name + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        b"POST /api/undo HTTP/1.1\r\n" + name + b"Content-Length: 99\r\n\r\n{}",
        b"\x00\xff\xfe\r\n\r\n",
    ):
        answer = server.send(request)
        assert answer[:10] in (b"HTTP/1.1 4", b""), answer[:200]
        assert b'"classes"' not in answer
    assert server.ask("GET", "/api/about")[0] == 200
    assert len(run.reviews) == 0


def test_a_host_that_others_reach_is_told(start):
    server = start("--host", "0.0.0.0")
    assert server.address.startswith("http://127.0.0.1:")
    assert server.ask("GET", "/api/about")[0] == 200
    assert "Everybody who can reach 0.0.0.0" in server.stop()[2]


def test_what_cannot_be_served_is_said_in_one_sentence(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = run_cli(["review", run.path, "--no-browser", "--port", taken.getsockname()[1]])
    assert (code, err.count("\n")) == (2, 1)
    assert "choose another --port or --host" in err
    code, _, err = run_cli(["review", tmp_path, "--no-browser"])
    assert code == 1
    assert "is not a run directory" in err


def test_the_extra_is_named_where_it_is_missing(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "pidual.review.serve", raising=False)
    code, _, err = run_cli(["review", run.path])
    assert code == 2
    assert "pip install 'pidual[review]'" in err
