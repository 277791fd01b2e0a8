"""People in tables: the one place that detects, hides, refuses and replaces them.

    names_annotator("Completed by")             who gave the label, by the name of the column
    people_in("rater_email", values)            "all" of a column are people, "some" values are, or ""
    shown("annotator", "bob@example.org")       a value for a message, or words in its place
    refuse_people(source, "item", keys, ...)    an error where people would be kept as they are
    pseudonyms(source, ids, key, whole)         keyed hashes (BLAKE2b) in place of ids

Ids of people are personal data, so a column that holds them is pseudonymised or refused wherever it enters. The name
decides first, in any spelling (`completed_by`, `Annotated by`, `annotatorName`, `worker id`): its last word says what
the column holds, so `user_agent`, `judge_confidence` and `annotator_accuracy` hold no people. Fractions, moments and
yes/no answers are not ids, whatever the name.
"""

import contextlib
import fnmatch
import hashlib
import itertools
import os
import re
import secrets
import shlex
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataError, KeyNotice, UsageError, messages
from ..errors.messages import quoted
from .paths import beside, check_file, has_parts, is_folder

if TYPE_CHECKING:
    from .columns import Keys
    from .sources import Source


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
_MOST_SIGNS = 100
HIDDEN = "the value (not shown: personal data)"


class _Name(NamedTuple):
    """What the name of a column says: people, maybe those who gave the labels, maybe not for sure."""

    labels: bool
    sure: bool  # "annotators" and "rater_2" may be a count or an answer: people only where the values are text


def names_annotator(column: str) -> bool:
    """Return whether the column is called like one that says who gave the label."""
    found = _read(column)
    return found is not None and found.labels and found.sure


def names_people(column: str) -> bool:
    """Return whether the column is called like one that holds people."""
    return _read(column) is not None


def holds_people(column: str, values: "pd.Series[Any]") -> bool:
    """Return whether the column holds people, by its name and values, or because most values are e-mail addresses.

    `column`: its name.
    `values`: numbers, moments or categories, as `columns.values` makes them.
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


def people_in(column: str, values: "pd.Series[Any]") -> str:
    """Return "all" where a column holds people, "some" for e-mail addresses among other values, else ""."""
    if column == "annotator" or holds_people(column, values):
        return "all"
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return ""
    return "some" if any(map(has_address, values.cat.categories)) else ""


def is_address(text: object) -> bool:
    """Return whether this is an e-mail address, maybe with a name beside it."""
    return has_address(text) and len(str(text).split()) <= 5


def has_address(text: object) -> bool:
    """Return whether there is an e-mail address in the text; the id of a message, <...@...>, is none."""
    text = str(text).strip()
    message = text.startswith("<") and text.endswith(">")
    return not message and _finds_address(text)


def _finds_address(text: str) -> bool:
    """Return whether there is an e-mail address about one of the first @; the rest of a long text takes no time."""
    signs = itertools.islice(re.finditer("@", text), _MOST_SIGNS)
    return any(_ADDRESS.search(text[max(0, sign.start() - 64) : sign.start() + 256]) for sign in signs)


def hide_addresses(text: str) -> str:
    """Return the text with words in place of e-mail addresses; it should be short, as all of it is looked at."""
    return _ADDRESS.sub("(e-mail address)", text) if "@" in text else text


def shown(column: str, value: object, limit: int = 60) -> str:
    """Return `value` as a message may show it: nothing of a column called like one of people, and no address."""
    if isinstance(value, dict | list):
        return "the value"
    if hides(column, str(value)):
        return HIDDEN
    return quoted(value.strip() if isinstance(value, str) else value, limit)


def hides(column: str, text: str) -> bool:
    """Return whether a text about a value of the column may hold somebody's id, and must not be shown."""
    return names_people(column) or _finds_address(text)


