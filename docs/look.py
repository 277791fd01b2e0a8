"""Photograph pages of the built site at two widths, light and dark, and check what they load.

    python docs/look.py [PAGE ...]         # into build/screenshots; without names, every page

Ends with 1 if a page asks anybody else for anything, is wider than the screen, or logs an error. Needs Chromium and
`pip install playwright`.
"""

import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

SITE = Path(__file__).parents[1] / "build" / "site"
OUT = Path(__file__).parents[1] / "build" / "screenshots"
WIDTHS = (1280, 390)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that does not log."""

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def main(pages: list[str]) -> int:
    """Photograph pages, and return how many of them are wrong."""
    pages = pages or [path.parent.relative_to(SITE).as_posix() for path in sorted(SITE.rglob("index.html"))]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home, wrong = f"http://127.0.0.1:{server.server_port}/", set()
    OUT.mkdir(parents=True, exist_ok=True)
    options = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox", "--disable-background-networking"]}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        for width, scheme in ((width, scheme) for width in WIDTHS for scheme in ("light", "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name in pages:
                found: list[str] = []
                page = context.new_page()
                page.on("request", lambda request, found=found: found.extend(_elsewhere(request.url, home)))
                page.on("console", lambda said, found=found: found.extend([said.text] * (said.type == "error")))
                page.goto(f"{home}{name}/", wait_until="load")
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found.append("wider than the screen")
                page.screenshot(path=OUT / f"{name.strip('./').replace('/', '-') or 'home'}-{width}-{scheme}.png")
                page.close()
                for what in found:
                    wrong.add(name)
                    print(f"{name}, {width} px, {scheme}: {what}")
        browser.close()
    print(f"{len(pages)} pages in {OUT}; {len(wrong)} wrong")
    return len(wrong)


def _elsewhere(url: str, home: str) -> list[str]:
    return [] if url.startswith((home, "data:", "blob:")) else [f"asks for {url}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
