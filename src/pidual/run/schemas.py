"""What the JSON of a run and of a sweep must hold; every file of ours is checked against this when it is read.

A schema is a check: a function that takes a value and raises `FieldError` where it is not what it should be. Checks are
made of smaller ones:

    record({"epochs": whole(1), "lr": number(0)})     an object with these fields
    list_of(text), mapping(text), maybe(text)         many, by name, or null

Every file has a format number. A file without one was written before there were any, and is read where its structure is
right; a higher number than FORMAT is of a newer pidual. All text and all numbers in a file are data: nothing read from
one is used as a path, but for where config.json says that the data of the run is (docs/run_directory.md).
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..files.whole import fingerprint

FORMAT = 1
MAX = sys.float_info.max
LARGEST = 2**53  # whole numbers beyond this are not the same in every JSON reader
LONGEST = 1e12  # seconds
DEPTH = 30  # of objects within objects
SHOWN = 60  # characters of a wrong value in a message
DAMAGED = "the run is damaged, so copy it again or fit again"

Check = Callable[[Any], None]
Record = dict[str, Any]


class FieldError(ValueError):
    """A value that is not what it should be: where it is, and what is wrong."""

    def __init__(self, problem: str, where: str = ""):
        super().__init__(problem)
        self.problem, self.where = problem, where

    def inside(self, name: str) -> "FieldError":
        """The same, seen from the object or list around it."""
        return FieldError(
            self.problem, name + ("" if self.where.startswith("[") or not self.where else ".") + self.where
        )

    def __str__(self) -> str:
        return f"{self.where} {self.problem}" if self.where else f"it {self.problem}"


# --- reading ---


def read_record(path: Path, schema: Check, *, way_out: str = DAMAGED) -> Record:
    """The object in a JSON file, checked.

    Parameters
    ----------
    path : Path
    schema : callable
        One of the schemas below.
    way_out : str
        What a message says to do.
    """
    return check_record(path, read_text(path, way_out), schema, way_out=way_out)


def read_text(path: Path, way_out: str = DAMAGED) -> str:
    """The text of a file."""
    if not path.is_file():
        raise RunError(f"{path} is missing or is not a file; {way_out}.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RunError(f"{path} cannot be read ({reason}); {way_out}.") from error


def check_record(path: Path, text: str, schema: Check, *, way_out: str = DAMAGED, place: str = "") -> Record:
    """The object that JSON text from `path` holds, checked; `place` is where in the file."""
    what = f"{path}, {place}" if place else str(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else error
        raise RunError(f"{what} is not valid JSON and cannot be read ({reason}); {way_out}.") from error
    try:
        check_format(value)
        schema(value)
    except FieldError as error:
        raise RunError(f"{what} cannot be used: {error}; {way_out}.") from error
    except NewerFormat as error:
        raise RunError(f"{what} was {error}; update pidual to read it.") from error
    checked: Record = value
    return checked


class NewerFormat(Exception):  # noqa: N818 - becomes part of a sentence
    """A file of a newer pidual."""


def check_format(value: Any) -> None:
    """Refuse a format that this pidual does not know."""
    found = value.get("format", FORMAT) if isinstance(value, dict) else FORMAT
    _inside("format", whole(1), found)
    if found > FORMAT:
        raise NewerFormat(f"written by a newer pidual (format {found}, this one reads up to {FORMAT})")


def file_digest(path: Path) -> str:
    """The BLAKE2b digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def sealed(values: Mapping[str, Any]) -> Record:
    """The values of a JSON file with a digest of themselves."""
    rest = {name: value for name, value in values.items() if name != "digest"}
    return rest | {"digest": fingerprint([json.dumps(rest, sort_keys=True).encode()])}


IDENTITY = ("method", "setting", "seed", "method_options", "training", "network")  # of a config, beside its data


def run_id(config: Mapping[str, Any]) -> str:
    """What a run is a run of, as a digest: method, options and data, wherever the files are.

    Two runs with the same id have the same results, so their files may take each other's place.
    """
    same = {name: config[name] for name in IDENTITY}
    same["data"] = {name: value for name, value in config["data"].items() if name not in ("table", "x")}
    return fingerprint([json.dumps(same, sort_keys=True).encode()])


