"""Tables whose wrong labels are known: ATTACKS break what a fit takes for granted, USERS look as teams have them.

    table = TABLES["copying_annotators"](seed=0)
    with contextlib.chdir(folder):
        table.write()           # files as users have them; none of them holds the truth
    table.options               # of `pidual fit`, with names of these files

A table is drawn anew for every seed, at the sizes and rates that its docstring and code state.
"""

import json
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CLASSES = np.array([f"c{k}" for k in range(10)])


@dataclass(frozen=True)
class Planted:
    """Answers (item, label, ...), the true class of every item, and files with the options to fit them.

    Files are frames (CSV), arrays (.npy) and texts. `bad` has the worst annotators, `same` the class that a label means
    where it is written in another way.
    """

    answers: pd.DataFrame
    truth: dict[str, str]
    files: dict[str, Any]
    options: list[str]
    bad: tuple[str, ...] = ()
    same: dict[str, str] = field(default_factory=dict)

    def write(self):
        """Write the files into this folder."""
        for name, content in self.files.items():
            if isinstance(content, pd.DataFrame):
                content.to_csv(name, index=False)
            elif isinstance(content, str):
                Path(name).write_text(content, encoding="utf-8")
            else:
                np.save(name, content)


# --- answers ---


def by_item(names, y, first=0):
    """The true classes by the ids of items, which are numbers."""
    return {str(item): str(names[k]) for item, k in enumerate(y, first)}


def ask(rng, n_items, n_people, answers):
    """Items, each as often as it has answers, and who gives them."""
    who = np.argsort(rng.random((n_items, n_people)), axis=1)[:, :answers]
    return np.repeat(np.arange(n_items), answers), who.ravel()


def mistaken(rng, y, rate, k):
    """Answers that are wrong with their rate, any other class being as likely."""
    return np.where(rng.random(len(y)) < rate, (y + rng.integers(1, k, len(y))) % k, y)


def seconds(rng, wrong, haste=0.7):
    """Times of answers; wrong ones are quicker."""
    return np.exp(np.log(8) - haste * wrong + rng.normal(0, 0.5, len(wrong))).round(2)


# --- attacks: 300 items of three classes with eight features, eight annotators, unless said otherwise ---


def draw(rng, n=300, k=3, answers=1, people=8, noise=None, y=None):
    """Classes, inputs, and answers by people who are wrong in 5% to 40%, or all in `noise`."""
    y = rng.integers(0, k, n) if y is None else y
    x = 3 * np.eye(k, max(k, 8))[y] + rng.normal(size=(n, max(k, 8)))
    item, who = ask(rng, n, people, answers)
    rate = rng.uniform(0.05, 0.4, people) if noise is None else np.full(people, noise)
    label = mistaken(rng, y[item], rate[who], k)
    return y, x, pd.DataFrame({"item": item, "label": label, "annotator": who})


def planted(y, x, frame, *options):
    """The table of an attack; y and x are by item, labels and y are codes of classes."""
    frame = frame.assign(label=CLASSES[frame["label"]])
    files = {"table.csv": frame, "x.npy": x}
    return Planted(frame, by_item(CLASSES, y), files, ["table.csv", "--x", "x.npy", *options])


def misread(rng, seen):
    """Three answers to every item by what everybody takes it for, 6% of them wrong beside that."""
    item, who = ask(rng, len(seen), 8, 3)
    return pd.DataFrame({"item": item, "label": mistaken(rng, seen[item], 0.06, 3), "annotator": who})


def class_read_as_another(rng):
    """everybody reads 70% of the items of class 2 as class 1"""
    y, x, _ = draw(rng)
    return planted(y, x, misread(rng, np.where((y == 2) & (rng.random(300) < 0.7), 1, y)))


def items_that_mislead(rng):
    """15% of the items mislead everybody"""
    y, x, _ = draw(rng)
    return planted(y, x, misread(rng, mistaken(rng, y, 0.15, 3)))


def adversarial_majority(rng):
    """5 of 8 annotators say the next class"""
    y, x, frame = draw(rng, answers=3, noise=0.02)
    return planted(y, x, frame.assign(label=(frame["label"] + (frame["annotator"] < 5)) % 3))