def listed(columns: "list[str]", limit: int = 30) -> str:
    """Return the names of columns; in a table with a column per annotator, these may be addresses."""
    return messages.listed(["(an e-mail address)" if is_address(column) else column for column in columns], limit)


def _read(column: str) -> _Name | None:
    """Return what the name of a column says about people; None if nothing."""
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
    """Return the words of a name in lower case, wherever it marks their ends: spaces, signs, capitals, digits."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)", " ", str(column))
    words = [word for word in re.split(r"[\W_]+", parted.casefold()) if word]
    return re.sub(r"\be mail\b", "email", " ".join(words)).split()


def _texts(values: "pd.Series[Any]") -> list[str]:
    """Return the different values of a column of categories or of anything else, as text."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return [str(name) for name in values.cat.categories]
    return [str(name) for name in values.dropna().astype(str).unique()]


# --- what is refused ---


def refuse_people_as_columns(source: str, columns: Iterable[object]) -> None:
    """Raise for columns that are called by e-mail addresses: names of columns are kept as they are."""
    if any(map(has_address, columns)):
        raise UsageError(
            f"a column of {source} that is to be used is named by an e-mail address; rename it, list it with "
            "annotators= (--annotators) if it holds one annotator's answers, or keep ids with keep_ids=True "
            "(--keep-ids)."
        )


def refuse_people(source: "Source", name: str | None, found: "Keys | None", what: str) -> None:
    """Raise for items or labels that are people: they are kept as they are, in all that is made of the table."""
    if name is None or found is None:
        return
    said = "clean label" if what == "y" else what
    way_out = f"name the column of the {said} with {what}= (--{what}), or keep ids with keep_ids=True (--keep-ids)."
    if what == "item" and names_annotator(name):
        raise UsageError(f"column {name!r} of {source.name} says who gave the label and is not an {what}; {way_out}")
    if not len(found.names) or not pa.types.is_string(found.names.type):
        return
    likely = pc.indices_nonzero(pc.match_substring_regex(found.names, MAYBE_ADDRESS))  # Python looks at these few
    texts = found.names.take(likely).to_pylist()
    code = next((code for code, text in zip(likely.to_numpy(), texts, strict=True) if is_address(text)), None)
    if code is not None:
        rows = np.flatnonzero(found.codes == code)
        where = source.place(int(rows[0])) if len(rows) else source.name  # a category may have no row
        other = "number the items" if what == "item" else "rename the class"
        raise DataError(f"{where}, column {name!r}: the {said} has an e-mail address in it; {other}, {way_out}")


def refuse_people_as_inputs(source: str, people: list[str]) -> None:
    """Raise for columns of people asked for as input."""
    if people:
        what = "a column named by an e-mail address" if has_address(people[0]) else f"column {people[0]!r}"
        raise UsageError(f"{what} of {source} holds people; use it as PI (--pi), or rename it if it holds no people.")


# --- pseudonyms, and the secret key they are made with ---

KEY_NAME = ".pidual.key"


def key_path(table: str | Path) -> Path:
    """Return where the key of a table is, or is to be made: beside its file, or beside the folder of its parts.

    A folder and a pattern of its files have one key. One that is within the folder is found too, by a pattern first.
    """
    folder, pattern = beside(table), has_parts(table)
    places = [folder, folder.parent] if pattern else [folder, Path(table)] if is_folder(table) else [folder]
    made = folder.parent if pattern else folder
    return next((place for place in places if (place / KEY_NAME).exists()), made) / KEY_NAME


_LONGEST_KEY = 200  # bytes of a file that are read
_MADE = re.compile("a-[0-9a-f]{12}")


def pseudonym(name: str, key: bytes) -> str:
    """Return what a table calls the person `name`: the same in every table and column with the same key."""
    return "a-" + hashlib.blake2b(name.encode(), key=key, digest_size=6).hexdigest()


