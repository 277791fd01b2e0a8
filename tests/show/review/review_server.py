"""What tests of the review share: hostile classes, a client in this process, and `pidual review` as one of its own."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

from command_line import SRC

SCRIPT = "<script>document.title = 'taken over'</script>"
CLASSES = ["cat", "dog", SCRIPT, '"><img src=x onerror=alert(1)>', "owl", "../../etc/passwd"]
TOKEN, PORT = "t0ken", 8123
OWN = f"http://127.0.0.1:{PORT}"


class Client:
    """Asks the application as the page does, in this process; `ask` and `post` give the answer's JSON."""

    def __init__(self, app, reviewer="ann"):
        from starlette.testclient import TestClient

        self.http = TestClient(app, base_url=OWN, raise_server_exceptions=False)
        self.reviewer, self.sent = reviewer, 0
        self.headers = {"Authorization": f"Bearer {TOKEN}", "Origin": OWN}

    def ask(self, path="next", **query):
        query = {"reviewer": self.reviewer} | query if path == "next" else query
        answer = self.http.get(f"/api/{path}", params=query, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path, **fields):
        self.sent += 1
        body = {"reviewer": self.reviewer, "request": f"{self.reviewer} {self.sent}"} | fields
        answer = self.http.post(f"/api/{path}", json=body, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def decide(self, row, decision="keep", label=None):
        return self.post("decide", row=row, decision=decision, label=label)


class Server:
    """A server of a run; `ask` gives status and JSON."""

    def __init__(self, run, *words):
        path = os.pathsep.join([str(SRC), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "pidual", "review", str(run), "--no-browser", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, **pipes)
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.process.stderr.read()
        self.parts = urlsplit(self.address)
        self.token = self.parts.fragment.removeprefix("token=")

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Origin": f"http://{self.parts.netloc}"}
        headers |= {"Content-Type": "application/json"} if body else {}
        connection = http.client.HTTPConnection(self.parts.hostname, self.parts.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def decide(self, row, reviewer="ann"):
        body = {"row": row, "decision": "keep", "label": None, "reviewer": reviewer, "request": f"{reviewer} {row}"}
        return self.ask("POST", "/api/decide", body)[0]

    def send(self, text):
        """What a raw request gets."""
        with socket.create_connection((self.parts.hostname, self.parts.port), timeout=20) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            parts = []
            with contextlib.suppress(ConnectionError):  # cut off
                parts.extend(iter(lambda: connection.recv(1 << 16), b""))
            return b"".join(parts)

    def stop(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err
