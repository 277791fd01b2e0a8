"""Make every result file again, one script after the other: `make results`.

    PIDUAL_DATA=DIR python benchmarks/make_results.py [--only crowds,gold] [--list] [--start-over]

A step moves its old files to build/results/before, runs its commands, and is noted in build/results/done.json with the
time it took. Stop it whenever you like: called again, it goes on with the step that was stopped, whose script continues
by its own log, and does not repeat steps that are done. --start-over forgets them. A step that fails is named at the
end, and the others go on. Then `make docs` writes the numbers into the pages.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from common import RESULTS

from pidual.files import write_text

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "results"
RECIPES = "cifar10_pi:high,cifar10_pi:low,digits_pi:high,digits_pi:low,cifar10s,labelme"
HUMAN = "benchmark cifar10n,cifar100n --scale cpu --tune"


@dataclass(frozen=True)
class Step:
    """Commands that make some result files.

    Parameters
    ----------
    commands : tuple of str
        A script of benchmarks/ with its options, or a command of pidual.
    files : tuple of str
        What they write, as patterns in benchmarks/results.
    hours : float
        About how long they take on one free core.
    page : str
        Page of docs that shows it; empty if none does.
    """

    commands: tuple[str, ...]
    files: tuple[str, ...]
    hours: float
    page: str = ""


def script(name: str, hours: float, page: str = "", *files: str, options: str = "") -> Step:
    """Return the step of a script that writes the files of its own name."""
    return Step((f"{name}.py {options}".strip(),), files or (f"{name}.json", f"{name}.jsonl"), hours, page)


STEPS = {
    "crowds": script("crowds", 5, "evidence.md"),
    "crowds_embedded": script(
        "crowds",
        1.5,
        "evidence.md",
        "crowds_embedded.json",
        "crowds_embedded.jsonl",
        options="--only embedded --methods auto,crowdlab --out benchmarks/results/crowds_embedded.json",
    ),
    "crowds_seconds": script(
        "crowds",
        0.1,
        "",  # README
        "crowds_seconds.json",
        "crowds_seconds.jsonl",
        options="--seeds 1 --only real --methods auto,crowdlab,dawid_skene,mace,glad,crowd_layer "
        "--out benchmarks/results/crowds_seconds.json",
    ),
    "embedded": script("embedded", 0.3, "evidence.md", "embedded.jsonl"),
    "real_crowds": script("real_crowds", 0.5, "settings.md"),
    "gold": script("gold", 1, "evidence.md"),
    "judges": script("judges", 0.3, "for/llm_judges.md"),
    "pairs": script("pairs", 0.3, "pairs.md", options="benchmarks/results/pairs.json"),
    "sets": Step(
        (
            "sets.py planted benchmarks/results/sets.json --seeds 2",
            "sets.py crowd benchmarks/results/sets.json",
            "sets.py scale benchmarks/results/sets.json --items 1000",
            "sets.py scale benchmarks/results/sets.json --items 100000",
            "sets.py parts benchmarks/results/sets.json --items 100000 --fitted 12",
        ),
        ("sets.json",),
        0.3,
        "multi_label.md",
    ),
    "stress": script("stress", 0.5, "evidence.md", "stress.json", "stress.jsonl"),
    "stress_redrawn": script("stress", 0.5, "evidence.md", "stress_redrawn.json", options="--redraw 9,24,7,30"),
    "idle_pi": script("idle_pi", 1, "evidence.md"),
    "detection": script("detection", 4, "detection.md"),
    "cutoffs": script("cutoffs", 1, "detection.md"),
    "planted": script("planted", 0.7, options="--seeds 2 --first 2"),
    "closed_form_choices": script("closed_form_choices", 1.5, "settings.md"),
    "settings": script("settings", 2, "settings.md"),
    "settings_images": script(
        "settings", 2, "settings.md", "settings_images.json", "settings_images.jsonl", options="--images --seeds 2"
    ),
    "random_pi": script("settings", 0.3, "settings.md", "random_pi.json", "random_pi.jsonl", options="--random-pi"),
    "simulate_review": script("simulate_review", 1, "loop.md"),
    "judge": script("judge", 0.5, "for/own_model.md"),
    "new_answers": script("new_answers", 0.05, "new_answers.md", "new_answers.json"),
    "growth": script("growth", 0.4, "training.md"),
    "overhead": script("overhead", 0.2, "compared.md"),
    "threads": script("threads", 0.2, "settings.md"),
    "memory": script("memory", 1, "for/scale.md"),
    "allocator": script("allocator", 0.2),
    "one_row": script("one_row", 0.05),
    "review": script("review", 0.2, "review.md", options="--out benchmarks/results/review.json"),
    "methods": script("methods", 8, "paper/results.md"),
    "symmetric_noise": script("symmetric_noise", 1.5, "paper/results.md"),
    "pi_information": script("pi_information", 0.5, "paper/results.md"),
    "sample_memory": script("sample_memory", 0.3, "paper/results.md"),
    "theory": script("theory", 0.05, "paper/reproduce.md"),
    "benchmark": Step(
        (
            f"pidual {HUMAN} --out build/results/human --quiet",
            f"pidual {HUMAN} --out build/results/human --quiet --analysis dynamics",
            "pack.py build/results/human",
            f"pidual {HUMAN} --out build/results/controls --quiet --analysis controls",
            "pack.py build/results/controls --into benchmarks/results/controls",
            f"pidual benchmark {RECIPES} --out build/results/recipes --quiet",
            "what_if.py --out build/results/recipes",
            "pack.py build/results/recipes",
        ),
        ("benchmark/*.jsonl", "benchmark/analyses/*", "controls/*.jsonl"),
        12,
        "paper/results.md",
    ),
}


def table() -> str:
    """Return the steps as a table in Markdown, for docs/paper/reproduce.md."""
    rows = ["| step | commands | result files | about | shown on |", "|---|---|---|---|---|"]
    for name, step in STEPS.items():
        page = f"[{step.page}]({os.path.relpath(step.page, 'paper')})" if step.page else "no page"
        commands = "<br>".join(f"`{_typed(command)}`" for command in step.commands)
        files = ", ".join(f"`{file}`" for file in step.files)
        rows.append(f"| {name} | {commands} | {files} | {step.hours:g} h | {page} |")
    return "\n".join(rows)


def _called(command: str) -> list[str]:
    """Return the words by which this Python runs a command."""
    first, *words = shlex.split(command)
    return [sys.executable, *(["-m", first] if first == "pidual" else [f"benchmarks/{first}"]), *words]


def _typed(command: str) -> str:
    """Return a command as one types it."""
    return command if command.startswith("pidual ") else f"python benchmarks/{command}"


def main() -> None:
    """Run the steps that are wanted and not done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(STEPS), help="steps, with commas")
    parser.add_argument("--list", action="store_true", help="say what there is to do, and how long it takes")
    parser.add_argument("--start-over", action="store_true", help="forget which steps are done")
    args = parser.parse_args()
    if unknown := set(args.only) - set(STEPS):
        sys.exit(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    done = {} if args.start_over else _read_done()
    left = [name for name in args.only if "seconds" not in done.get(name, {})]
    print(
        f"{len(left)} of {len(args.only)} steps, about {sum(STEPS[name].hours for name in left):.1f} hours on one core"
    )
    for name in [] if args.list else left:
        run(name, STEPS[name], done)
    for name in left if args.list else []:
        print(f"{STEPS[name].hours:5.1f} h  {name}: {'; '.join(STEPS[name].commands)}")
    failed = [name for name in args.only if "failed" in done.get(name, {})]
    if failed and not args.list:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, step: Step, done: dict[str, dict[str, object]]) -> None:
    """Run the commands of a step, on one thread; begin with no result files unless it was stopped on the way."""
    if name not in done:
        _move_aside(step)
    done[name] = {"begun": time.strftime("%Y-%m-%d %H:%M")}
    _write_done(done)
    started = time.monotonic()
    for command in step.commands:
        print(f"{name}: {command}", flush=True)
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        code = subprocess.run(_called(command), cwd=ROOT, env={**os.environ, **threads}, check=False).returncode
        if code:
            done[name] |= {"failed": f"{command} ended with {code}"}
            _write_done(done)
            print(f"{name}: {done[name]['failed']}", flush=True)
            return
    done[name] |= {"seconds": round(time.monotonic() - started)}
    _write_done(done)


def _move_aside(step: Step) -> None:
    for path in (path for pattern in step.files for path in sorted(RESULTS.glob(pattern))):
        before = BUILD / "before" / path.relative_to(RESULTS)
        before.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, before)


def _read_done() -> dict[str, dict[str, object]]:
    path = BUILD / "done.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _write_done(done: dict[str, dict[str, object]]) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    write_text(BUILD / "done.json", json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main()
