"""Small batches without PI for the tests of single methods."""

import torch

from pidual.batch import PI, Batch


def batch_of(index, x, y, weight=None):
    """A batch of these rows, each with one view; all count alike unless `weight` says otherwise."""
    return batch_of_views(index, (x,), y, weight)


def batch_of_views(index, views, y, weight=None):
    """The same, with several views of each input."""
    n = len(index)
    no_pi = PI(torch.zeros(n, 0, dtype=torch.int32), torch.zeros(n, 0))
    weight = torch.ones(n) if weight is None else weight
    return Batch.of_rows(torch.as_tensor(index), tuple(views), torch.as_tensor(y), no_pi, weight)
