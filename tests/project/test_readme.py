"""What README.md shows is what happens: its code, the output beside it, its table, its links; and lines are short."""

import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import run_cli

pytestmark = pytest.mark.shapes_unchecked

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CROWDS = {
    "LabelMe": "labelme",
    "CIFAR-10S": "cifar10s",
    "CIFAR-100 SM500": "cifar100_sm500",
    "Medical": "medical_treat",
    "Language models": "llm_emotion",
}
PEERS = ["auto", "crowdlab", "dawid_skene", "mace", "glad", "crowd_layer"]
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
SECONDS = r"\d+ s\b"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def assert_like(shown, printed):
    """The same words, and numbers that differ by no more than processors do; times are any, and dots cut a line."""
    for line, whole in zip(shown.splitlines(), printed.splitlines(), strict=False):
        if line.endswith(" ...") and whole.startswith(line[:-4]):
            printed = printed.replace(whole, line)
    shown, printed = (re.sub(SECONDS, "N s", text).strip() for text in (shown, printed))
    words = [re.sub(rf"{NUMBER}| +", " ", text).split() for text in (shown, printed)]
    assert words[0] == words[1], printed
    numbers = [[float(number.replace(",", "")) for number in re.findall(NUMBER, text)] for text in (shown, printed)]
    assert numbers[1] == pytest.approx(numbers[0], rel=0.05, abs=0.05), printed


def session():
    """Calls of the console block, each with what is shown below it."""
    (text,) = blocks("console")
    for part in text.split("$ ")[1:]:
        command, _, shown = part.partition("\n")
        yield shlex.split(command, comments=True), shown


def test_lines_are_short():
    assert [line for line in README.splitlines() if len(line) > 120] == []


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://") and not (ROOT / link).exists()] == []


def test_the_code_prints_what_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, files, loop = blocks("python")
    names = {}
    for code, shown in zip((first, loop), blocks("text"), strict=True):
        exec(compile(code, "README.md", "exec"), names)
        assert_like(shown, capsys.readouterr().out)
    exec(compile(files, "README.md", "exec"), names)
    codes = []
    for (program, *arguments), shown in session():
        assert program == "pidual"
        code, out, _ = run_cli(arguments, one_stream=True)
        codes.append(code)
        assert_like(shown, out)
    assert codes == [0, 0, 0]


def test_the_comparison_is_of_the_committed_results():
    rows = json.loads((ROOT / "benchmarks" / "results" / "crowds.json").read_text())["results"]
    found = {(row["data"], row["method"]): row for row in rows}
    table = README.split("## How it compares")[1].split("\n## ")[0]
    for crowd, data in CROWDS.items():
        (line,) = re.findall(rf"^\| {re.escape(crowd)} \| (.+) \|$", table, re.MULTILINE)
        cells = [cell.split(" / ") for cell in line.split(" | ")]
        for column, (name, form, times) in enumerate((("consensus", ".1f", 100), ("auc", ".3f", 1))):
            values = [format(times * found[data, method][name]["mean"], form) for method in PEERS]
            best = max(values, key=float)
            assert [cell[column] for cell in cells] == [f"**{v}**" if v == best else v for v in values], (crowd, name)
    (line,) = re.findall(r"^\| processor seconds, all five \| (.+) \|$", table, re.MULTILINE)
    timed = json.loads((ROOT / "benchmarks" / "results" / "crowds_seconds.json").read_text())["results"]
    seconds = [sum(row["seconds"]["mean"] for row in timed if row["method"] == method) for method in PEERS]
    assert {row["data"] for row in timed} == set(CROWDS.values())
    assert len(timed) == len(CROWDS) * len(PEERS)
    assert line.split(" | ") == [f"**{s:.1f}**" if s == min(seconds) else f"{s:.1f}" for s in seconds]
    state, right = (found["llm_emotion", "auto"][name]["mean"] for name in ("stated", "consensus"))
    assert f"the consensus states {state:.0%} and is right for {right:.0%}" in " ".join(README.split())


def test_cross_entropy_in_the_same_loop_gives_what_is_said(capsys):
    first, _, loop = blocks("python")
    loss = re.search(r"loss\(f\(x\[index\].*\)(?=\.backward)", loop)[0]
    names = {}
    exec(compile(first, "README.md", "exec"), names)
    exec(
        compile(loop.replace(loss, "torch.nn.functional.cross_entropy(f(x[index]), y[index])"), "README.md", "exec"),
        names,
    )
    said = re.search(r"the same lines give (\d+)%", README)[1]
    assert names["correct"].float().mean().item() == pytest.approx(int(said) / 100, abs=0.05)
