"""`pidual review` as a process of its own: its address, what raw requests get, and what is left when it is killed."""

import contextlib
import http.client
import itertools
import shutil
import signal
import socket
import sqlite3
import sys
import threading
import time

import pytest
from command_line import run_cli

pytest.importorskip("uvicorn")


def test_every_decision_that_was_confirmed_outlives_a_kill(run, start):
    server = start()
    assert server.address.startswith("http://127.0.0.1:")
    assert len(server.token) >= 32
    confirmed = [row for row in range(20) if server.decide(row) == 200]
    server.stop(signal.SIGKILL)
    assert decided_in(run.path, run.path / "reviews.sqlite") == confirmed == list(range(20))
    assert [path.name for path in run.path.glob("reviews.sqlite*")] == ["reviews.sqlite"]
    again = start()
    assert again.token != server.token
    assert again.decide(3) == 200  # sent again: made once
    with sqlite3.connect(run.path / "reviews.sqlite") as db:
        assert db.execute("SELECT COUNT(*) FROM decisions").fetchone() == (20,)
    db.close()
    code, out, err = again.stop()
    assert (code, out) == (0, "")
    assert "20 labels decided" in err


def decided_in(folder, file):
    """The rows that are decided in a copy of the file alone."""
    copy = shutil.copyfile(file, folder / "alone.sqlite")
    with contextlib.closing(sqlite3.connect(copy)) as db:
        return [row for (row,) in db.execute("SELECT row FROM decisions ORDER BY id")]


@pytest.mark.slow
def test_no_confirmed_decision_is_lost_by_any_of_twenty_kills(run, start, tmp_path):
    confirmed, rows = [], itertools.count()
    for kill in range(20):
        server = start()

        def decide(name, server=server):
            with contextlib.suppress(OSError, http.client.HTTPException):  # the server is gone
                while (row := next(rows)) < len(run.predictions) and server.decide(row, name) == 200:
                    confirmed.append(row)

        clients = [threading.Thread(target=decide, args=(f"client {number}",)) for number in range(4)]
        [client.start() for client in clients]
        time.sleep(0.05 + 0.02 * (kill % 7))
        server.stop(signal.SIGKILL)
        [client.join() for client in clients]
        assert set(confirmed) <= set(decided_in(tmp_path, run.path / "reviews.sqlite"))
        assert set(confirmed) <= set(run.reviews["row"])
    assert len(confirmed) > 20
    with contextlib.closing(sqlite3.connect(run.path / "reviews.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_that_was_replaced_stops_the_answers_and_ends_in_an_error(run, start, tmp_path):
    server, path = start(), run.path / "reviews.sqlite"
    empty = shutil.copyfile(path, tmp_path / "empty")
    assert [server.decide(row) for row in range(3)] == [200] * 3
    away = path.rename(tmp_path / "away")
    shutil.copyfile(empty, path)
    assert server.decide(5) == 503
    code, out, err = server.stop()
    assert (code, out) == (1, "")
    assert "labels decided" not in err
    assert err.splitlines()[-1].startswith(f"Error: {path} was removed or replaced")
    assert "Traceback" not in err
    assert decided_in(tmp_path, away) == [0, 1, 2]


def half_a_post(server):
    name = f"Host: {server.parts.netloc}\r\nOrigin: http://{server.parts.netloc}"
    about = f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\nContent-Length: 99"
    return f"POST /api/undo HTTP/1.1\r\n{name}\r\n{about}\r\n\r\n{{".encode()


def test_half_open_connections_do_not_stop_the_page(start):
    server = start()
    address = (server.parts.hostname, server.parts.port)
    with contextlib.ExitStack() as stack:
        for number in range(300):
            half = stack.enter_context(socket.create_connection(address, timeout=20))
            half.sendall(half_a_post(server) if number % 10 == 0 else b"GET / HTTP/1.1\r\nHost: 127")
        assert server.ask("GET", "/api/about")[0] == 200
        assert server.decide(0) == 200
    assert server.decide(1) == 200
    code, _, err = server.stop()  # clients that leave in the middle are not reported
    assert (code, err.count("\n")) == (0, 2), err


def test_raw_requests_that_are_no_http_or_no_question_of_ours(run, start):
    server = start()
    name = f"Host: {server.parts.netloc}\r\nAuthorization: Bearer {server.token}\r\n".encode()
    for request in (
        b"GET /../../config.json HTTP/1.1\r\n" + name + b"\r\n",
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
    monkeypatch.delitem(sys.modules, "pidual.show.review.app", raising=False)
    code, _, err = run_cli(["review", run.path])
    assert code == 2
    assert "pip install 'pidual[review]'" in err
