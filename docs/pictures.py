"""Photograph the report and the review page that two Start pages make: figures/report.png and figures/review.png.

    python docs/pictures.py          # needs playwright, and Chromium on the path

The other pictures of the Start pages are drawn by their own code (`start_pages.py`).
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from start_pages import DOCS, run

QUIET = ["--no-sandbox", "--disable-background-networking"]
WIDTH = 900


@contextmanager
def serving(run_directory: str) -> Iterator[str]:
    """The review page of a run, at an address."""
    command = [sys.executable, "-m", "pidual", "review", run_directory, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            server.terminate()


def photograph(browser: Any, address: str, name: str, *, height: int, reviewer: str = "") -> None:
    """Write the top of a page, where it asks for a name with this one."""
    page = browser.new_page(viewport={"width": WIDTH, "height": height})
    page.goto(address)
    if reviewer:
        page.keyboard.type(reviewer)
        page.keyboard.press("Enter")
    page.wait_for_timeout(1000)
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(64).save(DOCS / "figures" / name, optimize=True)
    page.close()


def main() -> None:
    """Make both pictures, in a folder that is removed again."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)
        for page in ("start_csv", "start_label_studio"):
            run((DOCS / f"{page}.md").read_text())
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        photograph(browser, Path("runs/labels/report.html").resolve().as_uri(), "report.png", height=1180)
        with serving("runs/export") as address:
            photograph(browser, address, "review.png", height=760, reviewer="ann")
        browser.close()
        os.chdir(DOCS)


if __name__ == "__main__":
    main()
