"""The HTTP interface of the review page.

    GET  /                  the page; /review.css and /review.js
    GET  /api/about         the run and its classes
    GET  /api/next          the next label by a filter, and the progress
    GET  /api/item          all there is to see of the item of a row
    GET  /api/annotators    annotators whose names hold a text
    POST /api/decide        {row, decision, label, reviewer, request}
    POST /api/undo          {reviewer, request}: takes back the reviewer's last decision

A label is named by its place in the list of classes. `request` is another text for each change; one that is sent again,
because its answer was lost, is made once. Errors are {error: one sentence}.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...errors import RunError
from ...run.decisions import DECISIONS, Store
from ...run.files import RunFiles
from .guard import MAX_BODY, Guard
from .originals import Originals
from .suspects import SHOWS, Filter, Suspects
from .writer import Writer

LOOKING_SECONDS = 120.0  # a label that somebody was shown is not shown to others for so long
MAX_NAME = 60  # characters of a reviewer's name, and of a request
PAGES = {"/": ("page.html", "text/html"), "/review.css": ("review.css", "text/css")}
PAGES["/review.js"] = ("review.js", "text/javascript")

Record = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]


def make_app(
    run: RunFiles, store: Store, token: str, host: str = "127.0.0.1", x: Path | None = None, sample: int = 0
) -> Guard:
    """The application that serves the review page of a run.

    Parameters
    ----------
    run : RunFiles
        A finished run.
    store : Store
        Where its decisions are kept.
    token : str
        What a client has to know.
    host : str
        The address that the server listens at.
    x : Path, optional
        Where the inputs are, if not where the run read them.
    sample : int
        Labels spread over the list that come first; see `Suspects`.
    """
    review = Review(run, store, x, sample)
    routes = [Route(path, _static(*page)) for path, page in PAGES.items()]
    routes += [
        Route("/api/about", review.about),
        Route("/api/next", review.next),
        Route("/api/item", review.item),
        Route("/api/annotators", review.annotators),
        Route("/api/decide", review.decide, methods=["POST"]),
        Route("/api/undo", review.undo, methods=["POST"]),
    ]
    handlers = {HTTPException: _said, RunError: _failed, ClientDisconnect: _left}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # an address that is not ours is not found
    return Guard(app, token, host)


class Review:
    """The answers of the interface; the event loop calls one at a time.

    Parameters
    ----------
    run : RunFiles
    store : Store
    x : Path, optional
    sample : int
    """

    def __init__(self, run: RunFiles, store: Store, x: Path | None = None, sample: int = 0):
        self.name, self.store, self.suspects = run.path.resolve().name, store, Suspects(run, store, sample)
        self.writer, self.originals = Writer(store, self.suspects.sync), Originals(run, x)
        self.reading = ThreadPoolExecutor(1)  # of its own, so that decisions do not wait for pictures
        self.looking: dict[str, tuple[int, float]] = {}  # by reviewer: the place, and until when

    async def about(self, request: Request) -> Response:
        """The run and its classes."""
        suspects = self.suspects
        sizes = {"n_labels": len(suspects), "n_issues": int(suspects.issue.sum())}
        sizes["n_resting"] = int(suspects.resting.sum())
        known = {"has_annotators": suspects.people is not None, "has_inputs": suspects.has_inputs}
        return JSONResponse({"run": self.name, **sizes, **known, "classes": suspects.classes})

    async def next(self, request: Request) -> Response:
        """The label at, after or before a place, by a filter."""
        suspects, query = self.suspects, request.query_params
        suspects.sync(wait=False)
        wanted = self._filter(query)
        mask = suspects.chosen(wanted)
        start = _whole(query.get("place", "0"), "place", len(suspects))
        reviewer = _short(query.get("reviewer"), "reviewer")
        taken = self._taken_from(reviewer)
        place = suspects.find(wanted, mask, start, back=query.get("back") == "1", taken=taken)
        if place is not None:
            self.looking[reviewer] = (place, time.monotonic() + LOOKING_SECONDS)
        label = None if place is None else suspects.describe(place)
        return JSONResponse({"label": label, "progress": suspects.progress(wanted, mask)})

    async def item(self, request: Request) -> Response:
        """All there is to see of the item of a row."""
        row = _whole(request.query_params.get("row", ""), "row", len(self.suspects) - 1)
        name = self.suspects.item_name(row)
        shown = await asyncio.get_running_loop().run_in_executor(self.reading, self.originals.show, row, name)
        return JSONResponse({"row": row} | shown)

    async def annotators(self, request: Request) -> Response:
        """Annotators whose names hold a text."""
        return JSONResponse({"annotators": self.suspects.find_people(request.query_params.get("text", "")[:MAX_NAME])})

    async def decide(self, request: Request) -> Response:
        """Write a decision."""
        sent, suspects = await _body(request, {"row", "decision", "label", "reviewer", "request"}), self.suspects
        reviewer, key = _short(sent["reviewer"], "reviewer"), _short(sent["request"], "request")
        row, decision, code = sent["row"], sent["decision"], sent["label"]
        place = suspects.place_of(row) if _is_whole(row) and abs(row) < 2**63 else None
        if place is None:
            raise HTTPException(400, "row must be a row of the run's table.")
        if decision not in DECISIONS:
            raise HTTPException(400, f"decision must be one of {', '.join(DECISIONS)}.")
        given = int(suspects.given[place])
        if decision == "change" and not (_is_whole(code) and 0 <= code < len(suspects.classes) and code != given):
            raise HTTPException(400, "label must be the number of a class other than the given one.")
        if decision != "change" and code is not None:
            raise HTTPException(400, "label must be null unless the decision is change.")
        label = {"keep": suspects.classes[given], "unsure": None}.get(decision)
        label = suspects.classes[code] if decision == "change" else label
        number, is_new = await self.writer.add((row, decision, label, reviewer, key))
        return JSONResponse({"id": number, "new": is_new})

    async def undo(self, request: Request) -> Response:
        """Take back the reviewer's last decision, and show that label again."""
        sent = await _body(request, {"reviewer", "request"})
        reviewer, key = _short(sent["reviewer"], "reviewer"), _short(sent["request"], "request")
        row = await asyncio.to_thread(self.store.undo, reviewer=reviewer, request=key)
        self.suspects.sync()
        place = None if row is None else self.suspects.place_of(row)
        return JSONResponse({"label": None if place is None else self.suspects.describe(place)})

    def _filter(self, query: Any) -> Filter:
        show, label, annotator = query.get("show", "undecided"), query.get("label"), query.get("annotator")
        if show not in SHOWS:
            raise HTTPException(400, f"show must be one of {', '.join(SHOWS)}.")
        person = None if annotator is None else self.suspects.person(annotator)
        return Filter(
            show,
            None if label is None else _whole(label, "label", len(self.suspects.classes) - 1),
            -1 if annotator is not None and person is None else person,
            _share(query.get("low", "0"), "low"),
            _share(query.get("high", "1"), "high"),
            query.get("everything") == "1",
            query.get("resting") == "1",
        )

    def _taken_from(self, reviewer: str) -> list[int]:
        """Places at which other reviewers look now."""
        now = time.monotonic()
        self.looking = {who: entry for who, entry in self.looking.items() if entry[1] > now}
        return [place for who, (place, _) in self.looking.items() if who != reviewer]


