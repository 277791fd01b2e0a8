"""Typeset the equations of the site when it is built: mkdocs calls the functions named `on_...`.

A block ```math is TeX, which code hosts show too. KaTeX writes it as HTML, with MathML for screen readers, so a page needs
no script; its style sheet and fonts are part of the site. `make docs` puts KaTeX into build/katex.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

KATEX = Path(__file__).parents[1] / "build" / "katex" / "node_modules" / "katex"
EQUATION = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RENDER = """
const katex = require(process.argv[1]);
const equations = JSON.parse(require("fs").readFileSync(0, "utf8"));
const options = {displayMode: true, throwOnError: true, strict: "error"};
process.stdout.write(JSON.stringify(equations.map((tex) => katex.renderToString(tex, options))));
"""


def on_files(files: Any, config: Any) -> Any:
    """Add KaTeX's style sheet and fonts."""
    from mkdocs.structure.files import File

    if not KATEX.is_dir():
        raise SystemExit(
            "KaTeX is missing: build the site by `make docs`, which puts it into build/katex (it needs npm)"
        )
    for path in [KATEX / "dist" / "katex.min.css", *sorted((KATEX / "dist" / "fonts").glob("*.woff2"))]:
        name = f"katex/{path.relative_to(KATEX / 'dist').as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    config["extra_css"].append("katex/katex.min.css")
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Return the page with its equations as HTML."""
    equations = EQUATION.findall(markdown)
    if not equations:
        return markdown
    call = ["node", "-e", RENDER, str(KATEX)]
    made = subprocess.run(call, input=json.dumps(equations), capture_output=True, text=True, check=False)
    if made.returncode:
        raise SystemExit(f"an equation cannot be typeset: {made.stderr}")
    html = iter(json.loads(made.stdout))
    return EQUATION.sub(lambda _: f'<div class="equation">{next(html)}</div>', markdown)