def label_as_category(rng):
    """PI is the label, a category (800 items)"""
    y, x, frame = draw(rng, 800, noise=0.2)
    return planted(y, x, frame.assign(code=np.array(["k", "m", "p"])[frame["label"]]), "--pi", "annotator,code")


def label_as_number(rng):
    """PI is the label, a number (800 items)"""
    y, x, frame = draw(rng, 800, noise=0.2)
    price = 10 * frame["label"] + rng.normal(0, 0.5, len(frame)).round(2)
    return planted(y, x, frame.assign(price=price), "--pi", "annotator,price")


def rows_four_times(rng):
    """every row 4 times"""
    y, x, frame = draw(rng)
    return planted(y, x, pd.concat([frame] * 4))


def rows_four_times_other_seconds(rng):
    """every row 4 times, with other seconds"""
    y, x, frame = draw(rng)
    copies = [frame.assign(seconds=rng.random(len(frame))) for _ in range(4)]
    return planted(y, x, pd.concat(copies), "--pi", "annotator,seconds")


def items_four_times(rng):
    """items with their label 4 times, under new ids"""
    y, x, frame = draw(rng)
    copies = pd.concat([frame.assign(item=frame["item"] + 300 * copy) for copy in range(4)])
    return planted(np.tile(y, 4), np.tile(x, (4, 1)), copies)


def shuffled_x_one_answer(rng):
    """shuffled x, 1 answer"""
    y, x, frame = draw(rng)
    return planted(y, rng.permutation(x), frame)


def shuffled_x_three_answers(rng):
    """shuffled x, 3 answers"""
    y, x, frame = draw(rng, answers=3)
    return planted(y, rng.permutation(x), frame)


def rolled_x(rng):
    """x rolled by 60 rows, sorted classes, 3 answers"""
    y, x, frame = draw(rng, answers=3, y=np.repeat(np.arange(3), 100))
    return planted(y, np.roll(x, 60, axis=0), frame)


def constant_x_one_answer(rng):
    """constant x, 1 answer"""
    y, x, frame = draw(rng)
    return planted(y, np.ones_like(x), frame)


def constant_x_three_answers(rng):
    """constant x, 3 answers"""
    y, x, frame = draw(rng, answers=3)
    return planted(y, np.ones_like(x), frame)


def one_huge_value(rng):
    """a column of x with one 1e12"""
    y, x, frame = draw(rng)
    more = rng.normal(size=(300, 1))
    more[rng.integers(300)] = 1e12
    return planted(y, np.hstack([x, more]), frame)


def huge_noise(rng):
    """a column of noise times 1e9 in x"""
    y, x, frame = draw(rng)
    return planted(y, np.hstack([x, 1e9 * rng.normal(size=(300, 1))]), frame)


def x_holds_the_label(rng):
    """x holds the given label"""
    y, x, frame = draw(rng)
    return planted(y, np.hstack([x, 4 * np.eye(3)[frame["label"]]]), frame)


def train_items_in_test(rng):
    """every test item is a train item under a new id, with an answer of its own"""
    y, x, frame = draw(rng)
    again = pd.DataFrame({"item": np.arange(300, 600), "annotator": rng.integers(0, 8, 300)})
    again["label"] = mistaken(rng, y, 0.25, 3)
    both = pd.concat([frame.assign(split="train"), again.assign(split="test")])
    return planted(np.tile(y, 2), np.tile(x, (2, 1)), both)


def class_never_true(rng):
    """a class that is never true, given in 25%"""
    y, x, frame = draw(rng, answers=3, noise=0.02)
    return planted(y, x, frame.assign(label=frame["label"].mask(rng.random(len(frame)) < 0.25, 3)))


def nearly_all_wrong(rng):
    """90% noise, 1 answer"""
    return planted(*draw(rng, noise=0.9))


def ten_classes(rng):
    """60% noise, 1 answer, 10 classes (600 items)"""
    return planted(*draw(rng, 600, 10, noise=0.6))


