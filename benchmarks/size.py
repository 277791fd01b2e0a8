"""Print how large the house is: code, tests, docs, and what one small fit walks through.

    python benchmarks/size.py

Run by `make size`. A function counts once, however often it is called, and so do lambdas and comprehensions; what
happens on import does not count.
"""

import ast
import contextlib
import inspect
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "pidual"
UNTYPED = re.compile(r"\bdict\[str, Any\]|\bRecord\b")


def lines(paths) -> int:
    """Lines of files."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def public_definitions(tree: ast.Module) -> int:
    """Functions and classes at module level whose names do not begin with an underscore."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return sum(isinstance(node, kinds) and not node.name.startswith("_") for node in tree.body)


def untyped_signatures(tree: ast.Module) -> int:
    """How often signatures say `dict[str, Any]` or `Record`."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            kinds = [node.returns, *(argument.annotation for argument in arguments if argument)]
            found += sum(len(UNTYPED.findall(ast.unparse(kind))) for kind in kinds if kind)
    return found


def walk_of_a_fit() -> tuple[int, int, int]:
    """Files and functions of pidual that a `pidual fit` of a small table visits, and its opens of config.json."""
    import pandas as pd

    import pidual
    from pidual.cli import main

    package, seen, opens = str(Path(inspect.getfile(pidual)).parent) + os.sep, set(), []
    assert package == f"{SRC}{os.sep}", f"pidual is of {package}, not of this checkout; set PYTHONPATH={SRC.parent}"

    def enter(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package):
            seen.add(code)

    def audit(event, arguments):
        if event == "open" and str(arguments[0]).endswith("config.json") and "r" in (arguments[1] or "r"):
            opens.append(arguments[0])

    made = pidual.make_crowd(60, 6, 3, 3, 4, n_test=1)
    words = "pidual fit labels.csv -q --x-columns f* --pi annotator,seconds --out"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(".pidual.key").touch(mode=0o600)
        Path(".pidual.key").write_text("5a" * 32)
        inputs = pd.DataFrame(made.x[made.frame["item"].to_numpy()]).add_prefix("f")
        made.frame.join(inputs).to_csv("labels.csv", index=False)
        quiet = (contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()))
        sys.addaudithook(audit)
        for out, profile in (("imports", None), ("run", enter)):  # the first one imports what is needed
            opens.clear()
            with quiet[0], quiet[1], mock.patch.object(sys, "argv", [*words.split(), out]):
                sys.setprofile(profile)
                try:
                    main()
                except SystemExit:
                    finished = Path(out, "summary.json").exists()
                finally:
                    sys.setprofile(None)
            assert finished, "the fit failed"
    return len({code.co_filename for code in seen}), len(seen), len(opens)


def sizes() -> dict[str, str]:
    """What is counted, by name."""
    code, pages = sorted(SRC.rglob("*.py")), sorted((ROOT / "docs").rglob("*.md"))
    trees = [ast.parse(path.read_text()) for path in code]
    files, functions, opens = walk_of_a_fit()
    return {
        "lines of src/pidual": f"{lines(code):,}",
        "Python files": f"{len(code):,}",
        "public definitions at module level": f"{sum(map(public_definitions, trees)):,}",
        "files / functions that one `pidual fit` of a small table visits": f"{files:,} / {functions:,}",
        "opens of config.json in that command": f"{opens:,}",
        "`dict[str, Any]` or `Record` in signatures": f"{sum(map(untyped_signatures, trees)):,}",
        "lines of tests": f"{lines((ROOT / 'tests').rglob('*.py')):,}",
        "pages / words of docs": f"{len(pages):,} / {sum(len(page.read_text().split()) for page in pages):,}",
    }


if __name__ == "__main__":
    for name, size in sizes().items():
        print(f"{name:66} {size:>15}")