async def _body(request: Request, names: set[str]) -> Record:
    """The JSON object that was sent, of exactly these names."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "What is sent must be JSON.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"At most {MAX_BODY} bytes may be sent.")
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "What was sent is not JSON.") from None
    if not isinstance(sent, dict) or set(sent) != names:
        raise HTTPException(400, f"An object of {', '.join(sorted(names))} must be sent.")
    return sent


def _short(value: Any, name: str) -> str:
    """A name that can be shown and stored."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text or len(text) > MAX_NAME or not text.isprintable():
        raise HTTPException(400, f"{name} must be text of 1 to {MAX_NAME} characters.")
    return text


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= most):
        raise HTTPException(400, f"{name} must be a whole number from 0 to {most}.")
    return int(text)


def _share(text: str, name: str) -> float:
    try:
        value = float(text) if len(text) < 30 else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise HTTPException(400, f"{name} must be a number from 0 to 1.")
    return value


def _static(name: str, kind: str) -> Handler:
    """One file of the page, read once."""
    content = files(__package__).joinpath("static", name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


async def _said(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _left(request: Request, error: Exception) -> Response:
    """Answer a client that is no longer there."""
    return Response(status_code=400)


async def _failed(request: Request, error: Exception) -> Response:
    """The decisions cannot be read or written, such as on a full disk."""
    logging.getLogger("uvicorn.error").error(error)
    return JSONResponse({"error": "The file of decisions cannot be used; the server's terminal says why."}, 503)