def copying_annotators(rng):
    """two of three annotators copy each other"""
    y, x, frame = draw(rng, answers=3, people=3, noise=0.35)
    frame = frame.sort_values(["annotator", "item"])
    label = frame["label"].to_numpy()
    return planted(y, x, frame.assign(label=np.concatenate([label[:300], label[:300], label[600:]])))


def drift(rng):
    """accuracy drifts from .95 to .35, 2 answers"""
    y, x, frame = draw(rng, answers=2, noise=0)
    at = pd.Timestamp("2026-03-02 08:00") + pd.to_timedelta(np.arange(600) * 2.0, "min")
    frame = frame.sample(frac=1, random_state=rng).assign(at=at.strftime("%Y-%m-%d %H:%M"))
    label = mistaken(rng, frame["label"].to_numpy(), np.linspace(0.05, 0.65, 600), 3)
    return planted(y, x, frame.assign(label=label), "--pi", "annotator,at")


def very_few_items(rng):
    """3 items per class, 5 classes, 3 answers"""
    return planted(*draw(rng, 15, 5, answers=3, y=np.arange(15) % 5))


def annotator_is_item(rng):
    """every item has an annotator of its own"""
    y, x, frame = draw(rng, noise=0.25)
    return planted(y, x, frame.assign(annotator=frame["item"]))


def one_annotator(rng):
    """one annotator only"""
    return planted(*draw(rng, people=1, noise=0.24))


def one_annotator_confuses(rng):
    """one annotator, who reads c0 as c1 in 60%"""
    y, x, frame = draw(rng, people=1, noise=0.06)
    seen = (frame["label"] == 0) & (rng.random(len(frame)) < 0.6)
    return planted(y, x, frame.assign(label=frame["label"].mask(seen, 1)))


def one_label_but_three(rng):
    """all labels but three are one class"""
    y, x, frame = draw(rng)
    label = np.zeros(300, int)
    label[rng.choice(np.flatnonzero(y == 1), 3, replace=False)] = 1
    return planted(y, x, frame.assign(label=label))


def random_labels(rng):
    """random labels, 3 answers"""
    y, x, frame = draw(rng, answers=3)
    return planted(y, x, frame.assign(label=rng.integers(0, 3, len(frame))))


def swapped_classes(rng):
    """everybody swaps c0 and c1"""
    y, x, frame = draw(rng, answers=3, noise=0.05)
    return planted(y, x, frame.assign(label=np.array([1, 0, 2])[frame["label"]]))


# --- users ---

HOTEL = {
    "Noise": "loud street thin walls music party drilling snoring lift traffic",
    "Staff": "rude friendly reception waiter helpful manager porter greeting ignored smile",
    "Cleanliness": "dirty dust hair stain mould towels smell carpet spotless bin",
    "Breakfast": "coffee eggs buffet cold bread juice queue pastries bacon fruit",
    "Location": "station beach centre taxi far walk map parking airport view",
}
COMMON = "the was and we it room hotel very a not again stay night with for our of in had but"


def texts(rng, words, y, own, common):
    """Texts on the classes in y: up to so many words of its own among common ones, now and then one of any class."""
    words = [np.array(each) for each in words]
    found = []
    for k in y:
        other = words[rng.integers(len(words))]
        said = [
            *rng.choice(words[k], rng.integers(1, own + 1)),
            *rng.choice(COMMON.split(), common),
            *rng.choice(other, rng.integers(2)),
        ]
        found.append(" ".join(rng.permutation(said)))
    return found


