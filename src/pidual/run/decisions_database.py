"""Open and check the SQLite file of the decisions on a run; every failure is a sentence.

All decisions are in reviews.sqlite itself. SQLite puts reviews.sqlite-journal beside it while it writes, and undoes a
write that was cut off with it.
"""

import contextlib
import errno
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import RunError
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
