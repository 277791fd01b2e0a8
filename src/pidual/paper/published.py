"""What the paper says: the grids that its methods were searched on, and every results table.

    paper_number("cifar10h", "pi_dual", "selected_accuracy")      (71.3, 3.3)

Numbers in comments are sections of METHODS.md. Where the paper runs a method without a grid, or does not run it, the
values of grids are those of its authors' experiments. Results are accuracies in %, detection AUCs, means with standard
deviations; None stands where the paper has no number. The paper gives no standard deviation of an AUC.

Wang et al., "Pi-DUAL: Using privileged information to distinguish clean from noisy labels", ICML 2024, arXiv
2310.06600. Datasets and methods have the names they have here.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError

Grid = Mapping[str, Sequence[Any]]

SHARED: dict[str, Grid] = {
    "cifar": {"lr": (0.01, 0.1), "weight_decay": (1e-4, 1e-3)},  # 1.1
    "imagenet": {"lr": (0.1,), "weight_decay": (1e-5, 1e-4)},  # 1.2
}
METHOD_GRIDS: dict[str, Grid] = {  # as on CIFAR-10H
    "ce": {},  # 2.1
    "forward_t": {"outlier_filter": (True, False)},  # 2.2, authors: CIFAR-10 and CIFAR-100
    "co_teaching": {"noise_rate": (0.2, 0.4, 0.6)},  # 2.3: it must be given, and nobody knows it
    "divide_mix": {"lam": (0.0, 25.0, 50.0)},  # 2.4, authors
    "elr": {"beta": (0.5, 0.7, 0.9), "lam": (1.0, 3.0, 7.0)},  # 2.5
    "elr_plus": {"beta": (0.7, 0.9), "lam": (3.0, 7.0)},  # 2.6, authors: CIFAR-10 and CIFAR-100
    "sop": {"lr_u": (1.0, 10.0, 100.0), "lr_v": (1.0, 10.0, 100.0, 1000.0)},  # 2.7
    "sop_plus": {"lr_u": (1.0, 10.0, 100.0), "lr_v": (1.0, 10.0, 100.0, 1000.0)},  # 2.7, that of SOP
    "cores": {},  # 2.15
    "cores_star": {},  # 2.15
    "pes": {},  # 2.16
    "pes_semi": {"lam": (5.0, 75.0)},  # 2.16, authors: CIFAR-10N and CIFAR-100N
    "het": {"tau": (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0), "rank": (3,)},  # 2.9
    "het_xl": {},  # 2.10
    "tram": {"width": (1024,)},  # 2.12
    "tram_plus_plus": {"width": (512, 1024, 2048, 4096), "random_pi": (8, 14, 28), "head_weight": (0.1, 0.5)},  # 2.13
    "afm": {"width": (1024,)},  # 2.14
    "distill_pi": {"lam": (0.25, 0.5, 0.75)},  # 2.11, around the 0.5 of the code the paper builds on
    "pi_dual": {"width": (1024,), "random_pi": (4, 8, 12, 16)},  # 3.1
    "pi_dual_plus": {  # 3.2: rate and weight decay are not searched
        "lr": (0.1,),
        "weight_decay": (1e-4,),
        "width": (1024,),
        "random_pi": (4, 8),
        "smoothing": (0.0, 0.4),
        "lam": (0.5, 1.0),
    },
    "latent_truth": {},  # 8: it chooses among its settings itself
}
DIFFERENCES: dict[str, dict[str, Grid]] = {
    "cifar10h": {},
    "cifar10n": {"pi_dual": {"width": (2048,)}, "pi_dual_plus": {"width": (2048,)}},  # 3.1
    "cifar100n": {"het": {"rank": (6,)}, "pi_dual": {"width": (2048,)}, "pi_dual_plus": {"width": (2048,)}},  # 2.9, 3.1
    "imagenet_pi": {
        "het": {"tau": (3.0,), "rank": (15,)},  # 2.9
        "distill_pi": {"temperature": (3.0,), "pi_weight_decay": (True,)},  # 2.11, 1.4
        "tram": {"width": (2048,), "residual": (False,), "pi_weight_decay": (True,)},  # 2.12, 1.4
        "tram_plus_plus": {  # 2.13, 1.4
            "width": (2048,),
            "random_pi": (30,),
            "head_weight": (0.5,),
            "residual": (False,),
            "pi_weight_decay": (True,),
        },
        "afm": {"width": (2048,), "pi_weight_decay": (True,)},  # 2.14, 1.4
        "pi_dual": {"width": (2048,), "random_pi": (30,), "pi_weight_decay": (True,)},  # 3.1
        "pi_dual_plus": {"width": (2048,), "random_pi": (30,), "pi_weight_decay": (True,)},  # not in the paper
    },
}
GRID_NAMES = ("paper", *DIFFERENCES)  # "paper" is that of CIFAR-10H


def paper_grid(method: str, name: str = "paper") -> dict[str, list[Any]]:
    """Return what the paper searched for a method.

    `method`: key of METHODS.
    `name`: one of GRID_NAMES.
    Returned: option -> values: of training, and of the method.
    """
    if name not in GRID_NAMES:
        raise UsageError(f"There is no grid '{name}'; use one of {', '.join(GRID_NAMES)}.")
    if method not in METHOD_GRIDS:
        raise UsageError(f"There is no grid for a method '{method}'; there are those of {', '.join(METHOD_GRIDS)}.")
    dataset = "cifar10h" if name == "paper" else name
    shared = SHARED["imagenet" if dataset == "imagenet_pi" else "cifar"]
    found = {**shared, **METHOD_GRIDS[method], **DIFFERENCES[dataset].get(method, {})}
    return {option: list(values) for option, values in found.items()}


def points(grid: Grid) -> list[dict[str, Any]]:
    """All combinations of a grid's values, the last option changing fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


