"""Keep what reviewers decide, in reviews.sqlite of a run: who, when and what, one row each.

Rows are added and never changed: a second decision on a label is another row, and so is taking one back. What counts
is the last decision on a label that was not taken back. A decision is on the disk before `add` returns.

All decisions are in reviews.sqlite itself. SQLite puts reviews.sqlite-journal beside it while it writes, and undoes a
write that was cut off with it. Every failure is a sentence.
"""

import contextlib
import errno
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import RunError, UsageError
from ..errors.messages import quoted
from ..files import replacing
from .files import RunFiles

FILE = "reviews.sqlite"
BUSY_SECONDS = 10.0  # another process may be writing
START_OVER = "put an undamaged copy in its place, or move it away to start over"
READ_ONLY = "the folder cannot be written to; copy the run to one that can"
ADVICE = {  # by how the names of SQLite's errors begin
    "SQLITE_READONLY": READ_ONLY,
    "SQLITE_CANTOPEN": READ_ONLY,
    "SQLITE_FULL": "free some space",
    "SQLITE_IOERR": "free some space, or check the disk",
    "SQLITE_BUSY": "another program uses it; close that one",
}
TABLES = (
    "CREATE TABLE about (fingerprint TEXT NOT NULL)",
    """CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    reviewer TEXT NOT NULL,
    row INTEGER NOT NULL,
    decision TEXT NOT NULL CHECK (decision IN ('keep', 'change', 'unsure', 'undo')),
    label TEXT,
    undoes INTEGER UNIQUE REFERENCES decisions (id),
    request TEXT NOT NULL UNIQUE
)""",
    "CREATE INDEX decisions_of_row ON decisions (row, id)",
    "CREATE INDEX decisions_of_reviewer ON decisions (reviewer, id)",
    "CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'rows stay'); END",
    "CREATE TRIGGER decisions_are_kept BEFORE DELETE ON decisions BEGIN SELECT RAISE(ABORT, 'rows stay'); END",
)
_NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")  # at the end of a -journal; ours never do


@contextlib.contextmanager
def opened(run: RunFiles) -> Iterator[sqlite3.Connection | None]:
    """Open the decisions on a run for reading; None where there are none."""
    path = run.path / FILE
    with sentences(path), contextlib.ExitStack() as stack:
        if not check_files(path):
            yield None
            return
        db = stack.enter_context(contextlib.closing(connect(path)))
        _check_database(db, run)
        yield db


def open_to_write(run: RunFiles) -> sqlite3.Connection:
    """Open the decisions on a run, new ones where there are none."""
    path = run.path / FILE
    with sentences(path), contextlib.ExitStack() as stack:
        check_files(path)
        db = stack.enter_context(contextlib.closing(connect(path, "rwc")))
        db.execute("PRAGMA synchronous = EXTRA")  # on the disk, also when the power fails
        with writing(db):
            if not _objects(db):
                for statement in TABLES:
                    db.execute(statement)
                db.execute("INSERT INTO about VALUES (?)", (_fingerprint(run),))
            _check_database(db, run)
            db.execute("UPDATE about SET fingerprint = fingerprint")  # fails now where nothing can be written
        stack.pop_all()  # nothing was wrong: it stays open
    return db


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Connect to a file; one that cannot be written to is only read."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


@contextlib.contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """Make one transaction, which begins with the right to write, so that no other process writes between."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Say which file SQLite could not use, and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        advice = next((text for start, text in ADVICE.items() if name.startswith(start)), START_OVER)
        raise RunError(f"{path} cannot be used ({error}); {advice}.") from error
    except OSError as error:
        advice = ADVICE["SQLITE_FULL"] if error.errno == errno.ENOSPC else READ_ONLY
        raise RunError(f"{path} cannot be used ({error.strerror or error}); {advice}.") from error


def check_files(path: Path) -> bool:
    """Refuse files that SQLite must not open together; say whether there is a database."""
    wal, journal = (path.with_name(path.name + ending) for ending in ("-wal", "-journal"))
    size = _size(path)
    if _size(wal) > 0:  # SQLite would write its pages into the database
        raise RunError(f"{wal} is not a file that pidual makes; move it away.")
    if size < 0 <= _size(journal):  # SQLite would delete it
        raise RunError(
            f"{journal} belongs to a {FILE} that is missing; put that one beside it, so that both are read, or move it "
            "away to start over."
        )
    with contextlib.suppress(FileNotFoundError), journal.open("rb") as end:  # another process may be done with it
        end.seek(max(0, _size(journal) - len(_NAMES_A_FILE)))
        if end.read() == _NAMES_A_FILE:
            raise RunError(f"{journal} names another file, which SQLite would delete; move it away.")
    return size >= 0


def _check_database(db: sqlite3.Connection, run: RunFiles) -> None:
    """Refuse a database that is not one of decisions, and decisions on other data: rows mean something in one table."""
    with contextlib.closing(sqlite3.connect(":memory:")) as own:
        for statement in TABLES:
            own.execute(statement)
        if _objects(db) != _objects(own):
            raise RunError(f"{run.path / FILE} is not a file of decisions as pidual makes it; {START_OVER}.")
    if db.execute("SELECT fingerprint FROM about").fetchall() != [(_fingerprint(run),)]:
        raise RunError(f"{run.path / FILE} has decisions on another table; move it away to start over.")


def _objects(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Return all tables, indexes and triggers, and how they were made."""
    return set(db.execute("SELECT type, name, sql FROM sqlite_master"))


