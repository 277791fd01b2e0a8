"""Functions that embed texts or pictures, as a user's own do, and a log of what they were asked."""

import os
import time

import numpy as np

ASKED = []  # how many items at a time


def letters(texts):
    """Count letters; wait where a test wants to stop it."""
    ASKED.append(len(texts))
    if "SLOW" in os.environ:
        time.sleep(0.2)
    return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)


def colours(pictures):
    """Return the mean colours of a picture's halves."""
    ASKED.append(len(pictures))
    halves = [np.array_split(np.asarray(picture, float), 2) for picture in pictures]
    return np.array([[half.mean((0, 1)) for half in pair] for pair in halves]).reshape(len(pictures), -1)


def one_number(texts):
    return np.zeros(len(texts))


def too_few(texts):
    return np.zeros((len(texts) - 1, 3))


def not_numbers(texts):
    return np.full((len(texts), 3), np.nan)


def broken(texts):
    raise KeyError("no such word")
