"""Answers to items whose classes are known, and probabilities of a classifier."""

import numpy as np
import pandas as pd


def make_answers(n_items=200, n_classes=3, per_item=3, right=(0.9, 0.8, 0.7, 0.6, 0.5), seed=0):
    """A frame of answers by people who are right this often, and the true classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_items)
    item = np.repeat(np.arange(n_items), per_item)
    who = np.concatenate([rng.permutation(len(right))[:per_item] for _ in range(n_items)])
    wrong = (y[item] + rng.integers(1, n_classes, len(item))) % n_classes
    label = np.where(rng.random(len(item)) < np.asarray(right)[who], y[item], wrong)
    return pd.DataFrame({"item": item, "label": label, "annotator": [f"w{w}" for w in who]}), y


def make_probabilities(y, n_classes=3, strength=2.0, seed=0):
    """What a fair classifier says about these classes."""
    logits = np.random.default_rng(seed).normal(size=(len(y), n_classes))
    logits[np.arange(len(y)), y] += strength
    p = np.exp(logits)
    return (p / p.sum(1, keepdims=True)).astype(np.float32)