Number = tuple[float, float | None]
Row = tuple[Number | None, ...]

PAPER_DATASETS = ("cifar10h", "cifar10n", "cifar100n", "imagenet_pi:low", "imagenet_pi:high")
CIFAR = PAPER_DATASETS[:3]

# --- by method; one number for each of PAPER_DATASETS ---

SELECTED_ACCURACY: Mapping[str, Row] = {
    "ce": ((51.1, 2.2), (80.6, 0.2), (60.4, 0.5), (68.2, 0.2), (47.2, 0.2)),
    "elr": ((48.5, 1.4), (86.6, 0.7), (64.0, 0.3), None, None),
    "het": ((50.8, 1.4), (81.9, 0.4), (60.8, 0.4), (69.4, 0.1), (51.9, 0.0)),
    "sop": ((51.3, 1.9), (85.0, 0.8), (61.9, 0.6), None, None),
    "tram": ((64.9, 0.8), (80.5, 0.5), (59.7, 0.3), (69.4, 0.2), (54.0, 0.1)),
    "tram_plus_plus": ((66.8, 0.3), (83.9, 0.2), (61.1, 0.2), (69.5, 0.0), (53.8, 0.3)),
    "afm": ((64.0, 0.6), (82.0, 0.3), (60.0, 0.2), (70.3, 0.0), (55.3, 0.2)),
    "pi_dual": ((71.3, 3.3), (84.9, 0.4), (64.2, 0.3), (71.6, 0.1), (62.1, 0.1)),
}
LAST_ACCURACY: Mapping[str, Row] = {
    "ce": ((42.4, 0.2), (67.7, 0.6), (55.8, 0.2), (68.2, 0.2), (47.4, 0.4)),
    "elr": ((49.2, 1.2), (84.3, 0.4), (63.8, 0.3), None, None),
    "sop": ((50.3, 0.7), (86.0, 0.3), (61.1, 0.2), None, None),
    "tram": ((59.2, 0.2), (67.0, 0.4), (56.4, 0.3), (69.6, 0.1), (54.0, 0.0)),
    "tram_plus_plus": ((64.7, 0.6), (82.3, 0.1), (60.6, 0.2), (69.5, 0.0), (54.1, 0.1)),
    "afm": ((61.2, 0.7), (69.8, 0.5), (58.9, 0.3), (70.3, 0.0), (55.3, 0.2)),
    "pi_dual": ((73.8, 0.3), (84.9, 0.3), (64.2, 0.3), (71.7, 0.1), (62.3, 0.1)),
}
SELECTED_AUC: Mapping[str, Row] = {
    "ce": ((0.810, None), (0.951, None), (0.883, None), (0.935, None), (0.941, None)),
    "elr": ((0.745, None), (0.968, None), (0.876, None), None, None),
    "sop": ((0.808, None), (0.964, None), (0.889, None), None, None),
    "tram_plus_plus": ((0.834, None), (0.955, None), (0.883, None), (0.937, None), (0.959, None)),
    "pi_dual": ((0.954, None), (0.962, None), (0.911, None), (0.953, None), (0.986, None)),
}
LAST_AUC: Mapping[str, Row] = {
    "ce": ((0.558, None), (0.676, None), (0.666, None), (0.935, None), (0.941, None)),
    "elr": ((0.660, None), (0.839, None), (0.843, None), None, None),
    "sop": ((0.743, None), (0.932, None), (0.793, None), None, None),
    "tram_plus_plus": ((0.887, None), (0.946, None), (0.890, None), (0.937, None), (0.959, None)),
    "pi_dual": ((0.972, None), (0.960, None), (0.910, None), (0.953, None), (0.987, None)),
}
SELECTED_GATE_AUC: Mapping[str, Row] = {
    "pi_dual": ((0.982, None), (0.808, None), (0.726, None), (0.952, None), (0.986, None))
}
LAST_GATE_AUC: Mapping[str, Row] = {
    "pi_dual": ((0.983, None), (0.815, None), (0.729, None), (0.953, None), (0.986, None))
}
SEMI_SUPERVISED: Mapping[str, Row] = {  # one for each of CIFAR; the others' on CIFAR-N are quoted, with other networks
    "divide_mix": ((71.68, 0.27), (92.56, 0.42), (71.13, 0.48)),
    "pes_semi": ((71.16, 1.78), (92.68, 0.22), (70.36, 0.33)),
    "elr_plus": ((54.46, 0.50), (91.09, 1.60), (66.72, 0.07)),
    "cores_star": ((57.80, 0.57), (91.66, 0.09), (55.72, 0.42)),
    "sop_plus": ((66.02, 0.06), (93.24, 0.21), (67.81, 0.23)),
    "pi_dual_plus": ((83.23, 0.26), (93.31, 0.21), (67.99, 0.08)),
}
COLUMNS: Mapping[str, Mapping[str, Row]] = {
    "selected_accuracy": {**SELECTED_ACCURACY, **SEMI_SUPERVISED},
    "last_accuracy": LAST_ACCURACY,
    "selected_auc": SELECTED_AUC,
    "last_auc": LAST_AUC,
    "selected_gate_auc": SELECTED_GATE_AUC,
    "last_gate_auc": LAST_GATE_AUC,
}

