import gzip

import numpy as np
import pandas as pd
import pytest
from published import write_cifar100

from pidual.data import AnnotationTable, Inputs
from pidual.data.datasets import crowds, load_dataset
from pidual.data.datasets.check import check_dataset
from pidual.errors import DataError, UsageError

WORDS = ["aspirin", "fever", "cures", "causes", "pain", "insulin", "diabetes", "helps", "against", "sadness"]


def sentences(rng, n):
    return [" ".join(rng.choice(WORDS, 6)) for _ in range(n)]


def write_medical(data):
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(800, 830), 4)
    gold = rng.choice(["no", "yes"], 30)
    frame = pd.DataFrame(
        {
            "item": item,
            "label": rng.choice(["no", "yes"], 120),
            "annotator": [f"a{number:04d}" for number in rng.integers(0, 7, 120)],
            "seconds": rng.gamma(2, 20, 120).round(),
            "trial": rng.integers(0, 50, 120),
            "ticked": rng.integers(1, 4, 120),
            "channel": rng.choice(["neodev", "elite"], 120),
            "country": rng.choice(["USA", "GBR"], 120),
            "gold": np.where(item - 800 < 10, gold[item - 800], None),
        }
    )
    folder = data / "crowds"
    folder.mkdir(exist_ok=True)
    texts = {"item": np.arange(800, 830), "sentence": sentences(rng, 30), "term1": "aspirin", "term2": "fever"}
    frame.to_csv(folder / "medical_treat.csv.gz", index=False)
    pd.DataFrame(texts).to_csv(folder / "medical_treat_sentences.csv.gz", index=False)
    return frame


def write_emotion(data):
    rng = np.random.default_rng(1)
    item = np.repeat(np.arange(20), 3)
    gold = np.asarray(crowds.EMOTION.classes)[np.arange(20) % 6]
    frame = pd.DataFrame(
        {
            "item": item,
            "label": rng.choice(crowds.EMOTION.classes, 60),
            "annotator": np.tile(["chatgpt", "roberta", "flan-ul2"], 20),
            "gold": gold[item],
        }
    )
    folder = data / "crowds"
    folder.mkdir(exist_ok=True)
    frame.to_csv(folder / "llm_emotion.csv", index=False)
    texts = pd.DataFrame({"item": np.arange(20), "text": sentences(rng, 20)})
    texts.to_csv(folder / "llm_emotion_texts.csv", index=False)
    return frame


@pytest.fixture
def mammals(tmp_path, small_cifar):
    """CIFAR-100 whose first five fine classes are the five animals, and answers to six of its images."""
    (x, fine, _), (x_test, fine_test, _) = write_cifar100(tmp_path)
    path = tmp_path / "cifar-100-binary" / "fine_label_names.txt"
    names = path.read_text().split()
    animals = ["squirrel", "shrew", "rabbit", "mouse", "hamster"]
    path.write_text("\n".join([*animals, *names[5:]]) + "\n")
    image = np.repeat([3, 0, 4, 1, 2, 3], 2)[:10]
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "item": image,
            "label": rng.choice(crowds.SM500.classes, 10),
            "annotator": np.tile(["a0", "a1"], 5),
            "trial": np.arange(10),
            "gold": np.asarray(animals)[fine[image]],
        }
    )
    (tmp_path / "crowds").mkdir()
    frame.to_csv(tmp_path / "crowds" / "cifar100_sm500.csv", index=False)
    return tmp_path, frame, x, (x_test, fine_test, animals)


def test_the_images_asked_about_and_the_test_images_of_the_same_animals(mammals):
    folder, frame, x, (x_test, fine_test, animals) = mammals
    loaded = load_dataset("cifar100_sm500", folder)
    assert np.array_equal(loaded.x[loaded.frame["item"]], x[frame["item"]])
    names = np.asarray(loaded.classes)
    assert names[loaded.frame["label"]].tolist() == frame["label"].tolist()
    assert names[loaded.frame["y"]].tolist() == frame["gold"].tolist()
    assert set(loaded.pi) == {"annotator", "trial"}
    kept = fine_test < 5
    assert np.array_equal(loaded.x_test, x_test[kept])
    assert names[loaded.y_test].tolist() == np.asarray(animals)[fine_test[kept]].tolist()
    assert 0 < kept.sum() < len(kept)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("item", 7, r"row 2 .*image 7 is a \w+ there and a fine_7 in CIFAR-100"),
        ("item", 100, "names images 0 to 100; there are 100"),
        ("item", 1.5, r"row 2 .*column 'item': '1.5' is not a whole number"),
        ("label", "cat", r"row 2 .*column 'label': 'cat' is none of hamster, mouse"),
        ("gold", None, r"row 2 .*column 'gold': 'nan' is none of hamster"),
        ("trial", "first", r"row 2 .*column 'trial': 'first' is not a number"),
        ("annotator", None, r"row 2 .*column 'annotator': is missing"),
    ],
)
def test_wrong_values_are_named(mammals, column, value, message):
    folder, frame, *_ = mammals
    frame[column] = frame[column].astype(object)
    frame.loc[2, column] = value
    frame.to_csv(folder / "crowds" / "cifar100_sm500.csv", index=False)
    with pytest.raises(DataError, match=message):
        load_dataset("cifar100_sm500", folder)


