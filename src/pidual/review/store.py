"""What reviewers decide, in reviews.sqlite of a run: who, when and what, one row each.

Rows are added and never changed: a second decision on a label is another row, and so is taking one back. What counts
is the last decision on a label that was not taken back. A decision is on the disk before `add` returns.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import RunError, UsageError
from ..files import replacing
from ..run.files import RunFiles

FILE = "reviews.sqlite"
DECISIONS = ("keep", "change", "unsure")
UNDO = "undo"
COLUMNS = ["row", "decision", "label", "reviewer", "at"]
BUSY_SECONDS = 10.0  # another process may be writing
Sent = tuple[int, str, str | None, str, str]  # row, decision, label, reviewer, request
_TABLES = """
CREATE TABLE IF NOT EXISTS about (fingerprint TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    reviewer TEXT NOT NULL,
    row INTEGER NOT NULL,
    decision TEXT NOT NULL CHECK (decision IN ('keep', 'change', 'unsure', 'undo')),
    label TEXT,
    undoes INTEGER UNIQUE REFERENCES decisions (id),
    request TEXT NOT NULL UNIQUE
);
CREATE INDEX IF NOT EXISTS decisions_of_row ON decisions (row, id);
CREATE INDEX IF NOT EXISTS decisions_of_reviewer ON decisions (reviewer, id);
CREATE TRIGGER IF NOT EXISTS decisions_stay BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'rows stay'); END;
CREATE TRIGGER IF NOT EXISTS decisions_are_kept BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'rows stay'); END;
"""
_STANDING = "decision <> 'undo' AND NOT EXISTS (SELECT 1 FROM decisions AS later WHERE later.undoes = decisions.id)"
_LATEST = f"SELECT row, decision, label, reviewer, at, MAX(id) FROM decisions WHERE {_STANDING}"


@dataclass(frozen=True)
class Decision:
    """What one reviewer decided on one label.

    Parameters
    ----------
    row : int
        The annotation's row in the table, counted from 0.
    decision : str
        One of `DECISIONS`: the given label is right, another one is, or the reviewer cannot tell.
    label : str or None
        The right label; None where the reviewer cannot tell.
    reviewer, at : str
        Who, and when: UTC, ISO 8601.
    """

    row: int
    decision: str
    label: str | None
    reviewer: str
    at: str


class Store:
    """The decisions on a run. One object may be used by several threads, and one file by several processes.

    Parameters
    ----------
    run : RunFiles
        Where to keep them. A file that has decisions on other data is refused.
    """

    def __init__(self, run: RunFiles):
        self.path = run.path / FILE
        if self.path.is_symlink():
            raise RunError(f"{self.path} is a link to another file; put the file itself there, or remove the link.")
        self._lock, self._reading_lock = threading.Lock(), threading.Lock()
        with _sqlite(self.path), contextlib.ExitStack() as opened:
            self._db = opened.enter_context(contextlib.closing(_connect(self.path)))
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # on the disk, also when the power fails
            self._db.executescript(_TABLES)
            with self._writing():
                if self._db.execute("SELECT 1 FROM about").fetchone() is None:
                    self._db.execute("INSERT INTO about VALUES (?)", (_fingerprint(run),))
            reader = contextlib.closing(_connect(self.path))  # reads while the other one waits for the disk
            self._reader = opened.enter_context(reader)
            _check_data(self._db, run)
            opened.pop_all()  # nothing was wrong: both stay open

    def close(self) -> None:
        """Let the file go."""
        self._reader.close()
        self._db.close()

    def add(self, row: int, decision: str, label: str | None, *, reviewer: str, request: str) -> tuple[int, bool]:
        """Write a decision; its number, and whether it is new.

        Parameters
        ----------
        row, decision, label, reviewer
            As `Decision` has them.
        request : str
            Another text for every decision: one that is sent twice is written once.
        """
        return self.add_all([(row, decision, label, reviewer, request)])[0]

    def add_all(self, decisions: Sequence[Sent]) -> list[tuple[int, bool]]:
        """Write decisions that come together, all or none; for each what `add` says."""
        for _, decision, *_ in decisions:
            if decision not in DECISIONS:
                raise UsageError(f"There is no decision {decision!r}; use one of {', '.join(DECISIONS)}.")
        written = []
        with self._lock, _sqlite(self.path), self._writing():
            for row, decision, label, reviewer, request in decisions:
                known = self._db.execute("SELECT id FROM decisions WHERE request = ?", (request,)).fetchone()
                number = int(known[0]) if known else self._insert(reviewer, row, decision, label, None, request)
                written.append((number, known is None))
        return written

    def undo(self, *, reviewer: str, request: str) -> int | None:
        """Take back the reviewer's last decision that still stands; its row, or None where there is none."""
        with self._lock, _sqlite(self.path), self._writing():
            known = self._db.execute("SELECT row FROM decisions WHERE request = ?", (request,)).fetchone()
            if known:
                return int(known[0])
            last = self._db.execute(
                f"SELECT id, row FROM decisions WHERE reviewer = ? AND {_STANDING} ORDER BY id DESC LIMIT 1",
                (reviewer,),
            ).fetchone()
            if last is None:
                return None
            self._insert(reviewer, last[1], UNDO, None, last[0], request)
            return int(last[1])

    def of_row(self, row: int) -> Decision | None:
        """The decision that counts on a label."""
        with self._reading_lock, _sqlite(self.path):
            found = self._reader.execute(f"{_LATEST} AND row = ? GROUP BY row", (row,)).fetchone()
        return Decision(*found[:5]) if found else None

    def changed_since(self, number: int) -> tuple[list[int], int]:
        """Rows on which something was written after this number, by any process, and the number of the last of it."""
        with self._reading_lock, _sqlite(self.path):
            found = self._reader.execute("SELECT row, id FROM decisions WHERE id > ? ORDER BY id", (number,)).fetchall()
        return list({int(row) for row, _ in found}), int(found[-1][1]) if found else number

    def latest(self) -> list[Decision]:
        """The decisions that count, by row."""
        with self._reading_lock, _sqlite(self.path):
            return [Decision(*found[:5]) for found in _latest(self._reader)]

    def _insert(self, reviewer: str, row: int, decision: str, label: str | None, undoes: int | None, key: str) -> int:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        number = self._db.execute(
            "INSERT INTO decisions (at, reviewer, row, decision, label, undoes, request) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (at, reviewer, row, decision, label, undoes, key),
        ).lastrowid
        assert number is not None
        return number

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, which begins with the right to write, so that no other process writes between."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def read_decisions(run: RunFiles) -> pd.DataFrame:
    """The last decision on each label that was reviewed.

    Returns
    -------
    pandas.DataFrame
        row, of the table and counted from 0; decision, "keep", "change" or "unsure"; label, the right one, as text and
        missing where the reviewer cannot tell; reviewer; at, when, in UTC. In the order of rows; empty where nobody
        decided.
    """
    path, found = run.path / FILE, []
    if path.exists():
        with _sqlite(path), contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            _check_data(db, run)
            found = [decision[:5] for decision in _latest(db)]
    frame = pd.DataFrame(found, columns=COLUMNS)
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601")
    return frame.astype({"row": "int64"})


