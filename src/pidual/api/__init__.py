"""PiDualClassifier: scikit-learn's contract over the run, without files."""

from .classifier import PiDualClassifier

__all__ = ["PiDualClassifier"]
