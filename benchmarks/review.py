"""The review page under load: many suspects, many reviewers.

    python benchmarks/review.py --suspects 1000000 --clients 20 --decisions 5000 [--out benchmarks/results/review.json]

A small run is fitted, its predictions are repeated until there are so many suspects, and `pidual review` is started on
it as a process of its own. Then: how long the server takes to start, its memory, how long one takes to get a label by
several filters, and what there is to see of an item (a text in the table, which has as many rows), and how long
decisions take when all clients decide at once. At the end the file of decisions is counted: none may be lost, none
doubled.
"""

import argparse
import contextlib
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
import pandas as pd
import psutil
from common import peak_memory, write_result
from msgspec.structs import replace

from pidual.api.run import Run
from pidual.files import write_json
from pidual.run.predictions import write_frame
from pidual.run.records.config import Config
from pidual.run.records.reading import read_record, seal

FILTERS = {
    "all": {},
    "far down": {"place": "-1"},
    "one class": {"label": "7"},
    "one annotator": {"annotator": "a7"},
    "quality": {"low": "0.2", "high": "0.3"},
}


def make_run(folder, n, n_classes=1_000, n_annotators=200):
    """A run of `n` labels that all look wrong."""
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(60), 3)
    label = np.where(rng.random(180) < 0.2, "b", "a")
    labels = pd.DataFrame({"item": item, "label": label, "annotator": rng.integers(0, 5, 180)})
    labels.to_csv(folder / "labels.csv", index=False)
    fit = ["fit", "labels.csv", "--no-x", "--out", "run", "--quiet", "--keep-ids", "--keep-going"]
    subprocess.run([sys.executable, "-m", "pidual", *fit], cwd=folder, check=True)
    run, classes = Run(folder / "run"), [f"class {number}" for number in range(n_classes)]
    given, other = rng.integers(0, n_classes, (2, n))
    items = pd.Index([f"folder/of/images/{number:07}.png" for number in range(-(-n // 3))])
    people = pd.Index([f"a{number}" for number in range(n_annotators)])
    reasons = [f"The consensus is another label, by {row % 9} of 9 answers, and by its input." for row in range(n)]
    frame = pd.DataFrame(
        {
            "row": np.arange(n),
            "item": pd.Categorical.from_codes(rng.permutation(np.arange(n) // 3), items),
            "annotator": pd.Categorical.from_codes(rng.integers(0, n_annotators, n), people),
            "given_label": pd.Categorical.from_codes(given, classes),
            "predicted_label": pd.Categorical.from_codes(other, classes),
            "predicted_probability": rng.random(n, np.float32),
            "consensus_label": pd.Categorical.from_codes(other, classes),
            "consensus_quality": rng.random(n, np.float32),
            "label_quality": rng.random(n, np.float32) / 2,
            "is_label_issue": np.ones(n, bool),
            "split": pd.Categorical.from_codes(np.zeros(n, int), ["train", "valid", "test"]),
            "reason": pd.Series(reasons, dtype="str"),
        }
    )
    table = frame[["item", "annotator"]].assign(label=frame["given_label"])
    texts = pd.Index(
        [f"Text of item {number}, in which something is said at some length. " * 2 for number in range(len(items))]
    )
    table.assign(text=pd.Categorical.from_codes(frame["item"].cat.codes, texts)).to_csv(
        folder / "labels.csv", index=False
    )
    config, model = run.config.to_json(), run.model.to_json()
    write_frame(run.path / "predictions.parquet", frame)
    spec = model["spec"] | {"n_classes": n_classes, "n_train": n}
    write_json(run.path / "model.json", model | {"classes": classes, "spec": spec})
    sizes = {"n_rows": n, "n_classes": n_classes, "n_train": n, "n_valid": 0, "n_test": 0}
    write_json(run.path / "config.json", config | {"data": config["data"] | sizes})
    run_id = read_record(run.path / "config.json", Config).run_id
    summary = replace(run.summary, digests=run.digests(), run_id=run_id)
    write_json(run.path / "summary.json", seal(summary.to_json()))
    return run.path


class Client:
    """One reviewer, on one connection."""

    def __init__(self, address, name):
        parts = urlsplit(address)
        self.http, self.name = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60), name
        self.headers = {"Authorization": f"Bearer {parts.fragment[6:]}", "Origin": f"http://{parts.netloc}"}

    def ask(self, path, body=None):
        """Answer and seconds."""
        begun = time.perf_counter()
        headers = self.headers | ({"Content-Type": "application/json"} if body else {})
        self.http.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        answer = self.http.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - begun
        assert answer.status == 200, content
        return json.loads(content), seconds

    def next(self, **query):
        return self.ask(f"/api/next?{urlencode({'reviewer': self.name} | query)}")

    def decide(self, row, number):
        fields = {"decision": "unsure", "label": None, "reviewer": self.name}
        return self.ask("/api/decide", {"row": row, "request": f"{self.name} {number}"} | fields)[1]


def measure(address, process, n, n_clients, n_decisions):
    """What takes how long."""
    found = {"memory_mb": round(process.memory_info().rss / 2**20)}
    client = Client(address, "first")
    client.ask("/api/about")
    for name, query in FILTERS.items():
        query = query | ({"place": str(n - 5)} if query.get("place") else {})
        found[f"page_ms {name}"] = percentiles([client.next(**query)[1] for _ in range(30)])
    rows = np.random.default_rng(1).integers(0, n, 200).tolist()
    seen = [client.ask(f"/api/item?row={row}") for row in rows]
    assert all(item["columns"] for item, _ in seen), seen[0]
    found |= {"item_s first": round(seen[0][1], 1), "item_ms": percentiles([seconds for _, seconds in seen[1:]])}
    found["memory_mb with texts"] = round(process.memory_info().rss / 2**20)
    for looked in (False, True):
        times = [[] for _ in range(n_clients)]
        each = n_decisions // n_clients
        threads = [
            threading.Thread(target=session, args=(address, number, n_clients, each, looked, times[number]))
            for number in range(n_clients)
        ]
        begun = time.perf_counter()
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        what = "decisions with a look at each" if looked else "decisions"
        found[f"{what} a second"] = round(n_decisions / (time.perf_counter() - begun))
        found[f"{what} ms"] = percentiles([seconds for own in times for seconds in own])
    times = process.cpu_times()
    return found | {
        "processor_s": round(times.user + times.system, 1),
        "memory_mb at the end": round(process.memory_info().rss / 2**20),
        "memory_mb peak": round(peak_memory(f"/proc/{process.pid}/status")),
    }


def session(address, number, n_clients, n_decisions, looked, times):
    client = Client(address, f"reviewer {number}{' again' if looked else ''}")
    for place in range(n_decisions):
        row = client.next()[0]["label"]["row"] if looked else place * n_clients + number
        times.append(client.decide(row, place))


def percentiles(seconds):
    middle, high = np.percentile(1000 * np.asarray(seconds), [50, 95]).round(1).tolist()
    return {"median": middle, "p95": high}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suspects", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--decisions", type=int, default=5_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), args.suspects)
        command = [sys.executable, "-m", "pidual", "review", str(run), "--no-browser"]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)}
        begun = time.perf_counter()
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=env) as server:
            address = server.stdout.readline().strip()
            found = {"start_s": round(time.perf_counter() - begun, 1)}
            try:
                process = psutil.Process(server.pid)
                found |= measure(address, process, args.suspects, args.clients, args.decisions)
            finally:
                server.send_signal(signal.SIGKILL)
        with contextlib.closing(sqlite3.connect(run / "reviews.sqlite")) as db:
            counts = db.execute(
                "SELECT COUNT(*), COUNT(DISTINCT request), COUNT(DISTINCT row) FROM decisions"
            ).fetchone()
    found |= {
        "written": counts[0],
        "lost": 2 * args.decisions - counts[1],
        "doubled": counts[0] - counts[1],
        "labels": counts[2],
    }
    print(json.dumps(found, indent=1))
    if args.out:
        write_result(args.out, found, suspects=args.suspects, clients=args.clients, decisions=args.decisions)


if __name__ == "__main__":
    main()
