"""A Label Studio server, through its own SDK (extra `label-studio`). The API key is in no message and no file."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError
from ..errors.messages import first_line
from ..files import without_passwords


def read_key(file: Path | None = None) -> str:
    """Return the API key, from a file or the environment."""
    try:
        key = (os.environ.get("LABEL_STUDIO_API_KEY", "") if file is None else file.read_text("utf-8")).strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{file} cannot be read as a file with an API key; check --api-key-file.") from None
    if not key.isascii() or not key.isprintable() or len(key.split()) != 1:
        what = f"The API key {'is not one word of plain characters' if key else 'is missing'}; copy it from Account &"
        raise UsageError(f"{what} Settings in Label Studio into LABEL_STUDIO_API_KEY, or a file for --api-key-file.")
    return key


@contextlib.contextmanager
def connected(url: str, project: int, key: str) -> Iterator[tuple[Any, bytes]]:
    """Yield the SDK's client and the JSON export of a project; what goes wrong until the end is one sentence."""
    try:
        import httpx
        from label_studio_sdk.client import LabelStudio
        from label_studio_sdk.core.api_error import ApiError
    except ImportError as error:
        what = f"Label Studio's server needs its SDK ({error}); `pip install 'pidual[label-studio]'` installs it."
        raise UsageError(what) from None
    try:
        client = LabelStudio(base_url=url.rstrip("/"), api_key=key, timeout=60)
        client.projects.get(project)
        yield client, client.projects.exports.as_file(project).read()
        return
    except ApiError as error:
        status = error.status_code if isinstance(error.body, dict) else None  # a page of another program is text
        what = f"does not answer as Label Studio does (status {error.status_code}); give the address of its start page"
        if status in (401, 403):
            what = "refuses the API key; copy it again from Account & Settings, or ask for access to the project"
        elif status == 404:
            what = f"has no project {project} that this key may see; its number is in its address (/projects/N)"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = f"cannot be reached ({first_line(error) or type(error).__name__}); check the address, and that it runs"
    raise DataError(without_passwords(f"{url} {what}.").replace(key, "***"))