# --- checks ---


def text(value: Any) -> None:
    """Text that can be written again."""
    if not isinstance(value, str):
        raise FieldError(f"must be text, not {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FieldError("must be text, and holds half a character") from None


def flag(value: Any) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise FieldError(f"must be true or false, not {_shown(value)}")


def label(value: Any) -> None:
    """A class name: text or a whole number."""
    if isinstance(value, str):
        text(value)
    elif not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise FieldError(f"must be text or a whole number, not {_shown(value)}")


def number(low: float = -math.inf, high: float = math.inf) -> Check:
    """A finite number from low to high."""

    def check(value: Any) -> None:
        if not _is_number(value) or not -MAX <= value <= MAX:
            raise FieldError(f"must be a number, not {_shown(value)}")
        _in_range(value, low, high)

    return check


def whole(low: int = 0, high: int = LARGEST) -> Check:
    """A whole number from low to high."""

    def check(value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise FieldError(f"must be a whole number, not {_shown(value)}")
        _in_range(value, low, high)

    return check


def measure(value: Any) -> None:
    """What came out of training: any number, also one that is not finite, or null in its place."""
    if value is not None and not isinstance(value, float):
        number()(value)


def logged(value: Any) -> None:
    """What a method logs: as `measure`, or any other JSON value."""
    (measure if isinstance(value, float) else plain)(value)


def one_of(*known: Any) -> Check:
    """One of these texts."""

    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in known:
            raise FieldError(f"must be one of {', '.join(known)}, not {_shown(value)}")

    return check


def plain(value: Any, depth: int = 0) -> None:
    """Any JSON value of finite numbers."""
    if depth > DEPTH:
        raise FieldError("is too deep")
    if isinstance(value, str):
        text(value)
    elif _is_number(value):
        number()(value)
    for name, inner in value.items() if isinstance(value, dict) else ():
        text(name)
        _inside(_shown(name, quoted=False), lambda part: plain(part, depth + 1), inner)
    for place, inner in enumerate(value) if isinstance(value, list) else ():
        _inside(f"[{place}]", lambda part: plain(part, depth + 1), inner)


def maybe(check: Check) -> Check:
    """Null, or what the check accepts."""
    return lambda value: None if value is None else check(value)


def list_of(check: Check, *, least: int = 0, most: float = math.inf, unique: bool = False) -> Check:
    """A list of such values."""

    def checked(value: Any) -> None:
        if not isinstance(value, list):
            raise FieldError(f"must be a list, not {_shown(value)}")
        if not least <= len(value) <= most:
            raise FieldError(
                f"must be a list of {least} or more values" if least > len(value) else "is too long a list"
            )
        for place, inner in enumerate(value):
            _inside(f"[{place}]", check, inner)
        if unique and len({(type(inner), inner) for inner in value}) < len(value):
            raise FieldError("has a value twice")

    return checked


def mapping(check: Check) -> Check:
    """An object with any names, and such values."""

    def checked(value: Any) -> None:
        if not isinstance(value, dict):
            raise FieldError(f"must be an object, not {_shown(value)}")
        for name, inner in value.items():
            text(name)
            _inside(_shown(name, quoted=False), check, inner)

    return checked


def record(
    fields: Mapping[str, Check],
    optional: Mapping[str, Check] | None = None,
    *,
    more: Check | None = plain,
    rule: Callable[[Record], None] | None = None,
) -> Check:
    """An object with these fields.

    Parameters
    ----------
    fields, optional : mapping
        Name -> check.
    more : callable or None
        The check of fields with other names; None refuses them.
    rule : callable, optional
        Raises where fields do not fit together.
    """
    known = {**fields, **(optional or {})}

    def checked(value: Any) -> None:
        if not isinstance(value, dict):
            raise FieldError(f"must be an object, not {_shown(value)}")
        for name, check in known.items():
            if name in value:
                _inside(name, check, value[name])
            elif name in fields:
                raise FieldError("is missing", name)
        for name in value:
            if name not in known and name != "format":
                text(name)
                if more is None:
                    raise FieldError("is unknown", _shown(name, quoted=False))
                _inside(_shown(name, quoted=False), more, value[name])
        if rule is not None:
            rule(value)

    return checked


def _inside(name: str, check: Check, value: Any) -> None:
    try:
        check(value)
    except FieldError as error:
        raise error.inside(name) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_range(value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        limits = f"at least {low:g}" if value < low else f"at most {high:g}"
        raise FieldError(f"must be {limits}, not {_shown(value)}")


def _shown(value: Any, *, quoted: bool = True) -> str:
    """A value for a message: what it is, of limited length, on one line."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    found = json.dumps(value, default=str) if quoted else json.dumps(str(value))[1:-1]
    return found if len(found) <= SHOWN else f"{found[:SHOWN]}..."


# --- the files of a run ---

share = number(-1e-6, 1 + 1e-6)
shape = list_of(whole(1), least=1, most=8)
NAMED_FILES = (
    *("model.safetensors", "model-last.safetensors", "model.json", "metrics.jsonl"),
    *("predictions.parquet", "items.parquet", "annotators.parquet", "annotator_classes.parquet", "thumbnails.parquet"),
    "previews.parquet",
)


def digests(value: Any) -> None:
    """Digests of files of a run, which are known by name."""
    record({}, dict.fromkeys(NAMED_FILES, text), more=None)(value)


def _config_rule(config: Record) -> None:
    data = config["data"]
    if sum(data[name] for name in ("n_train", "n_valid", "n_test")) != data["n_rows"]:
        raise FieldError("must be the sum of n_train, n_valid and n_test", "data.n_rows")
    if data["x_shape"][1:] != config["network"]["in_shape"]:
        raise FieldError("must be that of one input in data.x_shape", "network.in_shape")


PI_DESCRIPTION = record(
    {"name": text, "kind": text, "n_missing": whole()},
    {"n_categories": whole(), "first": text, "last": text, "median": number(), "mean": number(), "std": number()},
)
SOURCE = record(
    {},
    {
        **dict.fromkeys(("table", "x", "truth", "command"), text),
        "read": record(
            {},
            {
                **dict.fromkeys(("format", "item", "label", "annotator", "y", "split"), maybe(text)),
                "annotators": maybe(list_of(whole())),
            },
        ),
        "asked": record(
            {},
            {
                **dict.fromkeys(("x", "text", "probs", "key_file"), maybe(text)),
                **dict.fromkeys(("columns", "pi"), maybe(list_of(text))),
                "image_size": maybe(whole(1)),
            },
        ),
    },
)
CONFIG = record(
    {
        "pidual": text,
        "created": text,
        "method": text,
        "setting": text,
        "seed": whole(),
        "source": SOURCE,
        "data": record(
            {
                "table": text,
                "x": text,
                "n_rows": whole(1),
                "n_items": whole(1),
                "n_annotators": maybe(whole()),
                "n_classes": whole(1),
                "n_train": whole(),
                "n_valid": whole(),
                "n_test": whole(),
                "fingerprint": text,
                "x_shape": shape,
                "x_fingerprint": text,
                "pi": list_of(PI_DESCRIPTION),
            }
        ),
        "method_options": mapping(plain),
        "training": mapping(plain),
        "network": record({"name": text, "in_shape": shape, "options": mapping(plain)}),
        "versions": mapping(text),
        "hardware": record({}, {"threads": whole(1)}),
    },
    {
        **dict.fromkeys(("method_title", "method_choice"), text),
        "valid_fraction": share,
        "pi_kinds": mapping(text),
        "splits": record({}, dict.fromkeys(("valid_items", "split_seed", "pi_min_count"), maybe(whole())), more=None),
    },
    rule=_config_rule,
)
EVENT = record({"epoch": whole(), "reason": text, "action": text}, {"attempt": whole()})


def pi_value(value: Any) -> None:
    """A value of a PI column: text or a number."""
    (text if isinstance(value, str) else number())(value)


CUTOFF = record(
    {
        "kind": one_of("auto", "fixed", "budget"),  # of earlier runs
        "value": share,
        "note": text,
    },
    {"budget": maybe(whole())},
)
VERDICT = record({"status": one_of("ok", "doubtful", "failed"), "reasons": list_of(text)})
NOISE = record({"rate": share, "low": share, "high": share})
CONSENSUS = record({"accuracy": share, "low": share, "high": share, "votes": number(0), "answers": number(0)})
DETECTION = record(
    {
        **dict.fromkeys(("expected_precision", "precision_low", "precision_high"), maybe(share)),
        "curve": list_of(record({"n": whole(), "expected_wrong": number(0), "precision": share})),
        "classes": list_of(
            record({"class": pi_value, "given": whole(), "issues": whole(), "expected_wrong": number(0)})
        ),
    }
)
EVALUATION = (
    *("noise_rate", "detection_auc", "gate_auc", "test_accuracy", "issue_precision", "issue_recall"),
    "consensus_accuracy",
)


PI_EFFECT = record(
    {"column": text, "low": pi_value, "high": pi_value, "right_at_low": share, "right_at_high": share},
    {**dict.fromkeys(("difference", "difference_low", "difference_high"), maybe(number(-2, 2))), "tells": flag},
)
PI_PROBLEM = record({"column": text, "problem": text, "text": text})
kappa = number(-1e6, 1 + 1e-6)
AGREEMENT = record(
    {"alpha": kappa, "alpha_low": kappa, "alpha_high": kappa, "mean_kappa": maybe(kappa)},
    {"pairs": list_of(record({"a": text, "b": text, "kappa": kappa, "items": whole()}))},
)
COPIES = record({"annotators": list_of(text, least=2), "items": whole(), "same": whole()})
CLASSES = record(
    {
        "names": list_of(text),
        "pairs": list_of(record({"true": text, "given": text, "count": number(0), "share": share})),
        "advice": list_of(text),
    },
    {"transitions": list_of(list_of(share))},
)
FROM_RUN = record(
    {
        "run": text,
        **dict.fromkeys(("n_decisions", "n_unsure", "n_wrong", "n_consensus_changed", "n_others_changed"), whole()),
        "n_issues": list_of(whole(), least=2),
        "noise_rate": list_of(share, least=2),
    },
    {"calibration": maybe(mapping(plain))},
)
SUMMARY = record(
    {
        "n_issues": whole(),
        "estimated_noise_rate": share,
        "selected_epoch": whole(),
        "valid_accuracy": maybe(share),
        "seconds": number(0, LONGEST),
        "guard": record({"recovered": flag, "events": list_of(EVENT)}, {"collapsed": flag}),
        "warnings": list_of(text),
        "evaluation": maybe(
            record({}, {"score_auc": mapping(maybe(share)), **dict.fromkeys(EVALUATION, maybe(share))})
        ),
    },
    {
        "cutoff": CUTOFF,  # older runs have none
        "label_quality": one_of("posterior", "confidence"),  # of older runs
        "verdict": VERDICT,
        "noise": NOISE,
        "consensus": CONSENSUS,
        "detection": DETECTION,
        "model_selection": list_of(mapping(plain)),
        "pi_effects": list_of(PI_EFFECT),
        "pi_health": list_of(PI_PROBLEM),
        "agreement": AGREEMENT,
        "copies": list_of(COPIES),
        "classes": CLASSES,
        "from_run": FROM_RUN,
        "seconds_total": number(0, LONGEST),
        "run_id": text,
        "digest": text,
        "digests": digests,
    },
)


def _model_rule(model: Record) -> None:
    inputs, network, spec = model["inputs"], model["network"], model["spec"]
    if spec["n_classes"] != len(model["classes"]):
        raise FieldError("must be the number of classes", "spec.n_classes")
    if network["in_shape"] != inputs["shape"]:
        raise FieldError("must be the same as inputs.shape", "network.in_shape")
    if network["standardize"] not in (0, inputs["shape"][0]):
        raise FieldError("must be 0 or the first number of inputs.shape", "network.standardize")
    for names, size in (("code_names", len(spec["cardinalities"])), ("number_names", spec["n_numbers"])):
        if len(spec[names]) not in (0, size):
            raise FieldError(f"must have {size} names", f"spec.{names}")
    needed = {"columns": ["columns"], "text": ["text", "vocabulary"], "images": ["image_size"]}.get(inputs["kind"], [])
    for name in needed:
        if inputs.get(name) is None:
            raise FieldError("is missing", f"inputs.{name}")
    missing = inputs.get("missing", {"columns": [], "medians": []})
    width = inputs["shape"][0] - len(missing["columns"])
    if inputs["kind"] == "columns" and len(inputs["columns"]) != width:
        raise FieldError("must have as many names as inputs.shape says", "inputs.columns")
    if len(missing["medians"]) != len(missing["columns"]) or any(at >= width for at in missing["columns"]):
        raise FieldError("must have a median for each of its columns, which x must have", "inputs.missing")
    if inputs["kind"] == "images" and inputs["image_size"] != inputs["shape"][1:]:
        raise FieldError("must be the last two numbers of inputs.shape", "inputs.image_size")


MODEL = record(
    {
        "classes": list_of(label, least=1, unique=True),
        "method": text,
        "method_options": mapping(plain),
        "spec": record(
            {
                "n_train": whole(1),
                "n_classes": whole(1),
                "cardinalities": list_of(whole()),
                "n_numbers": whole(),
                "epochs": whole(1),
                "code_names": list_of(text),
                "number_names": list_of(text),
            },
            {"n_items": whole()},
            more=None,
        ),
        "network": record({"name": text, "in_shape": shape, "options": mapping(plain), "standardize": whole()}),
        "pi": list_of(
            record(
                {"name": text, "kind": text, "categories": list_of(text), "other": flag, "missing": flag},
                {"mean": number(), "std": number(), "low": number(), "high": number()},
            )
        ),
        "inputs": record(
            {"kind": one_of("array", "columns", "images", "text", "probabilities", "none"), "shape": shape},
            {
                "columns": list_of(text, least=1, unique=True),
                "text": text,
                "vocabulary": list_of(text, least=1, unique=True),
                "item": maybe(text),
                "missing": record({"columns": list_of(whole(), least=1, unique=True), "medians": list_of(number())}),
                "image_size": list_of(whole(1), least=2, most=2),
                "centre_crop": flag,
            },
        ),
    },
    rule=_model_rule,
)


EPOCH = record({"epoch": whole(), "attempt": whole(), "seconds": number(0, LONGEST)}, {"stage": text}, more=logged)


def _position_rule(position: Record) -> None:
    """The last epochs of the history are those that are done, and the best of them is one of them."""
    done = position["history"][len(position["history"]) - position["epoch"] :] if position["epoch"] else []
    if [(r["epoch"], r["attempt"]) for r in done] != [(e, position["attempt"]) for e in range(position["epoch"])]:
        raise FieldError("must end with the epochs that are done", "history")
    if position["best_epoch"] >= position["epoch"] or (position["best"] is None) != (position["best_epoch"] < 0):
        raise FieldError("must be an epoch that is done", "best_epoch")


STATE = record(
    {
        "position": record(
            {
                "attempt": whole(),
                "epoch": whole(),
                "step": whole(),
                "sums": mapping(measure),
                "seconds": number(0, LONGEST),
                "best": maybe(list_of(measure, least=2, most=2)),
                "best_epoch": whole(-1),
                "history": list_of(EPOCH),
                "events": list_of(EVENT),
            },
            {"ended": flag},
            more=None,
            rule=_position_rule,
        ),
        "optimizer": mapping(measure),
    },
    {"memories": mapping(text), "memory_digests": mapping(text), "run_id": text, "digest": text},
)
TENSORS = record({}, {"digest": text})
NOTES = record(  # of a Parquet file
    {"categories": mapping(list_of(label, unique=True)), "pi_columns": list_of(text, unique=True)},
    {"has_input": flag},
)

# --- the files of a sweep ---

SWEEP = record(
    {
        "pidual": text,
        "created": text,
        "source": mapping(plain),
        "study": text,
        "storage": maybe(text),
        "method": text,
        "setting": text,
        "seed": whole(),
        "method_options": mapping(plain),
        "training": mapping(plain),
        "network": mapping(plain),
        "data": mapping(plain),
        "search": mapping(list_of(plain, least=1)),
        "sampler": text,
        "prune": flag,
    }
)
