"""`pidual doctor`: whether this machine has what pidual needs, and what could be added."""

import importlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from .. import __version__
from ..errors import UsageError
from .options import PATH, json_option

EXTRAS = {
    "review": "review labels in a browser (`pidual review`)",
    "sweep": "search the options of a method (`pidual sweep`)",
    "onnx": "export the network as ONNX (`pidual export --to onnx`)",
    "hf": "read datasets of Hugging Face (`pidual fit FOLDER`)",
    "vision": "networks of other libraries (`--network torchvision:NAME` or `timm:NAME`)",
}
BROKEN = ("missing", "wrong")


@dataclass(frozen=True)
class Check:
    """One finding; it is `needed` where pidual does not work without it."""

    part: str
    name: str
    status: str  # ok, note, missing or wrong
    text: str
    needed: bool = False


@click.command()
@click.argument("table", required=False, type=PATH)
@json_option()
def doctor(table: Path | None, as_json: bool) -> None:
    """Check this installation.

    Checks versions, threads, devices, optional parts, write access and the key of the pseudonyms, with TABLE the key
    beside that table. Exits with 1 if a required part is missing or wrong.
    """
    folder = Path.cwd() if table is None else table.parent
    checks = [*needed_packages(), *processor(), *devices(), *optional_parts(), *places(), key_file(folder)]
    bad = [check for check in checks if check.needed and check.status in BROKEN]
    if as_json:
        about = {"pidual": __version__, "python": platform.python_version(), "platform": platform.platform()}
        click.echo(json.dumps({"ok": not bad} | about | {"checks": [asdict(check) for check in checks]}, indent=2))
    else:
        click.echo(f"pidual {__version__}, Python {platform.python_version()}, {platform.platform()}")
        for part in dict.fromkeys(check.part for check in checks):
            click.echo(f"\n{part}")
            for check in (one for one in checks if one.part == part):
                click.echo(f"  {check.status:8}{check.name:18}{check.text}")
        listed = ", ".join(check.name for check in bad)
        click.echo(f"\n{f'Not ready: {listed}.' if bad else 'Ready.'}")
    if bad:
        sys.exit(1)


def requirements() -> Iterator[tuple[str, str, str]]:
    """Package, lowest version ("" for any) and extra ("" for none) of everything the installed pidual asks for."""
    for line in importlib.metadata.requires("pidual") or []:
        wanted, _, marker = line.partition(";")
        name, lowest, extra = (
            re.search(pattern, text)
            for pattern, text in ((r"[\w.-]+", wanted), (r"(?<=>=)[\d.]+", wanted), (r"(?<=extra == .)[\w-]+", marker))
        )
        yield name[0] if name else wanted, lowest[0] if lowest else "", extra[0] if extra else ""


def package(name: str, lowest: str) -> tuple[str, str]:
    """Return the status of a package, and its version or what is wrong."""
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing", f"pip install '{name}{f'>={lowest}' if lowest else ''}'"
    if lowest and numbers(found) < numbers(lowest):
        return "wrong", f"{found} is older than {lowest}: pip install '{name}>={lowest}'"
    return "ok", found


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers a version begins with, without zeros at the end: 2.13.0+cpu is (2, 13)."""
    parts = [int(part) for part in re.findall(r"\d+", (re.match(r"[\d.]*", version) or [""])[0])]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def needed_packages() -> Iterator[Check]:
    """Check Python, and every package that pidual needs."""
    enough = sys.version_info >= (3, 11)
    yield Check("needed", "python", "ok" if enough else "wrong", f"{platform.python_version()} (3.11 or newer)", True)
    try:
        wanted = [(name, lowest) for name, lowest, extra in requirements() if not extra]
    except importlib.metadata.PackageNotFoundError:
        yield Check("needed", "pidual", "wrong", "runs from a folder and is not installed: pip install pidual", True)
        return
    for name, lowest in wanted:
        yield Check("needed", name, *package(name, lowest), needed=True)


def processor() -> Iterator[Check]:
    """Count cores and threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = os.environ.get("OMP_NUM_THREADS")
    asked = f"OMP_NUM_THREADS is {threads}" if threads else "OMP_NUM_THREADS is not set"
    yield Check("machine", "threads", "ok", f"{cores} cores; {asked}; small networks use one thread (--threads)")


def devices() -> Iterator[Check]:
    """Check the devices that torch can use; it is loaded only if it was built for any but the processor."""
    try:
        files = importlib.metadata.files("torch") or []
        source = next(file for file in files if str(file) == "torch/version.py").read_text()
    except (importlib.metadata.PackageNotFoundError, StopIteration, OSError):
        return
    built_for = re.findall(r"^(cuda|hip)\b.*= ['\"]([\d.]+)", source, re.MULTILINE)
    if not built_for and sys.platform != "darwin":
        yield Check("machine", "devices", "ok", "cpu (this torch is built for CPUs only)")
        return
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    names += ["mps"] if torch.backends.mps.is_available() else []
    kind = " ".join(f"{name} {version}" for name, version in built_for)
    none = f"cpu; torch is built for {kind} and finds no device" if kind else "cpu"
    yield Check("machine", "devices", "ok" if names or not kind else "note", ", ".join(names) or none)


def optional_parts() -> Iterator[Check]:
    """Check every extra: whether it is installed, what it is for, and how to get it."""
    try:
        wanted = list(requirements())
    except importlib.metadata.PackageNotFoundError:
        return
    for extra, purpose in EXTRAS.items():
        found = {name: package(name, lowest) for name, lowest, of in wanted if of == extra}
        states = {name: status for name, (status, _) in found.items()}
        if "wrong" in states.values():
            text = "; ".join(f"{name} {text}" for name, (status, text) in found.items() if status == "wrong")
            yield Check("optional", extra, "wrong", text)
        elif "missing" in states.values():
            yield Check("optional", extra, "missing", f"{purpose}: pip install 'pidual[{extra}]'")
        elif broken := first_broken(found):
            yield Check("optional", extra, "wrong", broken)
        else:
            versions = ", ".join(f"{name} {text}" for name, (_, text) in found.items())
            yield Check("optional", extra, "ok", f"{purpose}: {versions}")


def first_broken(names: dict[str, tuple[str, str]]) -> str | None:
    """Return what is wrong with torchvision or timm: their wheels fit one build of torch each."""
    for name in (name for name in names if name in ("torchvision", "timm")):
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError) as error:
            return f"{name} does not fit the installed torch ({str(error).splitlines()[0]}); install its matching build"
    return None


def places() -> Iterator[Check]:
    """Check where pidual writes: runs go below this folder, temporary files to the system's."""
    for name, folder in (("this folder", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        try:
            with tempfile.TemporaryFile(dir=folder):
                free = shutil.disk_usage(folder).free / 1e9
        except OSError as error:
            text = f"{folder} cannot be written ({error.strerror}); use another folder"
            yield Check("places", name, "wrong", text, True)
        else:
            yield Check("places", name, "ok" if free > 1 else "note", f"{folder}, {free:,.1f} GB free", True)


def key_file(folder: Path) -> Check:
    """Check the key of the pseudonyms in a folder of tables; none is made."""
    try:
        from ..data.people import KEY_NAME, load_key
    except ImportError as error:
        return Check("places", "key", "note", f"not checked ({error})")
    path = folder / KEY_NAME
    if not path.exists():
        return Check("places", "key", "ok", f"{path}: none yet; it is created when a table there is first read")
    try:
        load_key(path)
    except UsageError as error:
        return Check("places", "key", "wrong", str(error), True)
    return Check("places", "key", "ok", f"{path}: traces pseudonyms back to people; keep it secret")