# --- variants of Pi-DUAL, accuracy at the selected epoch ---

PAPER_ABLATIONS: Mapping[str, Row] = {  # one for each of PAPER_DATASETS
    "no gate": ((61.5, 1.2), (84.5, 0.2), (59.0, 0.2), (67.9, 0.1), (47.8, 0.8)),
    "no noise network": ((59.7, 3.6), (82.4, 1.0), (59.7, 0.3), (71.6, 0.2), (62.3, 0.1)),
    "gate on probabilities": ((62.2, 1.3), (81.6, 0.8), (59.4, 1.1), (71.0, 0.1), (60.4, 0.1)),
    "only random PI": ((53.5, 2.2), (83.7, 1.3), (61.8, 0.3), (68.4, 0.1), (47.0, 0.4)),
}
BACKBONE: Mapping[str, Row] = {  # one for each of CIFAR, as in all that follow
    "ce, wrn_28_10": ((51.1, 2.2), (80.6, 0.2), (60.4, 0.5)),
    "pi_dual, wrn_28_10": ((71.3, 3.3), (84.9, 0.4), (64.2, 0.3)),
    "ce, resnet34": ((51.4, 2.1), (80.7, 1.0), (56.9, 0.4)),
    "pi_dual, resnet34": ((69.3, 3.1), (84.5, 0.4), (62.2, 0.3)),
}
WIDTH: Mapping[str, Row] = {
    "width 512": ((72.8, 2.9), (83.8, 0.4), (62.3, 0.2)),
    "width 1024": ((71.3, 3.3), (83.6, 0.7), (63.7, 0.4)),
    "width 2048": ((71.4, 3.6), (84.9, 0.4), (64.2, 0.3)),
    "width 4096": ((71.2, 3.8), (85.3, 0.2), (64.4, 0.2)),
}
DEPTH: Mapping[str, Row] = {
    "depth 2": ((68.9, 2.0), (83.4, 0.4), (59.4, 1.0)),
    "depth 3": ((71.3, 3.3), (84.9, 0.4), (64.2, 0.3)),
    "depth 4": ((70.1, 3.5), (85.2, 0.3), (64.1, 0.2)),
}
NOISE_INPUT: Mapping[str, Row] = {
    "eps(a)": ((71.3, 3.3), (84.9, 0.4), (64.2, 0.3)),
    "eps(x, a)": ((57.8, 1.9), (82.5, 0.2), (43.6, 14.4)),
}
TRAM_LOSS: Mapping[str, Row] = {
    "Pi-DUAL": ((71.3, 3.3), (84.9, 0.4), (64.2, 0.3)),
    "TRAM's loss": ((61.6, 4.8), (81.6, 0.9), (59.0, 0.6)),
}
CORRUPTED_PI: Mapping[str, Row] = {  # CIFAR-10H only
    "corrupted PI 0%": ((71.3, 3.3), None, None),
    "corrupted PI 25%": ((66.4, 2.7), None, None),
    "corrupted PI 50%": ((63.9, 0.7), None, None),
    "corrupted PI 75%": ((52.6, 4.0), None, None),
    "corrupted PI 100%": ((47.2, 3.7), None, None),
}
LEAVE_OUT: Mapping[str, Row] = {
    "all PI": ((71.3, 3.3), (84.9, 0.4), (64.2, 0.3)),
    "without annotator": ((55.9, 1.0), (84.0, 0.2), (62.9, 0.3)),
    "without reaction_time": ((73.6, 0.2), None, None),
    "without seconds": (None, (84.7, 0.2), (64.2, 0.1)),
    "without random PI": ((71.6, 2.9), (82.1, 0.3), (61.5, 0.4)),
    "without trial_index": ((74.4, 0.1), None, None),
}
VARIANTS = {**PAPER_ABLATIONS, **BACKBONE, **WIDTH, **DEPTH, **NOISE_INPUT, **TRAM_LOSS, **CORRUPTED_PI, **LEAVE_OUT}


def paper_number(dataset: str, method: str, column: str) -> Number | None:
    """Mean and standard deviation over the paper's runs, or None where it has none.

    `dataset`: of PAPER_DATASETS; the paper's labels of CIFAR-N may be named ("cifar10n:worst", "cifar100n:fine").
    `method`: a method, or a key of VARIANTS, whose only column is "selected_accuracy".
    `column`: of COLUMNS: accuracies in %, AUCs between 0 and 1.
    """
    table = COLUMNS[column]
    row = table.get(method) or (VARIANTS.get(method) if column == "selected_accuracy" else None)
    dataset = {"cifar10n:worst": "cifar10n", "cifar100n:fine": "cifar100n"}.get(dataset, dataset)
    if row is None or dataset not in PAPER_DATASETS[: len(row)]:
        return None
    return row[PAPER_DATASETS.index(dataset)]
