"""A run directory as one self-contained HTML page. No torch, no network, no script."""

from .build import build_report

__all__ = ["build_report"]