def hotel(seed):
    """hotel texts, Label Studio's JSON, 9 people"""
    rng = np.random.default_rng([1, seed])
    names = np.array(list(HOTEL))
    y = rng.integers(0, 5, 610)
    message = texts(rng, [words.split() for words in HOTEL.values()], y, 3, 8)
    item, who = ask(rng, len(y), 9, 3)
    label = mistaken(rng, y[item], np.array([0.05, 0.04, 0.65, 0.06, 0.08, 0.05, 0.33, 0.07, 0.05])[who], 5)
    label = np.where((who == 6) & (y[item] == 0), 1, label)  # who calls all noise staff
    took, at = seconds(rng, label != y[item]), datetime(2026, 3, 2, 8)
    fate = rng.choice(["kept", "empty", "cancelled"], len(item), p=[0.956, 0.022, 0.022])
    frame = pd.DataFrame({"item": item + 1, "label": names[label]})[fate == "kept"]
    tasks = [{"id": n + 1, "data": {"message": text}, "annotations": []} for n, text in enumerate(message)]
    for row, n in enumerate(item):
        choice = {"from_name": "topic", "to_name": "message", "type": "choices"}
        choice["value"] = {"choices": [names[label[row]]]}
        answer = {"completed_by": {"email": f"p{who[row]}@hotel.example"}, "lead_time": took[row]}
        answer["created_at"] = (at + timedelta(minutes=row)).isoformat() + "Z"
        answer["was_cancelled"] = bool(fate[row] == "cancelled")
        answer["result"] = [choice] if fate[row] == "kept" else []
        tasks[n]["annotations"].append(answer)
    bad = ("p2@hotel.example", "p6@hotel.example")
    return Planted(frame, by_item(names, y, 1), {"hotel.json": json.dumps(tasks)}, ["hotel.json"], bad)


def shop(seed):
    """shop titles, 30 classes, one of them at 1%, 25 people"""
    rng = np.random.default_rng([2, seed])
    names = np.array([f"category {k:02}" for k in range(30)])
    y = rng.choice(30, 2177, p=[0.99 / 29] * 29 + [0.01])
    title = texts(rng, [[f"thing{k}{letter}" for letter in "abcdefgh"] for k in range(30)], y, 2, 4)
    busy = np.r_[[0.9, 1.1], np.geomspace(3, 0.004, 23)]  # the last ones have a few answers each
    who = np.argsort(-np.log(rng.random((len(y), 25))) / busy, axis=1)[:, :2].ravel()
    item = np.repeat(np.arange(len(y)), 2)
    rate = np.r_[[0.55, 0.6], rng.uniform(0.05, 0.12, 23)]
    label = mistaken(rng, y[item], rate[who], 30)
    frame = pd.DataFrame({"item": item, "title": np.array(title)[item], "category": names[label]})
    frame = frame.assign(rater=np.array([f"rater{n}" for n in range(25)])[who], seconds=seconds(rng, label != y[item]))
    options = ["shop.csv", "--label", "category", "--x-text", "title", "--pi", "rater,seconds"]
    answers = frame.rename(columns={"category": "label"})
    return Planted(answers, by_item(names, y), {"shop.csv": frame}, options, ("rater0", "rater1"))


SPELLINGS = {  # of the table of a spreadsheet: share of each
    "ok": {"ok": 0.86, "OK": 0.05, "Ok ": 0.03, "o.k.": 0.06},
    "Rückfrage": {"Rückfrage": 0.86, "rückfrage": 0.05, "Rückfrage ": 0.03, "Rueckfrage": 0.06},
    "abgelehnt": {"abgelehnt": 0.9, "Abgelehnt": 0.06, "ABGELEHNT": 0.04},
}
FEATURES = {"Betrag": (120, 30), "Alter": (45, 9), "Entfernung km": (30, 8), "Stunde": (12, 3)}  # mean, spread


def spreadsheet(seed):
    """a German spreadsheet, 3 classes in 11 spellings"""
    rng = np.random.default_rng([3, seed])
    names, n = np.array(list(SPELLINGS)), 1247
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=(n, 4)) + 2.4 * np.array([[0, 0, 0, 0], [1, -1, 0.5, 0], [-0.5, 1, 1, 1]])[y]
    item, who = ask(rng, n, 8, 3)
    label = mistaken(rng, y[item], np.array([0.05, 0.06, 0.45, 0.05, 0.07, 0.35, 0.05, 0.04])[who], 3)
    shares = [list(SPELLINGS[name].values()) for name in names]
    written = [rng.choice(list(SPELLINGS[names[k]]), p=shares[k]) for k in label]
    at = pd.Timestamp("2026-05-04 08:00") + pd.to_timedelta(rng.integers(0, 60 * 24 * 40, len(item)), "min")
    frame = pd.DataFrame({"Beleg-Nr": item + 1000, "Urteil": written})
    frame["Prüfer"] = np.array(["Amt", "Beck", "Cho", "Dorn", "Ek", "Fuchs", "Groß", "Hahn"])[who]
    frame["Dauer s"] = seconds(rng, label != y[item])
    frame["Datum"] = at.strftime("%d.%m.%Y %H:%M")
    for column, (name, (mean, spread)) in enumerate(FEATURES.items()):
        frame[name] = (mean + spread * x[item, column]).round(2)
    return german(frame, by_item(names, y, 1000))


