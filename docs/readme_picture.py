"""Photograph the report that `pidual demo` makes: figures/demo_report.png, the picture in README.md.

    python docs/readme_picture.py [RUN]    # RUN: runs/demo/digits-low-latent_truth, else the demo is run

Needs playwright, and Chromium on the path.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FIGURE = Path(__file__).parent / "figures" / "demo_report.png"
RUN = "digits-low-latent_truth"
SIZE = {"width": 1000, "height": 1160}


def photograph(report: Path) -> None:
    """Write the top of the page in 64 colours."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport=SIZE)
        page.goto(report.resolve().as_uri())
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    FIGURE.parent.mkdir(exist_ok=True)
    picture.convert("RGB").quantize(64).save(FIGURE, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        photograph(Path(sys.argv[1]) / "report.html")
    else:
        with tempfile.TemporaryDirectory() as folder:  # the page names the directory as the command does: runs/demo
            subprocess.run([sys.executable, "-m", "pidual", "demo", "--quiet"], cwd=folder, check=True)
            photograph(Path(folder) / "runs" / "demo" / RUN / "report.html")
