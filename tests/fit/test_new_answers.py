"""New answers judged by a run: the formula by plain loops, parts of a table, and what is refused."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import refused, run_cli, write_key
from msgspec.structs import replace
from sklearn.metrics import roc_auc_score

import pidual
from pidual.data import AnnotationTable, Inputs, no_inputs
from pidual.data.datasets.synthetic import make_crowd
from pidual.learn.answers.posterior import RHO
from pidual.run.records.summary import CopyGroup

pytestmark = pytest.mark.shapes_unchecked

NAMES = np.array(["cat", "dog", "owl"])
PI = ["annotator", "seconds"]
EXACT = {"row", "table_row"}  # what counts from 0 in every part


@pytest.fixture(scope="module")
def crowd():
    """Answers to 90 items; runs learn from the first 60."""
    made = make_crowd(90, 8, 4, 3, 4, noise=0.35, spammer_share=0.2, seed=2)
    rng, frame = np.random.default_rng(0), made.frame.assign(item=made.frame["item"].map("i{:03}".format))
    frame = frame.assign(label=NAMES[frame["label"]], y=NAMES[frame["y"]], annotator=frame["annotator"].astype(str))
    y = frame.drop_duplicates("item")["y"].map({name: code for code, name in enumerate(NAMES)}).to_numpy()
    probs = 0.5 * np.eye(3)[y] + 0.5 * rng.dirichlet(np.ones(3), 90)
    names = np.array([f"i{number:03}" for number in range(90)])
    old = frame["item"] < "i060"
    return SimpleNamespace(
        old=frame[old].reset_index(drop=True),
        new=frame[~old].reset_index(drop=True),
        x={"x": made.x, "probs": probs, "no x": None},
        names=names,
    )


@pytest.fixture(scope="module")
def runs(crowd, tmp_path_factory):
    """A run of each kind, which knows annotators by their names."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    table = AnnotationTable.from_frame(crowd.old, pi=PI, keep_ids=True)
    gold = AnnotationTable.from_frame(crowd.old, pi=["annotator"], keep_ids=True)
    for kind, x in crowd.x.items():
        how = {"kind": "probabilities"} if kind == "probs" else {}
        inputs = no_inputs() if x is None else Inputs.from_array(x, crowd.names, **how)
        options = None if kind == "x" else pidual.FitOptions(method="latent_truth")
        found[kind] = pidual.fit_table(table, inputs, folder / kind, options)
    known = pd.Index(NAMES).get_indexer(crowd.old["y"])
    known[crowd.old["item"] >= "i040"] = -1
    options = pidual.FitOptions(method="latent_truth")
    found["gold"] = pidual.fit_table(gold, no_inputs(), folder / "gold", options, truth=known)
    return found


def inputs_of(crowd, kind, folder):
    """The inputs of all items as a user gives them."""
    x = crowd.x.get(kind)
    if x is None:
        return None
    np.savez(folder / "inputs.npz", **{"pred_probs" if kind == "probs" else "x": x, "item": crowd.names})
    return folder / "inputs.npz"


# --- the formula ---


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def answer_table(held, annotator, seconds):
    """P(l | k, a) of METHODS.md 8, class by class."""
    model, design, k = held.judge.model, held.design, held.judge.model.confusions.shape[0]
    codes = np.array([[annotator]], np.int32)
    columns = design.columns(codes, np.array([seconds], np.float32).reshape(1, -1)).toarray()[0]
    skill, favourites = 2.0 + columns @ model.skill, columns @ model.favourites
    own = model.own[annotator] if len(model.own) and annotator >= 0 else np.zeros((k, k))
    table = np.zeros((k, k))
    for true in range(k):
        table[true] = softmax(
            np.array(
                [
                    skill * (said == true) + model.confusions[true, said] + favourites[said] + own[true, said]
                    for said in range(k)
                ]
            )
        )
    return table