def german(frame, truth):
    """The spreadsheet as a program in German saves it."""
    options = ["belege.csv", "--item", "Beleg-Nr", "--label", "Urteil", "--annotator", "Prüfer"]
    options += ["--pi", "Prüfer,Dauer s,Datum", "--x-columns", ",".join(FEATURES)]
    same = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings}
    return Planted(
        frame.rename(columns={"Beleg-Nr": "item", "Urteil": "label"}),
        truth,
        {"belege.csv": "\ufeff" + frame.to_csv(index=False, sep=";", decimal=",")},
        options,
        ("Cho", "Fuchs"),
        same | {spelling.strip(): name for spelling, name in same.items()},
    )


def spreadsheet_one_spelling(seed):
    """the same, every class in one spelling"""
    made = spreadsheet(seed)
    answers = made.answers.assign(label=made.answers["label"].map(made.same))
    return german(answers.rename(columns={"item": "Beleg-Nr", "label": "Urteil"}), made.truth)


def fraud(seed):
    """fraud at 2%, weak features, 4 people, one of whom misses 70% of it"""
    rng = np.random.default_rng([4, seed])
    names, n = np.array(["fine", "fraud"]), 5000
    y = (rng.random(n) < 0.02).astype(int)
    x = rng.normal(size=(n, 8)) + 0.6 * y[:, None]
    item, who = ask(rng, n, 4, 2)
    label = mistaken(rng, y[item], np.where(y[item] == 1, np.where(who == 3, 0.7, 0.08), 0.0038), 2)
    frame = pd.DataFrame({"item": item, "annotator": np.array(["ann", "kim", "oli", "lee"])[who]})
    frame = frame.assign(seconds=seconds(rng, label != y[item], 0.3), label=names[label])
    inputs = pd.DataFrame(x.round(4), columns=[f"f{k}" for k in range(8)])
    inputs.insert(0, "item", np.arange(n))
    options = ["fraud.csv", "--x", "fraud_x.csv", "--pi", "annotator,seconds"]
    return Planted(frame, by_item(names, y), {"fraud.csv": frame, "fraud_x.csv": inputs}, options, ("lee",))


