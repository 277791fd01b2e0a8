"""The cases of golden.py, and the data that they read.

A case is a list of lines of the command line, and of functions that are called with it and record what they get.
"""

import contextlib
import importlib
import inspect
import json
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

import pidual

INNER = {  # what is not a name of `pidual` itself: where one moves, its line here follows
    "main": "pidual.cli:main",
    "cli": "pidual.cli:cli",
    "Store": "pidual.run.decisions:Store",
    "make_app": "pidual.show.review.app:make_app",
    "cifar": "pidual.data.datasets.cifar",  # it has BATCH, the number of images in a file
}
FIT = "fit labels.csv -q --x x.npy --pi annotator,seconds"
TRAIN = f"{FIT} --network mlp --set network.width=8 --epochs 2 --batch-size 32"


def inner(name):
    """Something of INNER."""
    module, _, attribute = INNER[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def write_data(folder: Path) -> None:
    """Write what the cases read: 60 items in three classes, with three answers each by seven people."""
    rng, names = np.random.default_rng(7), np.array(["cat", "dog", "owl"])
    y = rng.integers(0, 3, 90)
    x = (rng.normal(size=(90, 4)) + 2.5 * np.eye(3, 4)[y]).astype(np.float32)
    np.save(folder / "x.npy", x[:60])
    np.save(folder / "x_test.npy", x[60:])
    np.save(folder / "probs.npy", (np.eye(3)[y[:60]] * 0.6 + rng.dirichlet(np.ones(3), 60) * 0.4).astype(np.float32))
    pd.DataFrame({"y": names[y[60:]]}).to_csv(folder / "y_test.csv", index=False)
    texts = [" ".join(rng.permutation([*rng.choice(list("abcdefgh"), 3), names[k] * 2, f"{names[k]}s"])) for k in y]
    items = pd.DataFrame({"item": range(90), "words": texts, "f1": x[:, 0], "f2": x[:, 1]})
    items.to_csv(folder / "items.csv", index=False)
    item, who = np.repeat(np.arange(60), 3), np.concatenate([rng.permutation(7)[:3] for _ in range(60)])
    seconds = rng.gamma(2, 3, 180).round(2)
    wrong = rng.random(180) < np.where(who < 2, 0.6, 0.12) + 0.2 * (seconds < 2.5)
    label = np.where(wrong, (y[item] + rng.integers(1, 3, 180)) % 3, y[item])
    np.save(folder / "probs_of_rows.npy", np.load(folder / "probs.npy")[item])
    people = np.array([f"person{w}@example.org" for w in range(7)])
    frame = pd.DataFrame({"item": item, "label": names[label], "annotator": people[who], "seconds": seconds})
    frame = frame.assign(y=names[y[item]], words=np.array(texts)[item], f1=x[item, 0], f2=x[item, 1])
    frame.to_csv(folder / "labels.csv", index=False)
    frame.to_parquet(folder / "labels.parquet")
    frame.to_json(folder / "labels.jsonl", orient="records", lines=True)
    frame.iloc[::3].drop(columns=["annotator"]).to_csv(folder / "one_each.csv", index=False)
    frame.iloc[::9][["item", "y"]].rename(columns={"y": "truth"}).to_csv(folder / "truth.csv", index=False)
    wide = frame.pivot_table(index="item", columns="annotator", values="label", aggfunc="first").set_axis(
        [f"rater_{w}" for w in range(7)], axis=1
    )
    wide.assign(f1=x[:60, 0], f2=x[:60, 1]).reset_index().to_csv(folder / "wide.csv", index=False)
    answers = list(zip(item.tolist(), names[label].tolist(), people[who].tolist(), seconds.tolist(), strict=True))
    stamp = "2024-05-{:02}T1{}:00:00.000000Z"
    tasks, records, examples, prodigy, potato = [], [], [], [], []
    for number, text in enumerate(texts[:60]):
        own = [answer[1:] for answer in answers if answer[0] == number]
        given = [
            {
                "id": 10 * number + place,
                "completed_by": {"id": place, "email": person},
                "result": [{"from_name": "animal", "to_name": "text", "type": "choices", "value": {"choices": [word]}}],
                "was_cancelled": (number + place) % 20 == 0,
                "created_at": stamp.format(1 + number % 28, place),
                "lead_time": taken,
            }
            for place, (word, person, taken) in enumerate(own)
        ]
        tasks.append({"id": number, "annotations": given, "predictions": [], "data": {"text": text}})
        responses = [{"value": word, "user_id": person, "status": "submitted"} for word, person, _ in own]
        records.append({"id": f"r{number}", "fields": {"text": text}, "responses": {"animal": responses}})
        examples += [{"id": number, "text": text, "label": [word], "annotator": person} for word, person, _ in own]
        for word, person, taken in own:
            asked = {"text": text, "_input_hash": number, "_task_hash": number, "_session_id": person}
            prodigy.append(asked | {"accept": [word], "answer": "accept", "_timestamp": 1714557600 + number})
            answer = {"instance_id": str(number), "user_id": person, "displayed_text": text}
            spent = {"time_string": f"Time spent: 0d 0h 0m {round(taken) % 60}s "}
            potato.append(answer | {"label_annotations": {"animal": {word: word}}, "behavioral_data": spent})
    more = np.where(rng.random(180) < 0.4, np.char.add("|", names[(y[item] + 1) % 3]), "")
    sets = np.where(
        names[label] == np.char.lstrip(more.astype(str), "|"), names[label], np.char.add(names[label], more)
    )
    frame[["item", "annotator"]].assign(tags=sets).to_csv(folder / "sets.csv", index=False)
    sides = np.stack([rng.permutation(20)[:2] for _ in range(120)])
    winner = np.where(rng.random(120) < 0.8, np.where(sides[:, 0] > sides[:, 1], "left", "right"), "tie")
    comparisons = pd.DataFrame({"left": sides[:, 0], "right": sides[:, 1], "winner": winner})
    comparisons.assign(annotator=[f"judge{number % 4}" for number in range(120)]).to_csv(
        folder / "comparisons.csv", index=False
    )
    (folder / "label_studio.json").write_text(json.dumps(tasks))
    for name, lines in (("prodigy", prodigy), ("potato", potato)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "argilla.json").write_text(json.dumps(records))
    (folder / "doccano.jsonl").write_text("".join(json.dumps(example) + "\n" for example in examples))
    (folder / "no_labels.csv").write_text("item,label\n")
    (folder / "run_of_nobody").mkdir()
    (folder / ".pidual.key").touch(mode=0o600)
    (folder / ".pidual.key").write_text("5a" * 32 + "\n")
    with contextlib.suppress(ImportError):
        from datasets import Dataset

        columns = frame[["words", "label", "annotator"]].assign(item=item)
        Dataset.from_pandas(columns, preserve_index=False).save_to_disk(str(folder / "hf"))
    with contextlib.suppress(ImportError):
        from PIL import Image

        (folder / "pictures").mkdir()
        for number in range(60):
            pixels = rng.normal(60 + 70 * y[number], 25, (10, 10, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / f"{number}.png")
    cifar = folder / "data" / "cifar-10-batches-bin"
    cifar.mkdir(parents=True)
    for name in ("data_batch_1", "test_batch"):
        pixels = rng.integers(0, 256, (20, 3073)).astype(np.uint8)
        pixels[:, 0] = np.arange(20) % 10
        (cifar / f"{name}.bin").write_bytes(pixels.tobytes())


# --- calls ---


def review(case):
    """Let two reviewers decide on the 14 labels of lowest quality, and take one decision back."""
    run = pidual.Run.open("run")
    frame = run.predictions.frame.sort_values(["label_quality", "row"], kind="stable").head(14)
    store = inner("Store")(run)
    for number, row in enumerate(frame.itertuples()):
        decision = "unsure" if number == 3 else "keep" if row.given_label == row.y else "change"
        label = None if decision == "unsure" else str(row.y)
        store.add(int(row.row), decision, label, reviewer=["ann", "bob"][number % 2], request=str(number))
    store.undo(reviewer="bob", request="last")
    store.close()
    run = pidual.Run.open("run")
    case.record("reviews", run.reviews.drop(columns="at"))
    case.record("calibration", run.calibration)


def review_page(case):
    """Ask what the review page asks."""
    from starlette.testclient import TestClient

    run = pidual.Run.open("run")
    store = inner("Store")(run)
    client = TestClient(inner("make_app")(run, store, "token"), base_url="http://127.0.0.1:8123")
    client.headers.update({"Authorization": "Bearer token", "Origin": "http://127.0.0.1:8123"})
    asked = ["/", "/api/about", "/api/next?reviewer=ann", "/api/next?reviewer=ann&everything=1&place=20"]
    for address in [*asked, "/api/next?reviewer=ann&place=nine", "/api/item?row=5", "/api/annotators?text=a"]:
        answer = client.get(address)
        case.record(address, f"{answer.status_code}\n{answer.text}".replace(',"', ',\n"'))
    first = {"reviewer": "ann", "request": "1"}
    bodies = [("decide", first | {"row": 5, "decision": "keep", "label": 0}), ("undo", first | {"request": "2"})]
    bodies += [
        ("decide", first | {"row": 999, "decision": "keep", "label": 0, "request": "3"}),
        ("decide", {"row": []}),
    ]
    for number, (path, body) in enumerate(bodies):
        answer = client.post(f"/api/{path}", json=body)
        case.record(f"{number} {path}", f"{answer.status_code}\n{answer.text}")
    store.close()


def stopped_and_resumed(method, steps, **options):
    """A fit that is stopped at a step, and goes on."""

    def call(case):
        table = pidual.read_table("labels.csv", pi=["annotator", "seconds"])
        asked = pidual.FitOptions(method=method, **options)
        answers = iter([False] * (steps - 1) + [True])
        try:
            pidual.fit_table(table, pidual.load_inputs("x.npy"), "run", asked, stop=lambda: next(answers))
            case.record("not stopped", "")
        except pidual.Interrupted as error:
            case.record("stopped", error)
        case.record("files of a stopped run", " ".join(sorted(path.name for path in Path("run").iterdir())))
        run = pidual.fit_table(table, pidual.load_inputs("x.npy"), "run", asked, resume=True)
        case.record("history", run.history)

    return call


def estimator(case):
    """Fit, predict and find with the classifier, save it and load it."""
    frame, x = pd.read_csv("labels.csv"), np.load("x.npy")
    pi = frame[["annotator", "seconds"]]
    rows = x[frame["item"]]
    kinds = {
        "closed": pidual.CrowdClassifier(random_state=0),
        "trained": pidual.PiDualClassifier(epochs=2, network="mlp", network__width=8, random_state=0),
    }
    for name, model in kinds.items():
        model.fit(rows, frame["label"], pi=pi)
        model.save(f"saved_{name}")
        loaded = type(model).load(f"saved_{name}")
        for words, each in ((name, model), (f"{name}, loaded", loaded)):
            case.record(f"{words}: probabilities", each.predict_proba(np.load("x_test.npy")))
            case.record(f"{words}: labels", each.predict(np.load("x_test.npy")))
            case.record(f"{words}: issues", each.find_label_issues())
            case.record(f"{words}: annotators", each.annotators_)
            case.record(f"{words}: items", each.items_)
            case.record(f"{words}: summary", each.summary_)
            case.record(f"{words}: parameters", {key: str(value) for key, value in each.get_params().items()})
        case.record(f"{name}: repr", model)


def estimator_around_another(case):
    """The classifier around one of scikit-learn, in a cross-validation."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    frame, x = pd.read_csv("one_each.csv"), np.load("x.npy")
    model = pidual.CrowdClassifier(estimator=LogisticRegression(), random_state=0).fit(x, frame["label"])
    case.record("issues", model.find_label_issues())
    case.record("probabilities", model.predict_proba(x))
    case.record("scores", cross_val_score(pidual.CrowdClassifier(random_state=0), x, frame["label"], cv=2))


def estimator_of_run(case):
    """The classifier of a run."""
    model = pidual.CrowdClassifier.from_run("run")
    case.record("probabilities", model.predict_proba(np.load("x_test.npy")))
    case.record("issues", model.find_label_issues())


def label_issues(case):
    """find_label_issues with one and several annotators, arrays and frames."""
    find, probs = pidual.find_label_issues, np.load("probs.npy")
    one, frame = pd.read_csv("one_each.csv")["label"], pd.read_csv("labels.csv")
    codes = one.map({"cat": 0, "dog": 1, "owl": 2}).to_numpy()
    named = pd.DataFrame(probs, columns=["cat", "dog", "owl"])
    case.record("mask", find(codes, probs))
    case.record("names", find(one.to_numpy(), named, as_frame=True))
    for ranking in ("label_quality", "self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        case.record(f"by {ranking}", find(codes, probs, return_indices_ranked_by=ranking))
    case.record("half", find(codes, probs, frac_noise=0.5))
    case.record("per class", find(codes, probs, num_to_remove_per_class=[1, 2, 3]))
    wide = frame.pivot_table(index="item", columns="annotator", values="label", aggfunc="first")
    case.record("several", find(wide.to_numpy(), named))
    case.record("several, as a frame", find(wide, named, as_frame=True))
    case.record("known annotators", find(frame["label"], named.iloc[frame["item"]], annotators=frame["annotator"]))


def judged(case):
    """Judge with probabilities and without."""
    frame = pd.read_csv("labels.csv")
    calls = {"answers": (frame, None), "probabilities": (frame, np.load("probs.npy"))}
    for name, (table, probs) in calls.items():
        found = pidual.judge(table, probs, pi=["annotator", "seconds"])
        for part in ("items", "predictions", "annotators", "summary"):
            case.record(f"{name}: {part}", getattr(found, part))
    case.record("repr", found)


def judged_in_parts(case):
    """New answers judged in two parts, which add up."""
    run, frame, x = pidual.Run.open("run"), pd.read_csv("labels.csv"), np.load("x.npy")
    parts = [run.judge(frame[at::2].reset_index(drop=True), x, as_arrow=True) for at in (0, 1)]
    case.record("first part", parts[0].to_pandas())
    totals = pidual.merge(parts)
    case.record("totals", f"{totals!r} {totals.noise}")
    case.record("annotators", totals.annotators)


def run_in_python(case):
    """What a Run gives."""
    run = pidual.Run.open("run")
    for name in ("items", "annotators", "annotator_classes", "config", "summary", "history"):
        case.record(name, getattr(run, name))
    case.record("predictions", run.predictions.frame)
    case.record("predict", run.predict(np.load("x_test.npy")))
    case.record("predict, last epoch", run.predict("x_test.npy", weights="last"))
    case.record("detect", run.detect(budget=9))
    case.record("next", run.next_answers(9, per_annotator=3))
    case.record("repr", f"{run!r}\n{run._repr_html_()}\n{run.predictions!r}")
    case.record("model", {name: str(tuple(each.shape)) for name, each in run.load().state_dict().items()})


def made_data(case):
    """Data that the package makes itself."""
    made = pidual.make_crowd(50, 8, 2, 3, 4, n_test=20, seed=3)
    case.record("crowd", made.frame)
    case.record("crowd x", made.x)
    for name in ("digits_pi:low",):
        data = pidual.load_dataset(name)
        case.record(f"{name} table", data.frame)
        case.record(f"{name} x", np.asarray(data.x))
        case.record(f"{name} PI", str(data.pi))


def tables_in_python(case):
    """Tables and inputs from files, frames and arrays."""
    read = pidual.read_table("labels.csv", pi=["annotator", "seconds"], same={"owl": "dog"})
    case.record("file", read.frame)
    frame = pd.read_csv("labels.csv")
    case.record("frame", pidual.AnnotationTable.from_frame(frame, pi=["annotator"], key=b"k" * 32).frame)
    made = pidual.AnnotationTable.from_arrays(frame["label"], frame["item"], frame[["seconds"]])
    case.record("arrays", made.frame)
    inputs = [pidual.load_inputs("x.npy"), pidual.load_inputs("items.csv", text="words")]
    case.record("reprs", "\n".join(map(repr, [read, made, *inputs])))
    case.record("text", np.asarray(inputs[1].array))


def names_and_signatures(case):
    """The public names, and how they are called."""
    lines = []
    for name in sorted(pidual.__all__):
        found = getattr(pidual, name)
        error = inspect.isclass(found) and issubclass(found, Exception)
        lines.append(f"{name}{inspect.signature(found)}" if callable(found) and not error else name)
        members = inspect.getmembers(found, callable) if inspect.isclass(found) else []
        lines += [
            f"  {name}.{key}{inspect.signature(each)}"
            for key, each in members
            if key[0] != "_" and hasattr(each, "__code__")
        ]
    text = "\n".join(lines)
    for home in ("pidual", "pandas", "torch", "numpy"):
        text = re.sub(rf"\b{home}\.[\w.]*\.(\w+)", r"\1", text)  # where an inner name has its home may change
    case.record("names", re.sub(r" at 0x\w+", "", text))


def relabelled(case):
    """CIFAR-10 of 20 images a file, relabelled."""
    with mock.patch.object(inner("cifar"), "BATCH", 20):
        case.command("data relabel cifar10_pi --data data -q --json")
        case.command("data check cifar10_pi --data data")


def helps():
    """A line for the help of each command."""
    import click

    def below(group, words):
        for name, command in sorted(group.commands.items()):
            yield f"{words}{name} --help"
            if isinstance(command, click.Group):
                yield from below(command, f"{words}{name} ")

    return ["--help", "--version", *below(inner("cli"), "")]


# --- cases ---

SWEEP = "sweep labels.csv -q --x x.npy --method ce --search lr=0.01,0.1 --trials 2 --epochs 1 --out sweep"
CASES = {
    "help": helps(),
    "names": [names_and_signatures],
    "methods": ["methods", "methods --json"],
    "vectors": [
        f"{FIT} --out run",
        "detect run",
        "detect run --json",
        "detect run --budget 7 --out seven.csv",
        "detect run --cutoff 0.2",
        "detect run --per-class 2",
        "detect run --resting",
        "detect run --class owl --out owl.json",
        "detect run --fail-over 5% --out all.parquet",
        "detect run --fail-over 90% --json",
        "detect run --cutoff reviewed",
        "annotators run",
        "annotators run --names",
        "annotators run --out annotators.csv",
        "report run",
        "next run --budget 6",
        "next run --budget 6 --names",
        "next run --budget 5 --per-annotator 1 --out next.parquet",
        "predict run x_test.npy --y y_test.csv",
        "predict run x_test.npy --json",
        "predict run x_test.npy --out predicted.csv",
        run_in_python,
        estimator_of_run,
    ],
    "vectors, not quiet": [f"{FIT.replace(' -q', '')} --out run", f"{FIT} --json --out other --seed 1"],
    "by annotator": [f"{FIT} --keep-ids --out run", "detect run --by person1@example.org --by person2@example.org"],
    "exports": [
        f"{FIT} --out run",
        *(f"export run {kind}.{kind} --to {kind}" for kind in ("csv", "parquet", "jsonl", "hf", "onnx")),
        "export run --to label-studio",
        "export run --to torch",
        "export run",
        "export run sure.csv --to csv --sure 0.9 --json",
        "export run --to csv --soft",
        "export run csv.csv --to csv",
        "export run csv.csv --to csv --force",
    ],
    "exports of networks": [
        f"{TRAIN} --method co_teaching --out run",
        "export run --to onnx",
        "export run --to torch",
        f"{TRAIN} --method ce --out ce",
        "export ce ce.onnx --to onnx --json",
        "export ce ce.torch --to torch --json",
    ],
    "decisions": [
        f"{FIT} --out run",
        review,
        "detect run --cutoff reviewed",
        "detect run --json",
        "report run",
        "export run --to csv",
        "export run hf.clean --to hf",
        "next run --budget 4",
        "fit --from run -q --out run2",
        "fit --from run -q --json --out run3",
    ],
    "review page": [f"{FIT} --out run", review_page],
    "truth": [f"{FIT} --truth truth.csv --y y --out run"],
    "no x": [
        "fit labels.csv -q --no-x --pi annotator,seconds --out run",
        "detect run --json",
        "export run --to csv --soft",
    ],
    "new answers": [
        f"{FIT} --truth truth.csv --out run",
        "judge run labels.csv --x x.npy",
        "judge run labels.csv --x x.npy --json --fail-over 5%",
        "judge run labels.parquet --x x.npy -q --out judged.parquet",
        judged_in_parts,
        "judge run one_each.csv --x x.npy",
        f"{TRAIN} --method pi_dual --out trained",
        "judge trained labels.jsonl --x x.npy --out judged.csv",
    ],
    "no x, nothing known": ["fit one_each.csv -q --no-x --out run"],
    "probabilities": ["fit labels.csv -q --probs probs.npy --pi annotator,seconds --out run", "predict run probs.npy"],
    "probabilities without a run": [
        "detect --labels one_each.csv:label --probs probs.npy",
        "detect --labels labels.csv:label --probs probs_of_rows.npy --annotator labels.csv:annotator",
    ],
    "one label each": ["fit one_each.csv -q --x x.npy --out run", "detect run", "next run --budget 3"],
    "split and y": [f"{FIT} --y y --valid-fraction 0.2 --method ce --epochs 2 --out run"],
    "text": ["fit labels.csv -q --x-text words --out run", "predict run items.csv", "export run --to onnx"],
    "text, trained": ["fit labels.csv -q --x-text words --method pi_dual --epochs 2 --out run"],
    "columns": ["fit labels.csv -q --x-columns 'f*' --pi annotator,seconds --out run", "predict run items.csv"],
    "images": [
        "fit labels.csv -q --x pictures --method ce --network small_cnn --set network.width=2 --epochs 2 --out run",
        "predict run pictures",
        "report run",
    ],
    "images, default": ["fit labels.csv -q --x pictures --epochs 2 --set network.width=2 --out run"],
    "sets of labels": [
        "fit sets.csv -q --label tags --label-separator | --x x.npy --pi annotator --out run",
        "detect run",
        "next run --budget 5",
    ],
    "comparisons": ["pairs comparisons.csv --out found", "pairs comparisons.csv --json"],
    "wide table": ["fit wide.csv -q --annotators 'rater_*' --x-columns f1,f2 --out run", "export run --to csv"],
    "parquet": ["fit labels.parquet -q --x x.npy --out run", "export run --to parquet"],
    "json lines": ["fit labels.jsonl -q --x x.npy --out run", "export run --to jsonl"],
    **{
        name: [f"data import {file} long.csv", f"data import {file} long.parquet --json", f"fit {file} -q --out run"]
        for name, file in {
            "label studio": "label_studio.json",
            "argilla": "argilla.json",
            "doccano": "doccano.jsonl",
            "prodigy": "prodigy.jsonl",
            "potato": "potato.jsonl",
            "hugging face": "hf",
        }.items()
    },
    "label studio, export": [
        "fit label_studio.json -q --out run",
        "export run --to label-studio",
        "next run --budget 5 --out next.json",
    ],
    "import": [
        "data import wide.csv long.csv --annotators 'rater_*'",
        "data import labels.csv kept.csv --keep-ids",
        "data import labels.csv other.csv --item item --annotator annotator --json",
    ],
    "data check": ["data check cifar10n --data data", "data check all --json --data data"],
    "data relabel": [relabelled],
    **{f"method {name}": [f"{TRAIN} --method {name} --out run"] for name in pidual.METHODS},
    "setting paper": [f"{FIT} --setting paper --epochs 2 --out run"],
    "stopped and resumed": [
        stopped_and_resumed("pi_dual", 8, network="mlp", options={"epochs": 3, "network.width": 8, "batch_size": 32}),
        f"{TRAIN} --resume --method pi_dual --epochs 3 --out run",
    ],
    "stopped and resumed, latent truth": [
        stopped_and_resumed(
            "latent_truth", 12, network="mlp", options={"epochs": 2, "network.width": 8, "batch_size": 32}
        )
    ],
    "stopped and resumed, closed form": [stopped_and_resumed("latent_truth", 2)],
    "replaced": [
        f"{FIT} --out run",
        f"{FIT} --out run",
        f"{FIT} --seed 1 --force --out run",
        f"{FIT} --resume --out run",
    ],
    "sweep": [
        SWEEP,
        f"{SWEEP} --resume --json",
    ],
    "benchmark": [
        "benchmark digits_pi:low --methods ce,pi_dual --seeds 1 --set epochs=1 -q --out bench",
        "benchmark digits_pi:low --methods ce,pi_dual --seeds 1 --set epochs=1 -q --out bench --json",
        "benchmark --list",
    ],
    "estimator": [estimator],
    "estimator around another": [estimator_around_another],
    "find_label_issues": [label_issues],
    "judge": [judged],
    "made data": [made_data],
    "tables": [tables_in_python],
    "errors": [
        "fit",
        "fit nothing.csv",
        "fit no_labels.csv --no-x",
        "fit labels.csv --x x_test.npy",
        "fit labels.csv --x x.npy --pi secnds",
        "fit labels.csv --x x.npy --method pidual",
        "fit labels.csv --x x.npy --set lr=high",
        "fit labels.csv --x x.npy --method ce --set lam=1",
        "fit labels.csv --x-columns label",
        "fit labels.csv --probs x.npy",
        "detect run_of_nobody",
        "detect labels.csv",
        "export run_of_nobody --to csv",
        "predict run_of_nobody x.npy",
        "benchmark nothing",
        "data check nothing",
        "data import labels.csv labels.csv",
    ],
}