def by_loops(run, frame, p):
    """p0 of every item and the quality of every answer, as METHODS.md 8 and 9.1 have them; p by item."""
    held, columns = run.load().learned, {column["name"]: column for column in run.model.pi}
    judge = held.judge
    assert judge.misleading is None
    tau, sharp, pi = judge.temper.tau, judge.temper.sharpness, np.exp(judge.log_share)
    p0, quality, about = {}, np.zeros(len(frame)), []
    for item, answers in frame.groupby("item"):
        f = softmax(judge.model.sharpness * np.log(p[item]) + judge.model.bias)
        f = softmax(sharp * np.log(f))
        said = []
        for answer in answers.itertuples():
            known = columns["annotator"]["categories"]
            number = columns.get("seconds")
            log = (
                np.clip(np.log1p(answer.seconds), number.get("low", -np.inf), number.get("high", np.inf))
                if number
                else 0
            )
            seconds = [(log - number["mean"]) / number["std"]] if number else []
            who = known.index(answer.annotator) if answer.annotator in known else -1
            table = answer_table(held, who, seconds)
            said.append(np.log(table[:, NAMES.tolist().index(answer.label)]))
        b = min(1.0, 1 / (tau * (1 + RHO * (len(said) - 1))))
        joint = np.log(f) - np.log(pi) + b * (np.log(pi) + tau * np.sum(said, axis=0))
        p0[item] = softmax(joint)
        about.append((p0[item], [(at, tau * b, e) for at, e in zip(answers.index, said, strict=True)]))
        for at, e in zip(answers.index, said, strict=True):
            mine = softmax(joint - 0.5 * tau * b * e)
            quality[at] = mine[NAMES.tolist().index(frame["label"][at])]
    return p0, quality, about


@pytest.mark.parametrize("kind", ["x", "probs", "no x"])
def test_new_answers_are_judged_by_the_formula(crowd, runs, kind, tmp_path):
    run, frame = runs[kind], crowd.new.copy()
    frame.loc[frame["annotator"] == frame["annotator"].iloc[0], "annotator"] = "somebody new"
    x = crowd.x[kind]
    if kind == "x":
        p = run.predict(x).filter(regex="^p_").to_numpy()
    else:
        p = np.full((90, 3), 1 / 3) if x is None else np.float64(x)
    of_item = dict(zip(crowd.names, p, strict=True))
    judged = run.judge(frame, inputs_of(crowd, kind, tmp_path))
    p0, quality, _ = by_loops(run, frame, of_item)
    expected = np.array([p0[item].max() for item in frame["item"]])
    np.testing.assert_allclose(judged["consensus_quality"], expected, atol=1e-5)
    named = [NAMES[p0[item].argmax()] for item in frame["item"]]
    assert judged["consensus_label"].astype(str).tolist() == named
    np.testing.assert_allclose(judged["label_quality"], quality, atol=1e-5)
    np.testing.assert_allclose(judged["wrong"], 1 - quality, atol=1e-5)
    cut = run.summary.cutoff.value
    resting = (quality < cut) & (frame["label"] == named)
    np.testing.assert_array_equal(judged["is_label_issue"], (quality < cut) & ~resting)
    np.testing.assert_array_equal(judged["rests_on_own_answer"], resting)


def test_what_gold_corrected_in_the_run_corrects_new_answers(crowd, runs):
    """S of METHODS.md 9.2 by loops, without x: g L + c + sum of w E, by every fit of the mixture."""
    run, frame = runs["gold"], crowd.new
    calibrator, uniform = run.load().learned.calibrator, dict.fromkeys(crowd.names, np.full(3, 1 / 3))
    known = run.model.pi[0]["categories"]
    _, _, about = by_loops(run, frame, uniform)
    judged = run.judge(frame)
    for (item, answers), (p0, said) in zip(frame.groupby("item"), about, strict=True):
        p, level = np.zeros(3), np.log(np.maximum(p0, 1e-4))
        for share, numbers in zip(calibrator.share, calibrator.numbers, strict=True):
            s = numbers[3] * (level - level.mean()) + numbers[:3]
            for who, (_, _, e) in zip(answers["annotator"], said, strict=True):
                s = s + numbers[5 + known.index(who)] * (e - e.mean())
            p += share * softmax(s)
        row = judged.iloc[answers.index[0]]
        assert row["consensus_quality"] == pytest.approx(p.max(), abs=1e-5), item
    full = 1 - judged["wrong"]
    right = judged["given_label"].astype(str) == judged["consensus_label"].astype(str)
    np.testing.assert_allclose(full[right], judged["consensus_quality"][right], atol=1e-6)
    np.testing.assert_array_equal(judged["wrong"], judged["wrong_if_shared"])


@pytest.mark.parametrize("kind", ["probs", "no x"])
def test_the_answers_of_a_run_are_judged_again_as_it_judged_them(crowd, runs, kind, tmp_path):
    """Where no classifier has learned from them; where one has, it judges its own answers a little too well."""
    again, before = runs[kind].judge(crowd.old, inputs_of(crowd, kind, tmp_path)), runs[kind].predictions.frame
    for name in ("label_quality", "consensus_quality", "gate"):
        np.testing.assert_allclose(again[name], before[name], atol=1e-6)
    np.testing.assert_array_equal(again["is_label_issue"], before["is_label_issue"])


