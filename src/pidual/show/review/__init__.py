"""People look at the labels that look wrong, and say what is right.

database   the SQLite file of the run directory: opened, checked, and what an older pidual left beside it
store      the decisions in it: rows are added and never changed
suspects   the labels of a run in the order of looking, and all that is known about one of them
originals  what there is to see of an item, by `readers` of the run's inputs
writer     decisions that come at the same time, written together
guard      who may ask: token, Host and Origin, sizes, and the headers of every answer
app        the HTTP interface
serve      the server, at an address with its token
static     the page: HTML, a style sheet and a script of our own

Only `app` and `serve` need the extra `review`.
"""

from ...run.decisions import DECISIONS, Decision, Store, copy_decisions, read_decisions
from ...run.decisions_database import FILE

__all__ = ["DECISIONS", "FILE", "Decision", "Store", "copy_decisions", "read_decisions"]