def _size(file: Path) -> int:
    """Return the size of a file, -1 where it is missing; refuse a link, and what is not a file."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        return -1
    if not stat.S_ISREG(found.st_mode):
        raise RunError(f"{file} is a link or not a file; put the file itself there, or remove it.")
    return found.st_size


def _fingerprint(run: RunFiles) -> str:
    return run.config.data.fingerprint


DECISIONS = ("keep", "change", "unsure")
UNDO = "undo"
COLUMNS = ["row", "decision", "label", "reviewer", "at"]
Sent = tuple[int, str, str | None, str, str]  # row, decision, label, reviewer, request
_STANDING = "decision <> 'undo' AND NOT EXISTS (SELECT 1 FROM decisions AS later WHERE later.undoes = decisions.id)"


@dataclass(frozen=True, slots=True)
class _Decision:
    """What one reviewer decided on one label."""

    row: int  # the annotation's row in the table, counted from 0
    decision: str  # one of `DECISIONS`: the given label is right, another one is, or the reviewer cannot tell
    label: str | None  # the right label; None where the reviewer cannot tell
    # reviewer, at: who, and when: UTC, ISO 8601
    reviewer: str
    at: str


class _Standing:
    """Keeps the decisions that count. Whoever reads decisions reads them here, where each is checked.

    `run`: whose rows and classes they are on.
    """

    def __init__(self, run: RunFiles):
        self._path, self._n_rows = run.path / FILE, run.n_rows
        self._classes = {str(name) for name in run.read_predictions(["given_label"]).classes}
        self._of_row: dict[int, dict[int, _Decision]] = {}  # by number, those that were not taken back
        self._last: dict[int, _Decision | None] = {}
        self._changed: set[int] = set()
        self._seen: tuple[int, str | None] = (-(2**63), None)  # number and request of the last one read

    def read(self, db: sqlite3.Connection) -> None:
        """Read what was written since, by any process."""
        asked = "id, request, undoes, row, decision, label, reviewer, at"
        found = db.execute(f"SELECT {asked} FROM decisions WHERE id >= ? ORDER BY id", (self._seen[0],)).fetchall()
        if self._seen[1] is not None:
            if not found or found[0][:2] != self._seen:
                raise RunError(f"{self._path} has lost decisions that were in it; {START_OVER}.")
            del found[0]
        for number, request, undoes, *fields in found:
            decision = _Decision(*fields)
            if wrong := self.wrong(decision, undoes):
                raise RunError(f"{self._path} cannot be used: decision {number} has {wrong}; {START_OVER}.")
            on_row = self._of_row.setdefault(decision.row, {})
            if decision.decision == UNDO:
                del on_row[undoes]
            else:
                on_row[number] = decision
            self._last[decision.row] = next(reversed(on_row.values()), None)
            self._changed.add(decision.row)
            self._seen = (number, request)

    def changed(self) -> set[int]:
        """Return the rows of the table on which something was read since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def get(self, row: int) -> _Decision | None:
        """Return the decision that counts on a label."""
        return self._last.get(row)

    def all(self) -> list[_Decision]:
        """Return the decisions that count, by row."""
        return [decision for _, decision in sorted(self._last.items()) if decision is not None]

    def wrong(self, found: _Decision, undoes: Any = None) -> str | None:
        """Say what is wrong with a decision, or with an undo of the one with a number; None where nothing is."""
        if type(found.row) is not int or not 0 <= found.row < self._n_rows:
            return f"row {quoted(found.row)}, which is no row of the table"
        if not _is_date(found.at):
            return f"date {quoted(found.at)}, which is not a date and time with a time zone"
        if not isinstance(found.reviewer, str):
            return f"reviewer {quoted(found.reviewer)}, which is no text"
        if found.decision == UNDO:
            can = found.label is None and undoes in self._of_row.get(found.row, {})
            return None if can else f"nothing that it can undo ({quoted(undoes)})"
        if found.decision not in DECISIONS or undoes is not None:
            return f"decision {quoted(found.decision)}, which is none of {', '.join(DECISIONS)}"
        if found.label not in (self._classes if found.decision != "unsure" else {None}):
            return f"label {quoted(found.label)}, which is not one that {quoted(found.decision)} can have"
        return None