def test_a_classifier_that_has_seen_the_answers_judges_them_nearly_as_the_fit_did(crowd, runs, tmp_path):
    again, before = runs["x"].judge(crowd.old, inputs_of(crowd, "x", tmp_path)), runs["x"].predictions.frame
    assert not np.allclose(again["label_quality"], before["label_quality"], atol=1e-3)
    assert np.corrcoef(again["label_quality"], before["label_quality"])[0, 1] > 0.9


def test_one_half_judges_the_other_nearly_as_a_fit_on_both(tmp_path):
    made = make_crowd(500, 12, 3, 3, 6, noise=0.4, seed=5)
    frame = made.frame.assign(label=NAMES[made.frame["label"]])
    first = (frame["item"] % 2 == 0).to_numpy()
    inputs = Inputs.from_array(made.x, np.arange(500).astype(str))
    tables = [AnnotationTable.from_frame(each.drop(columns="y"), keep_ids=True) for each in (frame[first], frame)]
    half, both = (pidual.fit_table(table, inputs, tmp_path / str(at)) for at, table in enumerate(tables))
    wrong = (frame["label"] != NAMES[frame["y"]]).to_numpy()[~first]
    new = half.judge(frame[~first], made.x)
    auc = [
        roc_auc_score(wrong, 1 - quality) for quality in (new["label_quality"], both.predictions.label_quality[~first])
    ]
    assert auc[0] > auc[1] - 0.02


# --- parts of a table ---


def parts_of(frame):
    """All answers to an item in one part: of one item, of many, and none."""
    items = frame["item"].drop_duplicates().tolist()
    chosen = [items[:1], items[1:20], items[20:], []]
    return [frame[frame["item"].isin(some)].reset_index(drop=True) for some in chosen]


@pytest.mark.parametrize("kind", ["x", "probs", "no x", "gold"])
def test_parts_give_the_rows_of_the_whole(crowd, runs, kind, tmp_path):
    x = inputs_of(crowd, kind, tmp_path)
    whole = runs[kind].judge(crowd.new, x, as_arrow=True)
    parts = [runs[kind].judge(part, x, as_arrow=True) for part in parts_of(crowd.new)]
    assert {part.schema for part in parts} == {whole.schema}
    together = pa.concat_tables(parts).drop_columns([*EXACT]).to_pandas()
    pd.testing.assert_frame_equal(together, whole.drop_columns([*EXACT]).to_pandas(), rtol=0, atol=1e-6)
    totals = pidual.merge(parts), pidual.merge([pidual.merge(parts[:2]), *parts[2:]])
    for found in totals:
        assert (found.n_rows, found.n_items, found.n_issues) == (
            len(crowd.new),
            30,
            whole["is_label_issue"].to_numpy().sum(),
        )
        assert found.noise.rate == pytest.approx(float(np.mean(whole["wrong"].to_numpy(), dtype=np.float64)), abs=1e-7)


def test_columns_are_of_one_type_whatever_a_part_holds(crowd, runs):
    """Items that all look like numbers in one part, whole seconds in another, an annotator alone in a third."""
    frame = crowd.new.head(12).assign(item=["7"] * 4 + ["seven"] * 4 + ["08"] * 4, seconds=[1.0] * 4 + [2.5, None] * 4)
    parts = [frame[at : at + 4].reset_index(drop=True) for at in (0, 4, 8)]
    found = [runs["no x"].judge(pa.Table.from_pandas(part), as_arrow=True) for part in parts]
    assert found[0].schema == found[1].schema == found[2].schema
    assert [part["item"][0].as_py() for part in found] == ["7", "seven", "08"]
    assert runs["no x"].judge(parts[0].assign(item=7))["item"].tolist() == [7] * 4


@pytest.mark.parametrize(
    "form", [pa.Table.from_pandas, lambda frame: pa.RecordBatch.from_pandas(frame), AnnotationTable.from_frame]
)
def test_tables_of_other_kinds(crowd, runs, form):
    how = {"pi": PI, "keep_ids": True} if form == AnnotationTable.from_frame else {}
    expected, found = runs["no x"].judge(crowd.new), runs["no x"].judge(form(crowd.new, **how))
    pd.testing.assert_frame_equal(found.drop(columns="item"), expected.drop(columns="item"))