def late_in_the_day(seed):
    """one annotator, wrong late in the day"""
    rng = np.random.default_rng([5, seed])
    names, n = np.array(["benign", "malignant", "unclear"]), 1200
    y = rng.integers(0, 3, n)
    x = pd.DataFrame(rng.normal(size=(n, 6)) + 3.2 * np.eye(3, 6)[y], columns=[f"m{k}" for k in range(6)])
    hour = rng.integers(8, 20, n)
    label = mistaken(rng, y, np.where(hour >= 17, 0.28, 0.015), 3)
    date = (pd.Timestamp("2026-02-02") + pd.to_timedelta(np.arange(n) // 60, "D")).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"item": np.arange(n), "label": names[label], "hour": hour})
    frame = frame.assign(seconds=seconds(rng, label != y), date=date).join(x.round(4))
    options = ["lesion.csv", "--x-columns", "m*", "--pi", "hour,seconds,date"]
    return Planted(frame, by_item(names, y), {"lesion.csv": frame}, options)


def two_answers(seed):
    """two answers an item, without x, 20 people, 6 of them bad"""
    rng = np.random.default_rng([6, seed])
    names, n = np.array(["low", "mid", "high"]), 1500
    y = rng.integers(0, 3, n)
    item, who = ask(rng, n, 20, 2)
    label = mistaken(rng, y[item], np.where(who < 6, 0.62, 0.187), 3)
    frame = pd.DataFrame({"item": item, "label": names[label], "annotator": [f"p{k:02}" for k in who]})
    bad = tuple(f"p{k:02}" for k in range(6))
    return Planted(frame, by_item(names, y), {"ties.csv": frame}, ["ties.csv", "--no-x"], bad)


def wide(seed):
    """a wide table, without x, 3 raters, one of them bad"""
    rng = np.random.default_rng([7, seed])
    names, n = np.array(["low", "mid", "high"]), 300
    y = rng.integers(0, 3, n)
    item, who = ask(rng, n, 3, 3)
    label = mistaken(rng, y[item], np.array([0.07, 0.08, 0.27])[who], 3)
    raters = np.array(["rater_ann", "rater_bo", "rater_cy"])
    frame = pd.DataFrame({"item": item, "label": names[label], "rater": raters[who]})
    frame = frame[rng.random(len(frame)) < 0.93]
    cells = frame.pivot_table("label", "item", "rater", aggfunc="first").rename_axis("doc").reset_index()
    options = ["wide.csv", "--annotators", "rater_*", "--item", "doc", "--no-x"]
    return Planted(frame, by_item(names, y), {"wide.csv": cells}, options, ("rater_cy",))


def hard(rng, n, answers, wrong):
    """Items between classes, and answers that take them for what they look like, or never do."""
    names = np.array(["oak", "elm", "ash"])
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 5)) + 1.9 * np.eye(3, 5)[y]
    item, who = ask(rng, n, 9, answers)
    seen = x[item, :3] + np.eye(3)[y[item]] + rng.gumbel(size=(len(item), 3))
    label = seen.argmax(1) if wrong else y[item]
    frame = pd.DataFrame({"item": item, "label": names[label], "annotator": [f"p{k}" for k in who]})
    frame = frame.join(pd.DataFrame(x.round(4), columns=[f"h{k}" for k in range(5)]), on="item")
    return Planted(frame, by_item(names, y), {"hard.csv": frame}, ["hard.csv", "--x-columns", "h*"])


def suggested_by_the_input(seed):
    """mistakes that the input suggests"""
    return hard(np.random.default_rng([8, seed]), 1500, 3, True)


def no_mistake(seed):
    """no mistake at all"""
    return hard(np.random.default_rng([9, seed]), 800, 2, False)


def judged(rng, wrong_rate, y, length, order, fooled=False):
    """Answers of 12 judges to every item; log-probabilities are lower where they are wrong, unless they are fooled."""
    wrong = rng.random(wrong_rate.shape) < wrong_rate
    frame = pd.DataFrame(np.argwhere(wrong | True), columns=["item", "judge"])
    frame["judge"] = "judge-" + frame["judge"].astype(str).str.zfill(2)
    frame["label"] = np.where((y[:, None] ^ wrong).ravel(), "pass", "fail")
    frame = frame.assign(order=order.ravel(), answer_length=length[frame["item"]])
    return frame.assign(logprob=-rng.exponential(np.where(wrong & ~np.asarray(fooled), 0.45, 0.2)).ravel().round(4))


def judges_table(frame, y, bad=()):
    """The table of judges in JSON Lines."""
    lines = frame.rename(columns={"label": "verdict"}).to_json(orient="records", lines=True)
    options = ["judgements.jsonl", "--annotator", "judge", "--label", "verdict", "--no-x", "--keep-ids"]
    options += ["--pi", "judge,order,answer_length,logprob"]
    same = {"PASS": "pass", "FAIL": "fail", "UNSURE": "unsure"}
    truth = by_item(["fail", "pass"], y.astype(int))
    return Planted(frame, truth, {"judgements.jsonl": lines}, options, bad, same)


def lengths(rng, n):
    """How long answers are, and by how many standard deviations this is more than the median."""
    z = rng.normal(size=n)
    return np.exp(6 + 0.6 * z).round().astype(int), z