def are_pseudonyms(names: Iterable[str]) -> bool:
    """Return whether all names are pseudonyms already."""
    return all(_MADE.fullmatch(name) for name in names)


def pseudonyms(source: str, ids: Any, key: Callable[[], bytes] | None, whole: bool) -> Any:
    """Replace ids by keyed hashes, which nobody can undo or repeat without the key; addresses alone if not `whole`.

    Ids that are all pseudonyms already stay as they are.
    """
    names = ids.to_pylist()
    if key is None or are_pseudonyms(names):  # of a table that was imported
        return ids
    made = [pseudonym(name, key()) if whole or has_address(name) else name for name in names]
    if len(set(made)) < len(made):  # at 200,000 annotators this happens to one key in 14,000
        raise DataError(
            f"{source}: two annotators get the same pseudonym with this key; remove the key file for a new one, or "
            "keep the ids with keep_ids=True (--keep-ids)."
        )
    return pa.array(made, pa.string())


def load_key(path: Path, *, make: bool = True) -> bytes:
    """Read the key in `path`; if there is none, make it, or raise an error unless `make`."""
    way_out = "name another with key_file= (--key-file)"
    try:
        if not path.exists():
            if not make:
                raise UsageError(f"There is no key of the pseudonyms at {path}; {way_out}, as that of the run.")
            _make_key(path)
        check_file(path)
        with path.open("rb") as file:
            text = file.read(_LONGEST_KEY)
        others = _others_can_read(path)
    except OSError as error:
        raise UsageError(
            f"the key for annotator pseudonyms cannot be read or written at {path} ({error.strerror}); {way_out}, or "
            "keep the ids as they are with keep_ids=True (--keep-ids)."
        ) from None
    key = _parse_key(text)
    if key is None:
        raise UsageError(
            f"{path} is not a key file of pidual (64 hex digits); {way_out}, or remove it to make a new key."
        )
    if others:
        raise UsageError(
            f"{path} can be read by others, who could find out with it whose pseudonym is whose; restrict it with "
            f"chmod 600 {shlex.quote(str(path))}, or {way_out}."
        )
    return key


def _parse_key(text: bytes) -> bytes | None:
    """Return the key that a file with this text holds; None if it is none."""
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return None
    return key if len(key) == 32 else None


def _make_key(path: Path) -> None:
    """Write a new key that only its owner can read, and say so; the first of several processes wins."""
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(32) + "\n")
        try:
            os.link(temporary, path)  # fails if there is one already, unlike a rename
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    git = " (it is listed in .gitignore)" if _keep_from_git(path) else ", also from version control"
    warnings.warn(
        f"A new secret key was made at {path}: people's ids are replaced by pseudonyms, which can be traced back to "
        f"people only with this key. Keep it with the table, and keep it secret{git}.",
        KeyNotice,
        stacklevel=7,
    )


def _keep_from_git(path: Path) -> bool:
    """List the key in the .gitignore beside it; False where that cannot be written."""
    ignored = path.parent / ".gitignore"
    try:
        text = ignored.read_text(encoding="utf-8", errors="surrogateescape") if ignored.exists() else ""
        patterns = [re.sub(r"^!?(/|\*\*/)?", "", line.strip()) for line in text.splitlines()]
        if not any(fnmatch.fnmatchcase(path.name, pattern) for pattern in patterns if not pattern.startswith("#")):
            with ignored.open("a", encoding="utf-8") as file:
                file.write(("\n" if text and not text.endswith("\n") else "") + f"{path.name}\n")
    except OSError:
        return False
    return True


def _others_can_read(path: Path) -> bool:
    """Return whether the mode of the key lets others read it, where the file system has modes."""
    if os.name == "nt" or not stat.S_IMODE(path.stat().st_mode) & 0o077:
        return False
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(prefix=f"{path.name}.", dir=path.parent) as private:
        return not stat.S_IMODE(os.stat(private.name).st_mode) & 0o077  # made with 0600
    return True
