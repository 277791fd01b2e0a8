"""Which columns hold people: the one place that decides it.

    names_annotator("Completed by")             who gave the label, by the name of the column
    holds_people("rater_email", values)         anybody, by name or because the values are e-mail addresses
    shown("annotator", "bob@example.org")       a value for a message, or words in its place

Ids of people are personal data, so a column that holds them is pseudonymised or refused wherever it enters. The name
decides first, in any spelling (`completed_by`, `Annotated by`, `annotatorName`, `worker id`): its last word says what
the column holds, so `user_agent`, `judge_confidence` and `annotator_accuracy` hold no people. Fractions, moments and
yes/no answers are not ids, whatever the name.
"""

import itertools
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..errors import messages
from ..errors.messages import quoted


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# who gives labels; a column of them may become the annotators without being asked for
_LABELLERS = _set(
    "annotator annotater worker crowdworker turker performer rater labeler labeller coder judge grader evaluator "
    "assessor tagger scorer transcriber"
)
_LABELLED = _set(
    "annotated labeled labelled completed rated coded judged graded evaluated assessed tagged scored classified "
    "answered transcribed"
)
_OTHERS = _set(
    "user reviewer expert owner author assignee editor moderator checker validator verifier adjudicator curator "
    "contributor participant respondent volunteer person employee operator inspector analyst player doctor physician "
    "clinician nurse radiologist pathologist technician student teacher patient customer"
)
_FIELDS = _set("email mail username login who initials surname forename nickname phone telephone")
_NAMES = _set("full first last family given middle display nick real screen")  # before "name"
_IDS = _set(  # last words that leave the one before them to say what the column holds
    "id ids uid uuid guid pk name names email mail address login username handle alias key code number no nr num idx "
    "index initials hash ref identifier pseudonym phone"
)
_COUNTS = _set("is has was are n num nr count total many same")  # first words of counts and flags
_NOT_WHO = _set(  # done by something else than a person
    "sorted ordered grouped split stratified caused driven triggered followed multiplied divided sampled clustered"
)
_FLAGS = _set("0 1 true false yes no y n t f")
_ENDINGS = (
    "png|jpe?g|gif|webp|bmp|svg|tiff?|ppm|pdf|txt|[ct]sv|jsonl?|xml|html?|css|js|wav|flac|ogg|avi|npy|npz|dcm|nii"
)
_LOCAL = r"[^@\s<>,;:\"'()/\\]"
_ADDRESS = re.compile(  # not icon@2x.png, package@1.2.rc, git@github.com or site.org/@user.name
    rf"(?<!{_LOCAL})(?!git@){_LOCAL}+@(?!v?\d+\.\d)[\w-]+(?:\.[\w-]+)*"
    rf"\.(?!(?:{_ENDINGS})(?![^\W_]))(?:xn--[a-z0-9-]+|[^\W\d_]{{2,}}(?![^\W\d_]))"
)
MAYBE_ADDRESS = (
    r"[^@\s/]@[^@\s/]+\.\pL\pL"  # what Arrow looks for in many texts: in all that have an address, and few more
)
MOST_SIGNS = 100
HIDDEN = "the value (not shown: personal data)"


class _Name(NamedTuple):
    """What the name of a column says: people, maybe those who gave the labels, maybe not for sure."""

    labels: bool
    sure: bool  # "annotators" and "rater_2" may be a count or an answer: people only where the values are text


def names_annotator(column: str) -> bool:
    """Whether the column is called like one that says who gave the label."""
    found = _read(column)
    return found is not None and found.labels and found.sure


def names_people(column: str) -> bool:
    """Whether the column is called like one that holds people."""
    return _read(column) is not None