def copy_decisions(run: RunFiles, to: RunFiles) -> None:
    """Let a run of the same table begin with the decisions on another, unless it has its own already."""
    path, copy = run.path / FILE, to.path / FILE
    if not path.exists() or copy.exists():
        return
    with (
        _sqlite(copy),
        replacing(copy) as temporary,
        contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as old,
        contextlib.closing(sqlite3.connect(temporary)) as new,
    ):
        _check_data(old, to)
        old.backup(new)


def _latest(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return db.execute(f"{_LATEST} GROUP BY row ORDER BY row").fetchall()


def _fingerprint(run: RunFiles) -> str:
    return str(run.config["data"].get("fingerprint", ""))


def _check_data(db: sqlite3.Connection, run: RunFiles) -> None:
    """Rows mean something in one table only."""
    found = db.execute("SELECT fingerprint FROM about").fetchone()
    if found is None or found[0] != _fingerprint(run):
        raise RunError(f"{run.path / FILE} has decisions on another table; move it away to start over.")


@contextlib.contextmanager
def _sqlite(path: Path) -> Iterator[None]:
    """Say which file SQLite could not use."""
    try:
        yield
    except sqlite3.Error as error:
        raise RunError(f"{path} cannot be used ({error}); free some space, or move it away to start over.") from error
