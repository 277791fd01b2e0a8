"""Build wheel and source distribution whose README works on a package index: `make dist ADDRESS=https://host/owner/name`.

    python docs/address.py https://host/owner/name [--out dist]

An index shows README.md without the repository around it. In a copy of the last commit, links become addresses of pages
(ADDRESS/blob/main/...) and pictures addresses of files (ADDRESS/raw/main/...), the package names its source, docs and
issues, and the copy is built. Without an address, `make dist` builds the checkout as it is.
"""

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?://|#)([^)\s]+)\)")  # of Markdown; not absolute, not within the page


def absolute(text: str, address: str) -> str:
    """README with absolute links; those within the page stay."""
    base = {True: f"{address}/raw/main/", False: f"{address}/blob/main/"}
    return LINK.sub(lambda link: f"{link[1]}({base[link[1].startswith('!')]}{link[2]})", text)


def urls(address: str) -> str:
    """Lines of [project.urls] in pyproject.toml."""
    pages = {"Source": "", "Documentation": "/blob/main/docs/index.md", "Issues": "/issues"}
    return "".join(f'{name} = "{address}{page}"\n' for name, page in pages.items())


def readdress(folder: Path, address: str) -> None:
    """Change README.md and pyproject.toml in a copy of the repository."""
    address = address.rstrip("/")
    readme, project = folder / "README.md", folder / "pyproject.toml"
    readme.write_text(absolute(readme.read_text(), address))
    head, paper, rest = project.read_text().partition("Paper = ")
    project.write_text(head + urls(address) + paper + rest)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
        readdress(Path(folder), arguments.address)
        command = [sys.executable, "-m", "build", "--outdir", str(arguments.out.absolute()), folder]
        sys.exit(subprocess.run(command, check=False).returncode)
