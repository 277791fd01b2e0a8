"""How long one prediction takes, of a classifier that was saved and loaded, and of its bare network.

    python benchmarks/one_row.py [--calls 2000] [--out benchmarks/results/one_row.json]

One row a call, as a service gets them. The bare network is that of the classifier, called with a tensor that is ready,
without gradient, and its softmax. All sides take turns call by call, so that all meet the same other jobs; a result is
the median of the calls in milliseconds, and that median as a multiple of the bare network's. The fits are of one epoch:
how well a network is trained does not change its time.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, write_result

from pidual import PiDualClassifier
from pidual.data.datasets import load_dataset
from pidual.data.datasets.synthetic import make_crowd

WARM_UP = 50


def crowd():
    """Four features, three classes: the smallest network."""
    made = make_crowd(200, 6, 3, 3, 4, noise=0.3, seed=0)
    return made.x[made.frame["item"]], made.frame["label"], made.frame[["annotator"]]


def digits(shape):
    """Digits-PI, as 64 numbers or as pictures."""
    made = load_dataset("digits_pi")
    x = np.asarray(made.x)[made.frame["item"].to_numpy(int)]
    return x.reshape(len(x), *shape), made.frame["label"], made.frame[list(made.pi)]


DATA = {
    "crowd, MLPs": crowd,
    "digits, MLPs": lambda: digits((64,)),
    "digits, CNNs": lambda: digits((1, 8, 8)),
}


def measure(x, y, pi, calls, folder):
    """Milliseconds of one prediction, by side."""
    PiDualClassifier(epochs=1, random_state=0).fit(x, y, pi=pi).save(folder)
    model = PiDualClassifier.load(folder)
    row = np.ascontiguousarray(x[:1], np.float32)
    tensor = torch.from_numpy(row)

    def bare():
        with torch.inference_mode():
            return model.method_.logits(tensor).softmax(1).numpy()

    sides = {"bare": bare, "predict_proba": lambda: model.predict_proba(row), "predict": lambda: model.predict(row)}
    seconds = {name: [] for name in sides}
    for call in range(WARM_UP + calls):
        for name, side in sides.items():
            begin = time.perf_counter()
            side()
            if call >= WARM_UP:
                seconds[name].append(time.perf_counter() - begin)
    return {name: 1000 * float(np.median(values)) for name, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=RESULTS / "one_row.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for name, make in DATA.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(*make(), args.calls, Path(folder) / "saved")
        times = {f"{side}_times": found[side] / found["bare"] for side in ("predict_proba", "predict")}
        results.append({"data": name, **{f"{side}_ms": value for side, value in found.items()}, **times})
        print(results[-1])
    write_result(args.out, results, calls=args.calls)


if __name__ == "__main__":
    main()
