"""People look at the labels that look wrong, and say what is right.

suspects   the labels of a run in the order of looking, and all that is known about one of them
originals  what there is to see of an item, read from the run's inputs
access     who may ask: token, Host and Origin, and the headers of every answer
app        the HTTP interface and its server
static     the page: HTML, a style sheet and a script of our own

Only `access` and `app` need the extra `review`. The decisions themselves are in `run.decisions`.
"""
