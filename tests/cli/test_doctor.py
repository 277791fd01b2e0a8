"""`pidual doctor` says what is missing or wrong, how to get it, and fails only where that is needed."""

import importlib.metadata
import json

import pytest
from command_line import run_cli

from pidual import __version__
from pidual.cli import doctor

ASKED = [
    "click>=8.1",
    "torch>=2.13",
    "optuna>=4.3; extra == 'sweep'",
    'timm; extra == "vision"',
    "pidual[a,b]; extra == 'all'",
    "pages[b]<10,>=9.5; extra == 'docs'",
]
HERE = {"click": "8.1.0", "torch": "2.13.0+cpu", "optuna": "5.0.0"}


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Packages that seem to be installed, by their versions; the present folder is an empty one."""
    installed = dict(HERE)

    def version(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ASKED)
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.chdir(tmp_path)
    return installed


def findings(*arguments):
    """Exit code, and the findings by name."""
    code, out, _ = run_cli(["doctor", "--json", *arguments])
    found = json.loads(out)
    assert found["ok"] == (code == 0)
    assert found["pidual"] == __version__
    return code, {check["name"]: check for check in found["checks"]}


def test_all_is_well(here):
    code, found = findings()
    assert (code, found["torch"]["status"], found["sweep"]["status"]) == (0, "ok", "ok")
    assert "pip install 'pidual[vision]'" in found["vision"]["text"]
    assert (found["devices"]["status"], found["devices"]["text"].split(";")[0]) == ("ok", "cpu")


@pytest.mark.parametrize(
    ("torch", "status", "says"),
    [
        (None, "missing", "pip install 'torch>=2.13'"),
        ("2.9.1", "wrong", "2.9.1 is older than 2.13: pip install 'torch>=2.13'"),
    ],
)
def test_what_is_needed_fails(here, torch, status, says):
    here.pop("torch") if torch is None else here.update(torch=torch)
    code, found = findings()
    assert (code, found["torch"]["status"], found["torch"]["text"]) == (1, status, says)
    code, out, _ = run_cli(["doctor"])
    assert (code, out.splitlines()[-1]) == (1, "Not ready: torch.")


def test_an_old_optional_part_is_named(here):
    here["optuna"] = "3.6.0"
    code, found = findings()
    assert (code, found["sweep"]["status"]) == (0, "missing")
    assert "optuna: 3.6.0 is older than 4.3" in found["sweep"]["text"]


def test_a_vision_library_that_does_not_fit_torch_is_named(here, monkeypatch):
    here["timm"] = "1.0"
    monkeypatch.setattr(
        importlib, "import_module", lambda name: (_ for _ in ()).throw(RuntimeError("no operator\nmore"))
    )
    code, found = findings()
    assert (code, found["vision"]["status"]) == (0, "missing")
    assert "timm: does not fit the installed torch (no operator)" in found["vision"]["text"]


def test_the_key_is_checked_beside_the_table_and_never_made(here, tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    code, found = findings(str(folder / "labels.csv"))
    assert (code, list(folder.iterdir())) == (0, [])
    assert "none yet" in found["key"]["text"]
    key = folder / ".pidual.key"
    key.write_text("ab" * 32)
    key.chmod(0o644)
    code, found = findings(str(folder / "labels.csv"))
    assert (code, found["key"]["status"]) == (1, "wrong")
    assert "chmod 600" in found["key"]["text"]
    key.chmod(0o600)
    assert findings(str(folder / "labels.csv"))[0] == 0
    assert key.read_text() not in run_cli(["doctor", str(folder / "labels.csv")])[1]


def test_a_folder_that_cannot_be_written_fails(here, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    code, found = findings()
    assert (code, found["this folder"]["status"]) == (1, "wrong")
    assert "Permission denied" in found["this folder"]["text"]


@pytest.mark.parametrize(("one", "other"), [("2.13.0+cpu", "2.13"), ("3.1", "3.1.0"), ("1.10", "1.10.0rc1")])
def test_versions_that_are_equal(one, other):
    assert doctor.numbers(one) == doctor.numbers(other)
    assert doctor.numbers("1.9") < doctor.numbers("1.10")


def test_the_version_is_printed():
    assert run_cli(["--version"])[:2] == (0, f"pidual, version {__version__}\n")