def test_rows_without_an_answer_are_left_out(crowd, runs):
    gaps = crowd.new.copy()
    gaps.loc[[0, 5], "label"] = [None, "  "]
    found = runs["no x"].judge(gaps)
    kept = np.delete(np.arange(len(gaps)), [0, 5])
    np.testing.assert_array_equal(found["table_row"], kept)
    assert len(runs["no x"].judge(gaps.head(1))) == 0
    pd.testing.assert_frame_equal(
        runs["no x"].judge(gaps.iloc[kept].reset_index(drop=True)), found.assign(table_row=found["row"])
    )


def test_people_who_copied_in_the_run_are_one_voter(crowd, runs, tmp_path):
    run, frame = runs["no x"], crowd.new.head(1).loc[[0, 0, 0]].reset_index(drop=True)
    frame["annotator"] = people = crowd.old["annotator"].drop_duplicates().head(3).tolist()
    copies = [CopyGroup(annotators=people, items=10, same=10)]
    copied = pidual.Run.holding(run.path, **(run.known | {"summary": replace(run.summary, copies=copies)}))
    apart, together = (each.judge(frame)["consensus_quality"].iloc[0] for each in (run, copied))
    assert together < apart
    alone = [run.judge(frame.iloc[[at]])["consensus_quality"].iloc[0] for at in range(3)]
    assert min(alone) - 1e-6 <= together <= max(alone) + 1e-6


# --- other methods ---


@pytest.mark.parametrize("method", ["ce", "pi_dual", "latent_truth"])
def test_runs_of_trained_networks_keep_how_answers_came_about(crowd, method, tmp_path):
    table = AnnotationTable.from_frame(crowd.old, pi=PI, keep_ids=True)
    inputs = Inputs.from_array(crowd.x["x"], crowd.names)
    small = {"epochs": 2, "network.width": 8, "batch_size": 32}
    options = pidual.FitOptions(method=method, network="mlp", options=small, valid_fraction=0.5)
    run = pidual.fit_table(table, inputs, tmp_path / "run", options)
    x = inputs_of(crowd, "x", tmp_path)
    again, held_out = run.judge(crowd.old, x), (run.predictions.frame["split"] == "valid").to_numpy()
    if method != "latent_truth":  # of which other networks judge what they have not seen
        before = run.predictions.label_quality
        np.testing.assert_allclose(again["label_quality"][held_out], before[held_out], atol=2e-3)
    parts = [run.judge(part, x, as_arrow=True) for part in parts_of(crowd.new)]
    whole = run.judge(crowd.new, x, as_arrow=True)
    assert {part.schema for part in parts} == {whole.schema}
    together = pa.concat_tables(parts).drop_columns([*EXACT]).to_pandas()
    pd.testing.assert_frame_equal(together, whole.drop_columns([*EXACT]).to_pandas(), rtol=0, atol=1e-5)
    last = run.load("last")
    assert last.learned.judge.temper.tau == run.load().learned.judge.temper.tau
    forgot = run.load()
    forgot.learned = None
    run.trained["selected"] = forgot, {}
    with pytest.raises(pidual.UsageError, match="keeps nothing of how its answers came about"):
        run.judge(crowd.new, x)


# --- what is refused, and the command ---


@pytest.fixture(scope="module")
def folder(crowd, tmp_path_factory):
    """labels.csv and new.csv with e-mail addresses for names, the key, inputs, and two runs."""
    place = tmp_path_factory.mktemp("files")
    write_key(place)
    for name, frame in (("labels", crowd.old), ("new", crowd.new)):
        frame.assign(annotator=frame["annotator"] + "@example.org").drop(columns="y").to_csv(
            place / f"{name}.csv", index=False
        )
    pd.DataFrame(crowd.x["x"]).assign(item=crowd.names).to_csv(place / "x.csv", index=False)
    for name, inputs in (("run", ["--x", place / "x.csv"]), ("without", ["--no-x"])):
        how = ["--pi", ",".join(PI), "--out", place / name, "-q"]
        assert run_cli(["fit", place / "labels.csv", *inputs, *how])[0] == 0
    return place


