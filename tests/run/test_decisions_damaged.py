"""A reviews.sqlite that is damaged, hostile or misplaced: one sentence in every command."""

import contextlib
import shutil
import sqlite3
import struct

import pandas as pd
import pytest
from command_line import run_cli, write_key

from pidual.api.run import Run
from pidual.errors import RunError
from pidual.run.decisions import FILE, Store, read_decisions

pytest.importorskip("uvicorn")
COMMANDS = {
    "detect": ["detect", "run"],
    "export": ["export", "run", "out.csv", "--to", "csv"],
    "tasks": ["export", "run", "out.json", "--to", "label-studio"],
    "review": ["review", "run", "--no-browser"],
    "fit": ["fit", "--from", "run", "--out", "again", "--quiet"],
}
GOOD = {"at": "2026-01-01T00:00:00+00:00", "reviewer": "ann", "decision": "change", "label": "no"}


def inserted(**fields):
    """A decision that reviewers cannot make."""

    def change(path):
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            insert(db, **{"row": 3, "request": "hostile"} | fields)

    return change


def insert(db, row, **fields):
    values = GOOD | {"row": row, "request": str(row)} | fields
    db.execute(
        f"INSERT INTO decisions ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", [*values.values()]
    )


def execute(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


def half(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


DAMAGE = {
    "no date": inserted(at="yesterday"),
    "a number for a date": inserted(at=5),
    "a date without a zone": inserted(at="2026-01-01T00:00:00"),
    "a date far away": inserted(at="9999-01-01T00:00:00+00:00"),
    "a reviewer of bytes": inserted(reviewer=b"\xff"),
    "a row beyond the table": inserted(row=10**6),
    "a negative row": inserted(row=-1),
    "half a row": inserted(row=5.5),
    "a row of text": inserted(row="abc"),
    "a label that is no class": inserted(label="NOSUCH"),
    "a change to nothing": inserted(label=None),
    "a label of bytes": inserted(label=b"no"),
    "text that is not UTF-8": lambda path: execute(
        path, f"INSERT INTO decisions (at, reviewer, row, decision, label, request) VALUES ('{GOOD['at']}', 'x', 3, "
        "'change', CAST(x'ff' AS TEXT), 'h')",
    ),
    "a label that nobody can tell": inserted(decision="unsure"),
    "an undo of nothing": inserted(decision="undo", label=None),
    "an undo of another row": inserted(decision="undo", label=None, undoes=1),
    "a number below all": inserted(id=-5, at="never"),
    "no table": lambda path: execute(path, "DROP TABLE decisions"),
    "no fingerprint": lambda path: execute(path, "DELETE FROM about"),
    "another trigger": lambda path: execute(
        path, "CREATE TRIGGER t AFTER INSERT ON decisions BEGIN DELETE FROM about; END"
    ),
    "another database": lambda path: (path.unlink(), execute(path, "CREATE TABLE decisions (id)")),
    "no database": lambda path: path.write_bytes(b"no database" * 1000),
    "one half": half,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.with_name("kept")), path.symlink_to("kept")),
    "a link to nothing": lambda path: (path.unlink(), path.symlink_to("elsewhere")),
}  # fmt: skip


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A folder with a table, a run of it, and decisions on five labels."""
    folder = tmp_path_factory.mktemp("judged")
    rows = [(i, "yes" if (i % 2) == (who < 2) else "no", f"p{who}") for i in range(30) for who in range(3)]
    pd.DataFrame(rows, columns=["item", "label", "annotator"]).to_csv(folder / "labels.csv", index=False)
    write_key(folder)
    with contextlib.chdir(folder):
        assert run_cli(["fit", "labels.csv", "--no-x", "--keep-going", "--quiet", "--out", "run"])[0] == 0
        decide(Run.open("run"), range(5))
    return folder


@pytest.fixture
def folder(judged, tmp_path):
    with contextlib.chdir(shutil.copytree(judged, tmp_path / "folder")):
        yield tmp_path / "folder"


def decide(run, rows):
    with contextlib.closing(Store(run)) as store:
        for row in rows:
            store.add(row, "change", "no", reviewer="ann", request=f"{row}")


def refused(*parts):
    """Check that decisions are neither read nor written, and that one sentence with these parts says why."""
    for use in (read_decisions, Store):
        with pytest.raises(RunError) as caught:
            use(Run.open("run"))
        said = str(caught.value)
        assert all(part in said for part in (FILE, *parts)), said
        assert "\n" not in said
        assert said.endswith(".")


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_wrong_is_said(folder, damage):
    DAMAGE[damage](folder / "run" / FILE)
    refused()
    assert not (folder / "run" / "elsewhere").exists()


def test_every_command_says_it(folder):
    DAMAGE["no date"](folder / "run" / FILE)
    for name, words in COMMANDS.items():
        code, out, err = run_cli(words)
        assert (code, out, err.count("\n")) == (1, "", 1), (name, err)
        assert FILE in err, err
        assert err.endswith(".\n"), err
    assert not (folder / "again").exists()


def test_a_review_of_an_empty_file_starts_over(folder):
    (folder / "run" / FILE).write_bytes(b"")
    with pytest.raises(RunError, match="not a file of decisions"):
        read_decisions(Run.open("run"))
    decide(Run.open("run"), [3])
    assert Run.open("run").reviews["row"].tolist() == [3]


# --- journals ---


def test_pages_of_another_database_are_refused_and_kept(folder):
    wal = folder / "run" / f"{FILE}-wal"
    wal.write_bytes(b"pages" * 1000)
    refused(f"{FILE}-wal is not a file that pidual makes")
    assert wal.read_bytes() == b"pages" * 1000


def journal_naming(victim, pages):
    """The -journal of a write to several databases, which names the file that SQLite removes at its end."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(victim).encode()
    header = (magic + struct.pack(">IIIII", 0, 1, pages, 512, 4096)).ljust(512, b"\0")
    return header + struct.pack(">I", 2**18 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic


def test_a_journal_that_names_a_file_does_not_remove_it(folder):
    victim, path = folder / "victim.txt", folder / "run" / FILE
    victim.write_text("dear\n")
    path.with_name(f"{FILE}-journal").write_bytes(journal_naming(victim, path.stat().st_size // 4096))
    refused("names another file")
    assert victim.exists()


def test_a_write_that_was_cut_off_is_undone(folder):
    path = folder / "run" / FILE
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")  # pages reach the file before the end
        db.execute("PRAGMA cache_spill = 1")
        db.execute("BEGIN")
        for row in range(5, 80):
            insert(db, row, reviewer="ann" * 100)
        cut = {name: (folder / "run" / name).read_bytes() for name in (FILE, f"{FILE}-journal")}
    for name, content in cut.items():
        (folder / "run" / name).write_bytes(content)
    content = cut[FILE]
    path.unlink()
    refused("belongs to a reviews.sqlite that is missing")
    path.write_bytes(content)
    assert Run.open("run").reviews["row"].tolist() == list(range(5))


def test_a_folder_that_cannot_be_written_to(folder, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, **more: connect(name.replace("mode=rwc", "mode=ro"), **more))
    for left in ("a file", "none"):
        (folder / "run" / FILE).unlink() if left == "none" else None
        code, _, err = run_cli(COMMANDS["review"])
        assert (code, err.count("\n")) == (1, 1)
        assert "the folder cannot be written to; copy the run to one that can" in err
