"""Tabular files and frames, all read one way.

    open_source(path or frame) -> Source      what columns there are (`data.opening`)
    source.read(names)         -> Arrow columns

A Source also knows where a row stands (`source.place(7)` is "labels.csv, line 9"), so that an error can name the place.
Only when something is wrong is a text file read a second time, slowly, to find the line.
"""

from .base import Source

__all__ = ["Source"]