def test_the_command_judges_and_counts(folder, crowd):
    out = folder / "judged.parquet"
    code, printed, said = run_cli(["judge", folder / "run", folder / "new.csv", "--x", folder / "x.csv", "--out", out])
    assert (code, printed) == (0, "")
    found = pd.read_parquet(out)
    assert f"{found['is_label_issue'].sum()} of {len(crowd.new)} labels look wrong" in said
    assert set(found["annotator"]) <= set(pidual.Run.open(folder / "run").predictions.frame["annotator"])
    assert {*pidual.Run.open(folder / "run").predictions.frame} - {*found} <= {
        "reason_annotator",
        "reason_pair",
        "reason_pi",
    }
    code, printed, _ = run_cli(["judge", folder / "without", folder / "new.csv", "--no-x"])
    assert (code, len(pd.read_csv(io.StringIO(printed)))) == (0, len(crowd.new))
    code, printed, _ = run_cli(["judge", folder / "without", folder / "new.csv", "--json"])
    counts = json.loads(printed)
    assert (code, counts["n_rows"], counts["n_items"]) == (0, len(crowd.new), 30)
    assert counts["noise"]["low"] <= counts["noise"]["rate"] <= counts["noise"]["high"]


def test_too_many_issues_have_an_exit_code(folder):
    judge = ["judge", folder / "without", folder / "new.csv", "--json", "--fail-over"]
    assert run_cli([*judge, "99%"])[0] == 0
    code, _, said = run_cli([*judge, "1%"])
    assert code == 3
    assert "more than the 1.0% allowed" in said


def changed(folder, name, change):
    change(pd.read_csv(folder / "new.csv")).to_csv(folder / name, index=False)
    return folder / name


def test_what_a_run_does_not_know_is_refused_in_a_sentence(folder, tmp_path):
    run, without = folder / "run", folder / "without"
    cow = changed(folder, "cow.csv", lambda frame: frame.replace({"label": {"owl": "cow"}}))
    refused(run_cli(["judge", without, cow]), 1, "cow.csv, line ", "'cow' is not a class of", "'cat', 'dog', 'owl'")
    short = changed(folder, "short.csv", lambda frame: frame.drop(columns="seconds"))
    refused(run_cli(["judge", without, short]), 1, "has no PI column 'seconds'")
    nobody = changed(folder, "nobody.csv", lambda frame: frame.drop(columns="annotator"))
    refused(run_cli(["judge", without, nobody]), 2, "no column that says who gave each label")
    new = folder / "new.csv"
    refused(run_cli(["judge", run, new]), 1, "new.csv has 0 of the 4 features")
    refused(run_cli(["judge", without, new, "--x", folder / "x.csv"]), 2, "was fitted without inputs")
    refused(run_cli(["judge", run, new, "--probs", folder / "x.csv"]), 2, "not with --probs")
    refused(run_cli(["judge", run, new, "--x", folder / "x.csv", "--no-x"]), 2, "cannot be used together")
    few = changed(folder, "few.csv", lambda frame: frame.assign(item=frame["item"].replace("i060", "i999")))
    refused(run_cli(["judge", run, few, "--x", folder / "x.csv"]), 1, "i999")


def test_people_are_known_by_the_key_of_the_run(folder, tmp_path):
    frame = pd.read_csv(folder / "new.csv")
    frame.to_csv(tmp_path / "new.csv", index=False)  # no key beside it: that of the table of the run counts
    there, here = (run_cli(["judge", folder / "without", place / "new.csv", "-q"])[1] for place in (tmp_path, folder))
    assert there == here
    (tmp_path / "other.key").write_text("a1" * 32 + "\n")
    (tmp_path / "other.key").chmod(0o600)
    code, _, said = run_cli(
        ["judge", folder / "without", folder / "new.csv", "--key-file", tmp_path / "other.key", "-q"]
    )
    assert code == 0
    assert "knows none of the 8 annotators" in said
    missing = run_cli(["judge", folder / "without", folder / "new.csv", "--key-file", tmp_path / "none.key"])
    refused(missing, 2, "There is no key of the pseudonyms at")


def test_tables_of_a_run_stream_as_arrow(runs):
    for name in ("predictions", "items", "annotators"):
        reader = getattr(runs["x"], f"{name}_arrow")
        assert isinstance(reader, pa.RecordBatchReader)
        frame = getattr(runs["x"], name)
        frame = getattr(frame, "frame", frame)
        read = reader.read_all()
        assert read.column_names == list(frame)
        assert read.num_rows == len(frame)
    np.testing.assert_array_equal(
        runs["x"].predictions_arrow.read_all()["label_quality"], runs["x"].predictions.label_quality
    )
