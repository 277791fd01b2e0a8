"""A classifier without training: kernel ridge regression on soft targets, each item predicted by a fit without it."""
