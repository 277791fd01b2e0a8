"""AUM's extra class as a rule for wrong labels (Pleiss et al., NeurIPS 2020, arXiv 2001.10528), for cutoffs.py.

The margin of a label is its logit minus the largest other one, AUM the mean over all epochs of training, by a network
that learns from the label. Of N labels of K classes, N / (K + 1) are given an extra class, which all of them are wrong
about; a label is called wrong where its AUM is below that of 99% of these. Another fit, with other labels of the extra
class, judges those that had it in the first. Network, epochs and schedule are those of `ce`.
"""

import dataclasses

import numpy as np
import torch
from detection_sets import OPTIONS

from pidual import Callback
from pidual.fit.fit import train
from pidual.fit.options import FitOptions
from pidual.learn.engine import Session, make_fabric
from pidual.learn.engine.predict import predict_rows
from pidual.paper.score import prepare_data

QUANTILE = 99


class Margins(Callback):
    """Sum of the margins of all training rows."""

    def __init__(self):
        self.sum, self.epochs = 0.0, 0

    def on_epoch_end(self, trainer, record):
        logits = predict_rows(trainer.method, trainer.train, trainer.fabric)
        own = torch.nn.functional.one_hot(trainer.train.y_noisy, logits.shape[1]).bool()
        self.sum = self.sum + logits[own] - logits.masked_fill(own, -torch.inf).amax(1)
        self.epochs += 1


def area_under_margin(name, data, seed=0):
    """AUM of every label, and whether the rule calls it wrong."""
    n, k = len(data.frame), int(data.frame["label"].max()) + 1
    order = np.random.default_rng([7, seed]).permutation(n)
    size = n // (k + 1)
    aum, found = np.zeros(n), np.zeros(n, bool)
    for number in (1, 0):  # the first fit judges all labels but its own extra ones
        extra = order[number * size : (number + 1) * size]
        margins = fit_with_extra(name, data, extra, k, seed + number)
        below = margins < np.percentile(margins[extra], QUANTILE)
        judged = np.setdiff1d(np.arange(n), extra)
        aum[judged], found[judged] = margins[judged], below[judged]
    return aum, found


def fit_with_extra(name, data, extra, k, seed):
    """Mean margins of all labels, where some are of an extra class k."""
    frame = data.frame.drop(columns="y").copy()
    frame.loc[frame.index[extra], "label"] = k
    options = OPTIONS.get(name, {}) | {"select": "last"}
    options = FitOptions(method="ce", seed=seed, valid_fraction=0.0, accelerator="cpu", options=options)
    kept = Margins()
    train(prepare_data(dataclasses.replace(data, frame=frame), options), Session(make_fabric("cpu"), callbacks=[kept]))
    return (kept.sum / kept.epochs).numpy()
