"""The analyses of the paper: each makes a table and a figure from the result files of a benchmark.

    dynamics         how f and the noise network answer on correct and on wrong rows, epoch by epoch
    distributions    confidence and gate of correct and of wrong rows
    examples         images whose gate says that the label is wrong
    corrupted_pi     random PI on a share of the rows
    importance       one PI column left out at a time
    ablations        without the gate or the noise network, the gate on probabilities, random PI alone, a noise network
                     that sees x, TRAM's loss
    controls         random PI alone, PI shuffled among rows, short random PI, an oracle as PI; cross-entropy with
                     dropout, and at the other learning rates of the recipe's search
    size             width and depth of the noise and gate networks, and another prediction network
    early_stopping   the selected epoch against the last
    cost             parameters, and seconds of a step relative to cross-entropy

Fits that a benchmark has done already are not done again.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data import Inputs
from ..data.datasets.base import NoisyDataset
from ..errors import UsageError
from ..learn.methods import METHODS
from ..show.report.figures import ALERT, CALM, INK, MUTED
from .ablations import ABLATED
from .recipes import Recipe
from .runs import Fit, plan
from .score import BINS, Result, prepare_data, try_out
from .summary import draw_rows, panel, summarise, write_csv, write_svg

SHARES = (0.25, 0.5, 0.75, 1.0)
DEPTHS = (2, 3, 4)
ABLATIONS: Mapping[str, Mapping[str, Any]] = {  # by the names of the paper's numbers
    "no gate": {"use_gate": False},
    "no noise network": {"use_noise": False},
    "gate on probabilities": {"gate_on": "probabilities"},
    "only random PI": {"only_random_pi": True},
    "eps(x, a)": {"noise_input": "x_and_pi"},
    "TRAM's loss": {"tram_loss": 1.0},
}
CONTROLS: Mapping[str, Mapping[str, Any]] = {
    "only random PI": {"only_random_pi": True},
    "shuffled PI": {"shuffle_pi": True},
    "random PI 8": {"random_pi": 8},
    "oracle PI": {"oracle_pi": True},
}
COST_STEPS, COST_ROUNDS = 10, 3
PAIR = ("ce", "pi_dual")

Run = Callable[[Sequence[Fit]], list[Result]]  # does fits, or finds their results


# --- what happened in a fit ---


def dynamics(recipe: Recipe, run: Run, methods: Sequence[str] = PAIR) -> pd.DataFrame:
    """Epoch by epoch, how often a network answers with the given label, on correctly and on wrongly labelled rows.

    Returns
    -------
    DataFrame
        method (without PI also at the other rates of the recipe's search), epoch; f_correct, f_wrong, noise_correct,
        noise_wrong on training rows; test_accuracy. All of the last attempt, where the guard made several; on samples
        of rows (`Recipe.watched`).
    """
    staged = [method for method in methods if METHODS[method].stages > 1]
    if staged:
        raise UsageError(f"dynamics are of one training from beginning to end; '{staged[0]}' has several stages.")
    names = ["f_correct", "f_wrong", "noise_correct", "noise_wrong", "test_accuracy"]
    rows = []
    fits = plan(recipe, methods, 1) + _other_rates(recipe, methods, 1)
    for result in run(sorted(fits, key=lambda fit: methods.index(fit.method))):
        last = max(record["attempt"] for record in result["history"])
        rows += [
            {
                "method": ", ".join(filter(None, [result["method"], result["variant"]])),
                "epoch": record["epoch"],
                **{name: record.get(name) for name in names},
            }
            for record in result["history"]
            if record["attempt"] == last and "f_correct" in record
        ]
    return pd.DataFrame(rows, columns=["method", "epoch", *names]).astype(dict.fromkeys(names, float))


def _draw_dynamics(path: Path, table: pd.DataFrame) -> None:
    """Draw a panel for every network: on correct rows, on wrong rows, and on the test set."""
    panels = [(method, "f", rows) for method, rows in table.groupby("method", sort=False)]
    panels += [(method, "noise", rows) for method, _, rows in panels if rows["noise_correct"].notna().any()]
    names = {"f": "prediction network", "noise": "noise network"}

    def draw(axes: Sequence[Any]) -> None:
        for one, (method, network, rows) in zip(axes, panels, strict=True):
            looks = {"correct": (CALM, "-", "correct labels"), "wrong": (ALERT, (0, (3, 1.5)), "wrong labels")}
            for kind, (colour, line, label) in looks.items():
                one.plot(rows["epoch"], 100 * rows[f"{network}_{kind}"], color=colour, linestyle=line, label=label)
            if network == "f":
                one.plot(rows["epoch"], 100 * rows["test_accuracy"], color=MUTED, linewidth=1, label="test")
            one.set_ylim(0, 100)
            one.xaxis.get_major_locator().set_params(integer=True)
            panel(one, f"{method}, {names[network]}", x_label="epoch", y_label="accuracy (%)")
            one.legend(fontsize=7)

    write_svg(path, draw, panels=(1, len(panels)), size=(2.9 * len(panels), 2.6))


def distributions(recipe: Recipe, run: Run, methods: Sequence[str] = PAIR) -> pd.DataFrame:
    """How many correctly and how many wrongly labelled rows have a confidence, or a gate, in each of equal bins."""
    rows = [
        {"method": result["method"], "score": score, "from": place / BINS, "to": (place + 1) / BINS}
        | {kind: counts[kind][place] for kind in ("correct", "wrong")}
        for result in run(plan(recipe, methods, 1))
        for score, counts in result["histograms"].items()
        for place in range(BINS)
    ]
    return pd.DataFrame(rows)


def _draw_distributions(path: Path, table: pd.DataFrame) -> None:
    """Draw a panel for every method and score, each group as shares of itself."""
    groups = list(table.groupby(["method", "score"], sort=False))

    def draw(axes: Sequence[Any]) -> None:
        edges = np.linspace(0, 1, BINS + 1)
        for one, ((method, score), rows) in zip(axes, groups, strict=True):
            for kind, colour, line in (("correct", CALM, "-"), ("wrong", ALERT, (0, (3, 1.5)))):
                share = 100 * rows[kind].to_numpy() / max(1, rows[kind].sum())
                one.stairs(share, edges, fill=True, color=colour, alpha=0.3, linewidth=0)
                one.stairs(share, edges, color=colour, linestyle=line, label=f"{kind} labels")
            panel(one, f"{method}, {score}", x_label=str(score), y_label="% of the group")
            one.legend(fontsize=7)

    write_svg(path, draw, panels=(1, len(groups)), size=(2.9 * len(groups), 2.6))


def examples(recipe: Recipe, run: Run, methods: Sequence[str] = ("pi_dual",)) -> pd.DataFrame:
    """Return the rows that look most wrong, by the gate if there is one: wrong labels, and labels that are right."""
    rows = [
        {"method": result["method"], "label_is": kind, **row}
        for result in run(plan(recipe, methods, 1))
        for kind in ("wrong", "correct")
        for row in result["examples"][kind]
    ]
    return pd.DataFrame(rows)


def _draw_examples(path: Path, table: pd.DataFrame, data: NoisyDataset) -> None:
    """Images with the given and the predicted label: above wrong labels, with the true one, below correct ones."""
    shown = table[table["method"] == table["method"].iloc[0]]
    columns = int(shown["label_is"].value_counts().max())

    def draw(axes: Sequence[Any]) -> None:
        for one in axes:
            one.axis("off")
        for line, kind in enumerate(("wrong", "correct")):
            for place, row in enumerate(shown[shown["label_is"] == kind].to_dict("records")):
                one = axes[line * columns + place]
                one.imshow(image_of(data, int(row["item"])), cmap="gray", interpolation="nearest")
                words = {"label": row["given"], "pred": row["predicted"]} | ({"true": row["true"]} if line == 0 else {})
                text = "\n".join(f"{word}: {data.classes[code]}" for word, code in words.items())
                one.set_title(text, fontsize=6, color=ALERT if line == 0 else INK)

    write_svg(path, draw, panels=(2, columns), size=(0.95 * columns, 2.9))


def check_images(data: NoisyDataset) -> None:
    """Refuse a dataset that has none to show."""
    shape = data.x.array.shape if isinstance(data.x, Inputs) else data.x.shape
    if len(shape) != 4:
        raise UsageError(f"{data.name} has no images to show; its inputs have the shape {tuple(shape[1:])}.")


def image_of(data: NoisyDataset, item: int) -> np.ndarray:
    """Return an image as (H, W, C), or (H, W) where it is grey."""
    x = data.x.array if isinstance(data.x, Inputs) else data.x
    image = x[item] if isinstance(x, np.ndarray) else x.take(np.array([item]))[0]
    return np.asarray(image.transpose(1, 2, 0).squeeze())


# --- several fits ---


def corrupted_pi(recipe: Recipe, run: Run, seeds: int, methods: Sequence[str] = ("pi_dual",)) -> pd.DataFrame:
    """Summary of Pi-DUAL as it is, and with random PI on a share of the training rows."""
    _check_ablated("corrupt_pi", methods)
    changes = {f"corrupted PI {share:.0%}": {"corrupt_pi": share} for share in SHARES}
    return summarise(run(plan(recipe, methods, seeds) + variants(recipe, methods, seeds, changes)))


def importance(recipe: Recipe, run: Run, seeds: int, methods: Sequence[str] = ("pi_dual",)) -> pd.DataFrame:
    """Summary of Pi-DUAL with all PI, without each of its columns, and without random PI."""
    _check_ablated("leave_out", methods)
    whole = run(plan(recipe, methods, seeds))
    columns = whole[0]["data"]["pi"] if whole else {}
    changes: dict[str, dict[str, Any]] = {f"without {column}": {"leave_out": column} for column in columns}
    changes["without random PI"] = {"random_pi": 0}
    return summarise(whole + run(variants(recipe, methods, seeds, changes)))


def ablations(recipe: Recipe, run: Run, seeds: int, methods: Sequence[str] = ("pi_dual",)) -> pd.DataFrame:
    """Summary of Pi-DUAL whole, and with one of its parts left out or changed; random PI alone where it has some."""
    _check_ablated("use_gate", methods)
    fits = plan(recipe, methods, seeds)
    for method in methods:
        left_out = [] if recipe.method_settings(method).get("random_pi", 1) else ["only_random_pi"]
        left_out += ["noise_input", "tram_loss"] if method == "pi_dual_plus" else []
        changes = {name: change for name, change in ABLATIONS.items() if not set(left_out) & set(change)}
        fits += variants(recipe, [method], seeds, changes)
    return summarise(run(fits))


def controls(recipe: Recipe, run: Run, seeds: int, methods: Sequence[str] = PAIR) -> pd.DataFrame:
    """Summary of Pi-DUAL with PI that says nothing, and all there is to say; of others with dropout, at two rates."""
    inner, fits = [method for method in methods if method in ABLATED], plan(recipe, methods, seeds)
    others = [method for method in methods if method not in inner]
    dropout = {"dropout": {"network.dropout": 0.5}} if recipe.settings.get("network") == "mlp" else {}
    fits += _other_rates(recipe, methods, seeds) + variants(recipe, others, seeds, dropout)
    return summarise(run(fits + variants(recipe, inner, seeds, CONTROLS)))


def _other_rates(recipe: Recipe, methods: Sequence[str], seeds: int) -> list[Fit]:
    """Fits of methods without ablations at the learning rates that the recipe searches, but not at the one chosen."""
    changes = {f"rate {rate:g}": {"lr": rate} for rate in recipe.search.get("lr", ())}
    return variants(recipe, [method for method in methods if method not in ABLATED], seeds, changes)


def size(recipe: Recipe, run: Run, seeds: int, methods: Sequence[str] = PAIR) -> pd.DataFrame:
    """Summary over widths and depths of Pi-DUAL's PI networks, and of all methods on the recipe's other network."""
    changes: dict[str, dict[str, Any]] = {f"width {width}": {"width": width} for width in recipe.widths}
    changes |= {f"depth {depth}": {"depth": depth} for depth in DEPTHS}
    inner = [method for method in methods if method.startswith("pi_dual")]
    other = {_network_words(recipe.other_network): recipe.other_network} if recipe.other_network else {}
    fits = plan(recipe, methods, seeds) + variants(recipe, inner, seeds, changes)
    return summarise(run(fits + variants(recipe, methods, seeds, other)))


def _network_words(settings: Mapping[str, Any]) -> str:
    """Return settings of a network in a few words: "resnet34", "network convs 2"."""
    return " ".join(
        str(value) if key == "network" else f"{key.replace('.', ' ')} {value}" for key, value in settings.items()
    )


def early_stopping(recipe: Recipe, run: Run, seeds: int, methods: Sequence[str] = ()) -> pd.DataFrame:
    """Summary with what every method gains or loses between the selected and the last epoch."""
    table = summarise(run(plan(recipe, methods or recipe.main, seeds)))
    for value in ("accuracy", "auc"):
        table[f"last_minus_selected_{value}"] = (table[f"last_{value}"] - table[f"selected_{value}"]).round(4)
    return table


def variants(recipe: Recipe, methods: Sequence[str], seeds: int, changes: Mapping[str, Mapping[str, Any]]) -> list[Fit]:
    """Every change of every method with every seed; `run_fits` leaves out what changes nothing."""
    every = itertools.product(range(seeds), methods, changes.items())
    return [Fit(recipe, method, seed, variant, change) for seed, method, (variant, change) in every]


def _check_ablated(option: str, methods: Sequence[str]) -> None:
    """Refuse, before anything is trained, methods that lack what an analysis changes."""
    lacking = [method for method in methods if method not in ABLATED]
    if lacking:
        able = ", ".join(ABLATED)
        raise UsageError(f"This analysis changes {option}, which '{lacking[0]}' does not have; methods: {able}.")


# --- cost ---


def cost(recipe: Recipe, data: NoisyDataset, methods: Sequence[str] = ()) -> pd.DataFrame:
    """Parameters and time of the methods.

    Every round takes some steps with each method in turn and compares times within the round, so that other work on
    the machine weighs little; the median of the rounds counts.

    Returns
    -------
    DataFrame
        method, parameters, row_values (numbers kept for the training rows), seconds (of a step), relative_to_ce.
    """
    fits = plan(recipe, ["ce", *(method for method in methods or recipe.main if method != "ce")], 1)
    batch_size = int(recipe.method_settings("ce").get("batch_size", 256))
    jobs = [prepare_data(data, fit.options(data.noise_rate)) for fit in fits]
    rounds = [[try_out(job, steps=COST_STEPS, batch_size=batch_size) for job in jobs] for _ in range(COST_ROUNDS)]
    rows = []
    for place, fit in enumerate(fits):
        seconds = [taken[place]["seconds"] for taken in rounds]
        ratios = [taken[place]["seconds"] / taken[0]["seconds"] for taken in rounds]
        sizes = {name: rounds[0][place][name] for name in ("parameters", "row_values")}
        times = {"seconds": statistics.median(seconds), "relative_to_ce": statistics.median(ratios)}
        rows.append({"method": fit.method, **sizes, **times})
    return pd.DataFrame(rows)


def _draw_cost(path: Path, table: pd.DataFrame) -> None:
    """Parameters, and seconds of a step relative to cross-entropy."""
    titles = {"parameters": "parameters (millions)", "relative_to_ce": "seconds per step / cross-entropy"}

    def draw(axes: Sequence[Any]) -> None:
        rows = table.iloc[::-1]
        for one, (column, title) in zip(axes, titles.items(), strict=True):
            values = rows[column] / (1e6 if column == "parameters" else 1)
            bars = one.barh(range(len(rows)), values, color=CALM, height=0.6)
            one.bar_label(bars, fmt="%.2f", padding=2, fontsize=7, color=INK)
            one.set_yticks(range(len(rows)), rows["method"])
            one.grid(visible=False)
            panel(one, title)

    write_svg(path, draw, panels=(1, 2), size=(7.2, 0.7 + 0.26 * len(table)))


# --- all of them ---

OF_ONE_SEED: dict[str, Callable[..., pd.DataFrame]] = {
    "dynamics": dynamics,
    "distributions": distributions,
    "examples": examples,
}
OVER_SEEDS: dict[str, Callable[..., pd.DataFrame]] = {
    "corrupted_pi": corrupted_pi,
    "importance": importance,
    "ablations": ablations,
    "controls": controls,
    "size": size,
    "early_stopping": early_stopping,
}
ANALYSES = (*OF_ONE_SEED, *OVER_SEEDS, "cost")
DRAW: dict[str, Callable[[Path, pd.DataFrame], None]] = {
    "dynamics": _draw_dynamics,
    "distributions": _draw_distributions,
    "cost": _draw_cost,
}


def analyse(
    name: str,
    recipe: Recipe,
    out: Path,
    *,
    run: Run,
    load: Callable[[], NoisyDataset],
    methods: Sequence[str] | None = None,
    seeds: int = 1,
) -> pd.DataFrame:
    """Do one of ANALYSES; write its table and its figure to OUT/analyses.

    `run`: does fits, or finds their results: `run_fits` with all but its first argument.
    `load`: loads the dataset; called by those alone that need it.
    `methods`: by default those the paper has in this analysis.
    `seeds`: of analyses that average over seeds.
    """
    if name not in ANALYSES:
        raise UsageError(f"There is no analysis '{name}'; there are {', '.join(ANALYSES)}.")
    chosen = {} if methods is None else {"methods": methods}
    folder = out / "analyses"
    folder.mkdir(parents=True, exist_ok=True)
    figure = folder / f"{recipe.scale}-{recipe.dataset.replace(':', '-')}-{name}.svg"
    draw = DRAW.get(name, draw_rows)
    if name == "examples":
        data = load()
        check_images(data)
        draw = partial(_draw_examples, data=data)
    if name == "cost":
        table = cost(recipe, load(), **chosen)
    elif name in OF_ONE_SEED:
        table = OF_ONE_SEED[name](recipe, run, **chosen)
    else:
        table = OVER_SEEDS[name](recipe, run, seeds, **chosen)
    if len(table):
        write_csv(figure.with_suffix(".csv"), table)
        draw(figure, table)
    return table