class Store:
    """Keeps the decisions on a run. One object may be used by several threads, and one file by several processes.

    `run`: where to keep them. A file that has decisions on other data is refused.
    """

    def __init__(self, run: RunFiles):
        self.path, self._lock = run.path / FILE, threading.Lock()
        self._db, self._standing = open_to_write(run), _Standing(run)
        self._file = self._identity()
        try:
            self.latest()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def add(self, row: int, decision: str, label: str | None, *, reviewer: str, request: str) -> tuple[int, bool]:
        """Write a decision; return its number, and whether it is new.

        `row`, `decision`, `label`, `reviewer`: as `_Decision` has them.
        `request`: another text for every decision: one that is sent twice is written once.
        """
        return self.add_all([(row, decision, label, reviewer, request)])[0]

    def add_all(self, decisions: Sequence[Sent]) -> list[tuple[int, bool]]:
        """Write decisions that come together, all or none; return for each what `add` returns."""
        for row, decision, label, reviewer, _ in decisions:
            if decision not in DECISIONS:
                raise UsageError(f"There is no decision {decision!r}; use one of {', '.join(DECISIONS)}.")
            if wrong := self._standing.wrong(_Decision(row, decision, label, reviewer, _now())):
                raise UsageError(f"A decision cannot have {wrong}.")
        with self._lock, self._writing():
            return [
                self._insert(row, decision, label, reviewer, request, undoes=None)
                for row, decision, label, reviewer, request in decisions
            ]

    def undo(self, *, reviewer: str, request: str) -> int | None:
        """Take back the reviewer's last decision that still stands; its row, or None where there is none."""
        with self._lock, self._writing():
            if known := self._db.execute("SELECT row FROM decisions WHERE request = ?", (request,)).fetchone():
                return int(known[0])
            asked = f"SELECT id, row FROM decisions WHERE reviewer = ? AND {_STANDING} ORDER BY id DESC LIMIT 1"
            last = self._db.execute(asked, (reviewer,)).fetchone()
            if last is None:
                return None
            self._insert(last[1], UNDO, None, reviewer, request, undoes=last[0])
            return int(last[1])

    def sync(self, *, wait: bool = True) -> set[int]:
        """Read what was written since, also by others; return the rows that it is on.

        Without `wait`, nothing is read while this process is writing.
        """
        self._check_file()
        if not self._lock.acquire(blocking=wait):
            return set()
        try:
            with sentences(self.path):
                self._standing.read(self._db)
            return self._standing.changed()
        finally:
            self._lock.release()

    def get(self, row: int) -> _Decision | None:
        """Return the decision that counts on a label, as of the last `sync`."""
        return self._standing.get(row)

    def latest(self) -> list[_Decision]:
        """Return the decisions that count, by row."""
        self._check_file()
        with self._lock, sentences(self.path):
            self._standing.read(self._db)
            return self._standing.all()

    def _insert(self, *sent: Any, undoes: int | None) -> tuple[int, bool]:
        """Write what was sent, unless it is known by its request."""
        if known := self._db.execute("SELECT id FROM decisions WHERE request = ?", (sent[-1],)).fetchone():
            return int(known[0]), False
        columns = "row, decision, label, reviewer, request, undoes, at"
        written = self._db.execute(
            f"INSERT INTO decisions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", (*sent, undoes, _now())
        )
        assert written.lastrowid is not None
        return written.lastrowid, True

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Make one transaction, in a file that is as it was, and where others look for it before and after."""
        self._check_file()
        with sentences(self.path), writing(self._db):
            self._standing.read(self._db)
            yield
        self._check_file()

    def _identity(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            found = self.path.stat()
            return found.st_dev, found.st_ino
        return None

    def _check_file(self) -> None:
        """Refuse to go on with a file that others no longer see: what is written to it would be lost."""
        if self._identity() != self._file:
            raise RunError(
                f"{self.path} was removed or replaced while it was in use; earlier decisions are in the file that was "
                "there: put it back, or start `pidual review` again."
            )


def read_decisions(run: RunFiles) -> pd.DataFrame:
    """Read the last decision on each label that was reviewed.

    Returns
    -------
    pandas.DataFrame
        row, of the table and counted from 0; decision, "keep", "change" or "unsure"; label, the right one, as text and
        missing where the reviewer cannot tell; reviewer; at, when, in UTC. In the order of rows; empty where nobody
        decided.
    """
    found: list[_Decision] = []
    with opened(run) as db:
        if db is not None:
            standing = _Standing(run)
            standing.read(db)
            found = standing.all()
    frame = pd.DataFrame([[getattr(decision, name) for name in COLUMNS] for decision in found], columns=COLUMNS)
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601")
    return frame.astype({"row": "int64"})


def copy_decisions(run: RunFiles, to: RunFiles) -> None:
    """Let a run of the same table begin with the decisions on another, unless it has its own already."""
    copy = to.path / FILE
    with opened(run) as old:
        if old is None or check_files(copy):
            return
        with sentences(copy), replacing(copy) as temporary, contextlib.closing(sqlite3.connect(temporary)) as new:
            old.backup(new)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _is_date(text: Any) -> bool:
    """Say whether a text is a date and time of a zone, in years that pandas has."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return False
    return found.tzinfo is not None and 1700 < found.year < 2200
