"""`pidual doctor`: whether this machine has what pidual needs, and what could be added."""

import importlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click

from .. import __version__
from ..errors import UsageError
from .options import PATH, json_option

EXTRAS = ("review", "sweep", "onnx", "hf", "text", "label-studio", "vision")
Check = tuple[str, str, str]  # name, "ok" or what is wrong in one word, and what was found


@click.command()
@click.argument("table", required=False, type=PATH)
@json_option()
def doctor(table: Path | None, as_json: bool) -> None:
    """Check this installation.

    Checks versions, threads, devices, optional parts, write access and the key of the pseudonyms, with TABLE the key
    beside that table. Exits with 1 if a required part is missing or wrong.
    """
    checks = [*_packages(), *_devices(), *_places(Path.cwd() if table is None else table.parent)]
    bad = [name for name, status, _ in checks if status != "ok" and name not in EXTRAS]
    about = {"pidual": __version__, "python": platform.python_version(), "platform": platform.platform()}
    if as_json:
        found = [dict(zip(("name", "status", "text"), check, strict=True)) for check in checks]
        click.echo(json.dumps({"ok": not bad, **about, "checks": found}, indent=2))
    else:
        click.echo("pidual {pidual}, Python {python}, {platform}".format(**about))
        for name, status, text in checks:
            click.echo(f"  {status:8}{name:18}{text}")
        click.echo(f"Not ready: {', '.join(bad)}." if bad else "Ready.")
    sys.exit(1 if bad else 0)


def _packages() -> Iterator[Check]:
    """Check every package that pidual asks for, and every extra by its packages."""
    try:
        lines = metadata.requires("pidual") or []
    except metadata.PackageNotFoundError:
        yield "pidual", "wrong", "runs from a folder and is not installed: pip install pidual"
        return
    found: dict[str, list[Check]] = {}
    for line in lines:
        wanted, _, marker = line.partition(";")
        parts = re.search(r"[\w.-]+", wanted), re.search(r"(?<=>=)[\d.]+", wanted), re.search(r"(?<== .)\w+", marker)
        name, lowest, extra = (part[0] if part else "" for part in parts)
        if extra in ("", *EXTRAS):
            found.setdefault(extra, []).append((name, *_version(name, lowest)))
    yield from found.pop("")
    for extra, checks in found.items():
        bad = [f"{name}: {text}" for name, status, text in checks if status != "ok"]
        versions = ", ".join(f"{name} {version}" for name, _, version in checks)
        missing = f"optional; pip install 'pidual[{extra}]' ({bad[0]})" if bad else ""
        yield extra, "missing" if bad else "ok", missing or versions


def _version(name: str, lowest: str) -> tuple[str, str]:
    """Return the status of a package, and its version or what is wrong."""
    try:
        found = metadata.version(name)
        if name in ("torchvision", "timm"):  # their wheels fit one build of torch each
            importlib.import_module(name)
    except metadata.PackageNotFoundError:
        return "missing", f"pip install '{name}{f'>={lowest}' if lowest else ''}'"
    except (ImportError, RuntimeError) as error:
        return "wrong", f"does not fit the installed torch ({str(error).splitlines()[0]})"
    if numbers(found) < numbers(lowest):
        return "wrong", f"{found} is older than {lowest}: pip install '{name}>={lowest}'"
    return "ok", found


def numbers(version: str) -> list[int]:
    """Return the numbers a version begins with, without zeros at the end: 2.13.0+cpu is [2, 13]."""
    return [int(part) for part in re.sub(r"(\.0*)*$", "", re.split(r"[^\d.]", version)[0]).split(".") if part]


def _devices() -> Iterator[Check]:
    """Load torch, and list what it can compute on."""
    try:
        import torch
    except (ImportError, OSError) as error:
        yield "devices", "wrong", f"torch cannot be loaded ({error}); install it again"
        return
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    names += ["mps"] if torch.backends.mps.is_available() else []
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    yield "devices", "ok", f"{', '.join(names) or 'cpu'}; {os.cpu_count()} cores, OMP_NUM_THREADS {threads}"


def _places(folder: Path) -> Iterator[Check]:
    """Check the folder that runs go below, and the key of the pseudonyms beside a table; none is made."""
    try:
        tempfile.TemporaryFile(dir=Path.cwd()).close()
        yield "this folder", "ok", str(Path.cwd())
    except OSError as error:
        yield "this folder", "wrong", f"{Path.cwd()} cannot be written ({error.strerror}); use another folder"
    try:
        from ..data.people import KEY_NAME, load_key

        path, text = folder / KEY_NAME, "none yet; it is created when a table there is first read"
        if path.exists():
            load_key(path)
            text = "traces pseudonyms back to people; keep it secret"
        yield "key", "ok", f"{path}: {text}"
    except (ImportError, UsageError) as error:  # of a package that is missing, or a key that is none
        yield "key", "wrong", str(error)