def holds_people(column: str, values: "pd.Series[Any]") -> bool:
    """Whether the column holds people, by its name and what is in it, or because most values are e-mail addresses.

    Parameters
    ----------
    column : str
        Its name.
    values : pandas.Series
        Numbers, moments or categories, as `readers.values` makes them.
    """
    kind = pd.api.types
    if kind.is_bool_dtype(values) or kind.is_datetime64_any_dtype(values) or kind.is_timedelta64_dtype(values):
        return False
    found = _read(column)
    if kind.is_numeric_dtype(values):
        if found is None or not found.sure:
            return False
        numbers = values.dropna().to_numpy(np.float64)
        whole = bool((numbers == np.floor(numbers)).all())
        return whole and (found.labels or not np.isin(numbers, (0, 1)).all())
    names = _texts(values)
    if found is not None and not _FLAGS.issuperset(name.casefold() for name in names):
        return True
    return sum(map(has_address, names)) > len(names) / 2


def is_address(text: object) -> bool:
    """Whether this is an e-mail address, maybe with a name beside it."""
    return has_address(text) and len(str(text).split()) <= 5


def has_address(text: object) -> bool:
    """Whether there is an e-mail address in the text; the id of a message, <...@...>, is none."""
    text = str(text).strip()
    message = text.startswith("<") and text.endswith(">")
    return not message and _finds_address(text)


def _finds_address(text: str) -> bool:
    """Whether there is an e-mail address about one of the first signs @; the rest of a long text takes no time."""
    signs = itertools.islice(re.finditer("@", text), MOST_SIGNS)
    return any(_ADDRESS.search(text[max(0, sign.start() - 64) : sign.start() + 256]) for sign in signs)


def hide_addresses(text: str) -> str:
    """The text with words in place of e-mail addresses; it should be short, as all of it is looked at."""
    return _ADDRESS.sub("(e-mail address)", text) if "@" in text else text


def shown(column: str, value: object, limit: int = 60) -> str:
    """`value` as a message may show it: not where the column is called like one of people, nor an e-mail address."""
    if isinstance(value, dict | list):
        return "the value"
    if hides(column, str(value)):
        return HIDDEN
    return quoted(value.strip() if isinstance(value, str) else value, limit)


def hides(column: str, text: str) -> bool:
    """Whether a text about a value of the column may hold somebody's id, and must not be shown."""
    return names_people(column) or _finds_address(text)


def listed(columns: "list[str]", limit: int = 30) -> str:
    """The names of columns; in a table with a column per annotator, these may be addresses."""
    return messages.listed(["(an e-mail address)" if is_address(column) else column for column in columns], limit)


def _read(column: str) -> _Name | None:
    """What the name of a column says about people; None if nothing."""
    words = _words(column)
    sure = True
    if words and words[-1].isdigit():
        words, sure = [word for word in words if not word.isdigit()], False
    if not words or words[0] in _COUNTS:
        return None
    if "of" in words[1:-1]:  # id of the annotator
        place = words.index("of", 1)
        words = [word for word in words[place + 1 :] if word != "the"] + words[:place]
    if words[0] == "who" or (words[-1] == "name" and len(words) == 2 and words[0] in _NAMES):
        return _Name(False, sure)
    by_field = words[-1] in _FIELDS
    while len(words) > 1 and words[-1] in _IDS:
        words = words[:-1]
    last = words[-1]
    if last == "by":
        verb = words[-2] if len(words) > 1 else ""
        return None if verb in _NOT_WHO else _Name(verb in _LABELLED, sure)
    for role, labels in ((_LABELLERS, True), (_OTHERS, False), (_FIELDS, False)):
        if last in role:
            return _Name(labels, sure)
        if last.endswith("s") and last[:-1] in role:
            return _Name(labels, False)
        if any(last.endswith(end) and last[: -len(end)] in role for end in ("id", "name", "email", "code")):
            return _Name(labels, sure)
    return _Name(False, sure) if by_field else None


def _words(column: str) -> list[str]:
    """The words of a name in lower case, wherever it marks their ends: spaces, signs, capitals, digits."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)", " ", str(column))
    words = [word for word in re.split(r"[\W_]+", parted.casefold()) if word]
    return re.sub(r"\be mail\b", "email", " ".join(words)).split()


def _texts(values: "pd.Series[Any]") -> list[str]:
    """The different values of a column of categories or of anything else, as text."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return [str(name) for name in values.cat.categories]
    return [str(name) for name in values.dropna().astype(str).unique()]