def draw_judges(seed):
    """12 judges, one of them bad, who pass long answers too often; 3% are missing, 4% `unsure`, on some items."""
    rng = np.random.default_rng([10, seed])
    y, (length, z) = rng.random(1500) < 0.55, lengths(rng, 1500)
    order = rng.integers(1, 3, (1500, 12))
    rate = np.r_[rng.uniform(0.04, 0.15, 11), 0.4]
    lenient = 0.9 * rng.uniform(0.5, 1, 12) / (1 + np.exp(-3 * (z - 0.5)))[:, None] * ~y[:, None]
    frame = judged(rng, rate + (1 - rate) * lenient + 0.05 * (order == 2), y, length, order)
    frame = frame[rng.random(len(frame)) < 0.97]
    unclear = rng.random(1500) < 0.15
    frame["label"] = frame["label"].mask(unclear[frame["item"]] & (rng.random(len(frame)) < 0.28), "unsure")
    capital = rng.random(len(frame)) < 0.01
    return frame, frame["label"].mask(capital, frame["label"].str.upper()), y


def judges(seed):
    """12 LLM judges, pass or fail, without x"""
    frame, _, y = draw_judges(seed)
    return judges_table(frame[frame["label"] != "unsure"], y, ("judge-11",))


def judges_unsure(seed):
    """the same with 4% `unsure` left in"""
    frame, _, y = draw_judges(seed)
    return judges_table(frame, y, ("judge-11",))


def judges_capitals(seed):
    """the same, and 1% in capitals"""
    frame, label, y = draw_judges(seed)
    return judges_table(frame.assign(label=label), y, ("judge-11",))


def judges_fooled(seed):
    """12 judges of two families, which long answers fool"""
    rng = np.random.default_rng([11, seed])
    y, (length, z) = rng.random(1500) < 0.5, lengths(rng, 1500)
    fooled = rng.random((1500, 2)) < 0.02 + 0.8 / (1 + np.exp(-2 * (z - 0.3)))[:, None]
    fooled = fooled[:, np.arange(12) % 2] & ~y[:, None]
    rate = np.where(fooled, 0.85, rng.uniform(0.1, 0.2, 12))
    return judges_table(judged(rng, rate, y, length, rng.integers(1, 3, (1500, 12)), fooled), y)


# --- all of them ---


def drawn(row):
    """An attack by its seed."""
    return lambda seed: row(np.random.default_rng([zlib.crc32(row.__name__.encode()), seed]))


ATTACKS = [
    class_read_as_another,
    items_that_mislead,
    adversarial_majority,
    label_as_category,
    label_as_number,
    rows_four_times,
    rows_four_times_other_seconds,
    items_four_times,
    shuffled_x_one_answer,
    shuffled_x_three_answers,
    rolled_x,
    constant_x_one_answer,
    constant_x_three_answers,
    one_huge_value,
    huge_noise,
    x_holds_the_label,
    train_items_in_test,
    class_never_true,
    nearly_all_wrong,
    ten_classes,
    copying_annotators,
    drift,
    very_few_items,
    annotator_is_item,
    one_annotator,
    one_annotator_confuses,
    one_label_but_three,
    random_labels,
    swapped_classes,
]
USERS = [
    hotel,
    shop,
    spreadsheet,
    spreadsheet_one_spelling,
    fraud,
    late_in_the_day,
    two_answers,
    wide,
    suggested_by_the_input,
    no_mistake,
    judges,
    judges_unsure,
    judges_capitals,
    judges_fooled,
]
SETS = {"attacks": [row.__name__ for row in ATTACKS], "users": [row.__name__ for row in USERS]}
WORDS = {row.__name__: row.__doc__ for row in (*ATTACKS, *USERS)}
TABLES = {row.__name__: drawn(row) for row in ATTACKS} | {row.__name__: row for row in USERS}
UNKNOWN = "cannot be known"  # nothing in the table says so
REMARKS = {
    "class_read_as_another": UNKNOWN,
    "items_that_mislead": "left to a temper of the posterior",
    "adversarial_majority": UNKNOWN,
    "swapped_classes": UNKNOWN,
    "judges_fooled": UNKNOWN,
}
