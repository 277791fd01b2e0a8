"""Inputs that are made when they are asked for."""

import numpy as np
import torch

from pidual.learn.nets.augment import resized_crop


class Squares:
    """Vectors; what has been asked for is in `taken`."""

    def __init__(self, n, shape=(5,)):
        self.shape, self.taken = (n, *shape), []

    def __len__(self):
        return self.shape[0]

    def take(self, rows):
        self.taken += rows.tolist()
        return np.repeat(rows[:, None].astype(np.float32) ** 2, 5, axis=1)


class Photos(Squares):
    """Images, which are read in parts as well."""

    def __init__(self, n):
        super().__init__(n, (3, 8, 8))

    def take(self, rows):
        return np.stack([np.random.default_rng(row).integers(0, 256, (3, 8, 8), np.uint8) for row in rows])

    def crops(self, rows, draws):
        return np.stack([resized_crop(torch.from_numpy(self.take(rows)), torch.from_numpy(view)) for view in draws])
