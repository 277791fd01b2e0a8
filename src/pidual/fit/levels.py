"""Answers on a scale, such as ratings from 1 to 5, as answers about classes: `--levels` and `--truth-classes`.

An answer becomes the class that is likeliest given its level and who gave it (`learn.answers.levels`): a 3 may speak
for another class from somebody harsh than from somebody lenient. From there on a fit knows classes alone.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..data import read_table
from ..data.sources import Source
from ..data.sources.in_arrow import Relabelled
from ..detect.agreement import ordinal_alpha, weighted_kappa
from ..errors import DataError, DataWarning, UsageError
from ..errors.messages import quoted
from ..learn.answers.design import Design
from ..learn.answers.judging import fit_judge
from ..learn.answers.model import Answers


def in_classes(source: Source, levels: Sequence[str], classes: Sequence[str], **how: Any) -> tuple[Source, str]:
    """Return a table with classes in place of levels, both from low to high, and how far annotators agree on levels.

    `how` says which columns to read, as for `read_table`.
    """
    if not 2 <= len(classes) <= len(levels) or len(set(levels)) < len(levels) or len(set(classes)) < len(classes):
        raise UsageError(
            "--levels and --truth-classes must be at least two names each, and no more classes than levels."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # it is read once more
        table = read_table(source, pi=[], x_columns=["y", "truth"], keep_ids=True, **how)
    names = [str(name) for name in table.classes]
    if unknown := [name for name in names if name not in levels]:
        raise DataError(
            f"{source.name}: the label {quoted(unknown[0])} is not one of --levels; add it there, or give it as "
            "--no-answer."
        )
    level = np.array([levels.index(name) for name in names])[table.label_codes]
    item, codes = table.item_codes.astype(np.int64), table.annotator_codes
    who = np.zeros(len(level), np.int64) if codes is None else codes.astype(np.int64)
    design = Design.fit((int(who.max()) + 1,), 0, numbers := np.zeros((len(level), 0)))
    n, k = len(table.frame["item"].cat.categories), len(classes)
    answers = Answers.build(item, level, design, who[:, None], numbers, n_items=n, n_classes=k)
    judge = fit_judge(answers, np.full((n, k), -np.log(k)), n_levels=len(levels))
    spoken = judge.model.spoken_for(answers, judge.model.log_likelihood(answers), judge.log_share)
    label = source.called(how.get("label")) or source.find("label") or "label"
    said = source.read([label])[label].cast(pa.string()).to_numpy(zero_copy_only=False).astype(object)
    said[np.arange(len(said)) if table.file_rows is None else table.file_rows] = np.array(classes, object)[spoken]
    found = [f"ordinal alpha {a:.2f} ({low:.2f} to {high:.2f})" for a, low, high in [ordinal_alpha(item, level)]]
    if codes is not None and (kappa := weighted_kappa(item, who, level)) is not None:
        found.append(f"weighted kappa of two annotators {kappa:.2f} on average")
    text = f"{source.name}: {len(levels)} levels are read as the classes they speak for; {', '.join(found)}."
    return Relabelled(source, label, pa.chunked_array([pa.array(said, pa.string())])), text