def test_sentences_without_gold_are_trained_on_and_some_with_gold_held_out(tmp_path):
    frame = write_medical(tmp_path)
    loaded = load_dataset("medical_treat", tmp_path, seed=1)
    items, test = np.asarray(loaded.about["items"]), loaded.about["test_items"]
    assert len(test) == 4  # 40% of the ten with gold
    assert not {*test} & {*items}
    kept = frame[~frame["item"].isin(test)]
    names = np.asarray(loaded.classes)
    assert items[loaded.frame["item"]].tolist() == kept["item"].tolist()
    assert names[loaded.frame["label"]].tolist() == kept["label"].tolist()
    assert loaded.frame["seconds"].tolist() == kept["seconds"].tolist()
    assert loaded.frame["y"].isna().tolist() == kept["gold"].isna().tolist()
    assert names[loaded.frame["y"].dropna().astype(int)].tolist() == kept["gold"].dropna().tolist()
    assert names[loaded.y_test].tolist() == [frame[frame["item"] == item]["gold"].iloc[0] for item in test]
    known = kept.dropna(subset="gold")
    assert loaded.noise_rate == pytest.approx((known["label"] != known["gold"]).mean())
    assert isinstance(loaded.x, Inputs)
    assert (len(loaded.x), len(loaded.x_test)) == (26, 4)
    assert loaded.x.array.shape[1:] == loaded.x_test.array.shape[1:]


def test_the_seed_draws_what_is_held_out_and_nothing_need_be(tmp_path):
    write_emotion(tmp_path)
    drawn = [load_dataset("llm_emotion", tmp_path, seed=seed).about["test_items"] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 4
    whole = load_dataset("llm_emotion", tmp_path, held_out=0.0)
    assert (len(whole.frame), len(whole.x), len(whole.x_test), len(whole.y_test)) == (60, 20, 0, 0)
    assert whole.frame["y"].dtype == np.int64
    with pytest.raises(UsageError, match="held_out is a share of at least 0 and below 1, not 1"):
        load_dataset("llm_emotion", tmp_path, held_out=1.0)


def test_text_vectors_do_not_know_the_held_out_texts(tmp_path):
    write_emotion(tmp_path)
    path = tmp_path / "crowds" / "llm_emotion_texts.csv"
    loaded = load_dataset("llm_emotion", tmp_path)
    texts = pd.read_csv(path)
    held_out = texts["item"].isin(loaded.about["test_items"])
    texts.loc[held_out, "text"] = "other words altogether"
    texts.to_csv(path, index=False)
    again = load_dataset("llm_emotion", tmp_path)
    assert np.array_equal(again.x.array, loaded.x.array)
    assert not np.array_equal(again.x_test.array, loaded.x_test.array)


def test_missing_clean_labels_are_unknown_to_a_fit(tmp_path):
    write_medical(tmp_path)
    loaded = load_dataset("medical_treat", tmp_path)
    table = AnnotationTable.from_frame(loaded.frame, pi=list(loaded.pi), keep_ids=True)
    unknown = loaded.frame["y"].isna()
    assert 0 < unknown.sum() < len(unknown)
    assert np.array_equal(table.frame["y"].cat.codes < 0, unknown)


def test_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no llm_emotion\.csv or llm_emotion\.csv\.gz; get it from https"):
        load_dataset("llm_emotion", tmp_path)
    frame = write_emotion(tmp_path)
    folder = tmp_path / "crowds"
    texts = pd.read_csv(folder / "llm_emotion_texts.csv")
    for broken, message in [
        (texts[texts["item"] != 3], r"row 9 .*about item 3, which has no text"),
        (texts.assign(text=texts["text"].where(texts["item"] != 3)), r"row 3 .*column 'text' is empty"),
        (pd.concat([texts, texts[:1]]), r"row 20 .*item 0 is there twice"),
        (texts.rename(columns={"text": "words"}), "has no column 'text'"),
    ]:
        broken.to_csv(folder / "llm_emotion_texts.csv", index=False)
        with pytest.raises(DataError, match=message):
            load_dataset("llm_emotion", tmp_path)
    texts.to_csv(folder / "llm_emotion_texts.csv", index=False)
    frame.loc[4, "gold"] = "Joy"
    frame.to_csv(folder / "llm_emotion.csv", index=False)
    with pytest.raises(DataError, match=r"row 3 .*item 1 has two gold labels"):
        load_dataset("llm_emotion", tmp_path)


def test_files_may_be_unpacked(tmp_path):
    write_medical(tmp_path)
    whole = load_dataset("medical_treat", tmp_path)
    for path in (tmp_path / "crowds").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert load_dataset("medical_treat", tmp_path).frame.equals(whole.frame)


@pytest.mark.parametrize(
    ("name", "n_items", "n_test", "noise"),
    [("cifar100_sm500", 500, 500, 0.306), ("medical_treat", 2989, 242, 0.229), ("llm_emotion", 398, 100, 0.511)],
)
def test_the_real_files(real_data, name, n_items, n_test, noise):
    if not (real_data / "crowds").is_dir():
        pytest.skip("no folder crowds there")
    loaded = load_dataset(name, real_data)
    assert loaded.name == name
    assert (len(loaded.x), len(loaded.x_test), len(loaded.y_test)) == (n_items, n_test, n_test)
    assert loaded.frame["item"].nunique() == n_items
    assert loaded.noise_rate == pytest.approx(noise, abs=0.01)  # of the items that are not held out
    assert [check for check in check_dataset(name, real_data) if check.status != "ok"] == []
