"""The HTTP interface of the review page, and its server, at an address with its token.

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
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import uvicorn
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...errors import RunError, UsageError
from ...run.decisions import Store
from ...run.files import RunFiles
from ...run.records.reading import describe_problem
from .access import Access, as_address
from .originals import Originals
from .suspects import Filter, Suspects

LOOKING_SECONDS = 120.0  # a label that somebody was shown is not shown to others for so long
MAX_NAME = 60  # characters of a reviewer's name, and of a request
MAX_BODY = 4_096  # bytes
PAGES = {"/": ("page.html", "text/html"), "/review.css": ("review.css", "text/css")}
PAGES["/review.js"] = ("review.js", "text/javascript")

Handler = Callable[[Request], Awaitable[Response]]
Place = Annotated[int, Meta(ge=0)]


class Position(Struct):
    """Where a reviewer is in the list: the label at or after a place is wanted, or before it."""

    reviewer: str
    place: Place = 0
    back: bool = False

    def __post_init__(self) -> None:
        self.reviewer = _name(self.reviewer)


class Row(Struct):
    """Names a row of the table."""

    row: Place


class Undo(Struct, forbid_unknown_fields=True):
    """Takes back the last decision of a reviewer."""

    reviewer: str
    request: str

    def __post_init__(self) -> None:
        self.reviewer, self.request = _name(self.reviewer), _name(self.request)


class Decide(Undo, forbid_unknown_fields=True):
    """Decides on a label; `label` is the code of the right class where that is another one."""

    row: Place
    decision: Literal["keep", "change", "unsure"]
    label: int | None


Asked = TypeVar("Asked", bound=Struct)


def make_app(
    run: RunFiles, store: Store, token: str, host: str = "127.0.0.1", x: Path | None = None, sample: int = 0
) -> Access:
    """Make the application that serves the review page of a run.

    `run`: a finished run.
    `store`: where its decisions are kept.
    `token`: what a client has to know.
    `host`: the address that the server listens at.
    `x`: where the inputs are, if not where the run read them.
    `sample`: labels spread over the list that come first; see `Suspects`.
    """
    review = Review(run, store, x, sample)
    routes = [Route(path, _static(*page)) for path, page in PAGES.items()]
    routes += [
        Route(f"/api/{get.__name__}", get) for get in (review.about, review.next, review.item, review.annotators)
    ]
    routes += [Route(f"/api/{post.__name__}", post, methods=["POST"]) for post in (review.decide, review.undo)]
    handlers = {HTTPException: _said, RunError: _failed, ClientDisconnect: _left}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False  # an address that is not ours is not found
    return Access(app, token, host)


class Review:
    """Answers what the interface is asked. Parameters: see `make_app`."""

    def __init__(self, run: RunFiles, store: Store, x: Path | None = None, sample: int = 0):
        self.name, self.store, self.suspects = run.path.resolve().name, store, Suspects(run, store, sample)
        self.originals, self.reading = Originals(run, x), ThreadPoolExecutor(1)  # decisions do not wait for pictures
        self.looking: dict[str, tuple[int, float]] = {}  # by reviewer: the place, and until when

    async def about(self, request: Request) -> Response:
        """Describe the run and its classes."""
        suspects = self.suspects
        about = {
            "run": self.name,
            "n_labels": len(suspects),
            "n_issues": int(suspects.issue.sum()),
            "n_resting": int(suspects.resting.sum()),
            "has_annotators": suspects.people is not None,
            "has_inputs": suspects.has_inputs,
            "of_sets": suspects.of_sets,
            "classes": suspects.classes,
        }
        return JSONResponse(about)

    async def next(self, request: Request) -> Response:
        """Show the label at, after or before a place, by a filter."""
        suspects, wanted, asked = self.suspects, _asked(request, Filter), _asked(request, Position)
        _check_below(wanted.label or 0, len(suspects.classes), "label")
        _check_below(asked.place, len(suspects) + 1, "place")
        suspects.sync(wait=False)
        mask = suspects.chosen(wanted)
        taken = self._taken_from(asked.reviewer)
        place = suspects.find(wanted, mask, asked.place, back=asked.back, taken=taken)
        if place is not None:
            self.looking[asked.reviewer] = (place, time.monotonic() + LOOKING_SECONDS)
        label = None if place is None else suspects.describe(place)
        return JSONResponse({"label": label, "progress": suspects.progress(wanted, mask)})

    async def item(self, request: Request) -> Response:
        """Show all there is to see of the item of a row."""
        row = _asked(request, Row).row
        _check_below(row, len(self.suspects), "row")
        name = str(self.suspects.texts["item"][row].as_py())
        shown = await asyncio.get_running_loop().run_in_executor(self.reading, self.originals.show, row, name)
        return JSONResponse({"row": row} | shown)

    async def annotators(self, request: Request) -> Response:
        """List annotators whose names hold a text."""
        return JSONResponse({"annotators": self.suspects.find_people(request.query_params.get("text", "")[:MAX_NAME])})

    async def decide(self, request: Request) -> Response:
        """Write a decision."""
        sent, suspects = await _sent(request, Decide), self.suspects
        _check_below(sent.row, len(suspects), "row")
        given, code = int(suspects.given[suspects.place[sent.row]]), sent.label
        if sent.decision == "change" and (code is None or not 0 <= code < len(suspects.classes) or code == given):
            raise HTTPException(400, "label must be the number of a class other than the given one.")
        if sent.decision == "change" and suspects.of_sets and code != given ^ 1:
            raise HTTPException(400, "label must be the same class, added or dropped.")
        if sent.decision != "change" and code is not None:
            raise HTTPException(400, "label must be null unless the decision is change.")
        code = given if sent.decision == "keep" else code
        label = None if code is None else suspects.classes[code]
        more = {"reviewer": sent.reviewer, "request": sent.request}
        number, is_new = await asyncio.to_thread(self.store.add, sent.row, sent.decision, label, **more)
        await asyncio.to_thread(suspects.sync)
        return JSONResponse({"id": number, "new": is_new})

    async def undo(self, request: Request) -> Response:
        """Take back the reviewer's last decision, and show that label again."""
        sent, suspects = await _sent(request, Undo), self.suspects
        row = await asyncio.to_thread(self.store.undo, reviewer=sent.reviewer, request=sent.request)
        await asyncio.to_thread(suspects.sync)
        return JSONResponse({"label": None if row is None else suspects.describe(int(suspects.place[row]))})

    def _taken_from(self, reviewer: str) -> list[int]:
        """Return the places at which other reviewers look now."""
        now = time.monotonic()
        self.looking = {who: entry for who, entry in self.looking.items() if entry[1] > now}
        return [place for who, (place, _) in self.looking.items() if who != reviewer]


def _asked(request: Request, kind: type[Asked]) -> Asked:
    return _read(dict(request.query_params), kind, strict=False)


async def _sent(request: Request, kind: type[Asked]) -> Asked:
    """Read the JSON that was sent."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "What is sent must be JSON.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"At most {MAX_BODY} bytes may be sent.")
    try:
        sent = msgspec.json.decode(body)
    except (ValueError, msgspec.DecodeError, RecursionError):  # in older versions no ValueError
        raise HTTPException(400, "What was sent is not JSON.") from None
    return _read(sent, kind)


def _read(sent: object, kind: type[Asked], *, strict: bool = True) -> Asked:
    try:
        return msgspec.convert(sent, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"{describe_problem(error, sent)}.") from None


def _name(text: str) -> str:
    text = " ".join(text.split())
    if not text or len(text) > MAX_NAME or not text.isprintable():
        raise ValueError(f"needs names of 1 to {MAX_NAME} characters")
    return text


def _check_below(number: int, end: int, name: str) -> None:
    if number >= end:
        raise HTTPException(400, f"{name} must be a whole number from 0 to {end - 1}.")


def _static(name: str, kind: str) -> Handler:
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
    """Say that decisions cannot be read or written, such as on a full disk."""
    logging.getLogger("uvicorn.error").error(error)
    return JSONResponse({"error": "The file of decisions cannot be used; the server's terminal says why."}, 503)


def serve(
    run: RunFiles, host: str, port: int, ready: Callable[[str], None], x: Path | None = None, sample: int = 0
) -> int:
    """Serve the review page of a run until Ctrl-C.

    `run`: a finished run.
    `host`: the address to listen at.
    `port`: 0 for any that is free.
    `ready`: called with the address of the page, its token included, when the server can be asked.
    `x`, `sample`: as for `make_app`.
    Returned: the number of labels that are decided.
    """
    with contextlib.closing(Store(run)) as store, contextlib.closing(listen(host, port)) as listening:
        token = secrets.token_urlsafe(24)
        app: Any = make_app(run, store, token, host, x, sample)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        ready(f"http://{_shown_host(host)}:{listening.getsockname()[1]}/#token={token}")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
        return len(store.latest())


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else every answer waits for 40 ms
        return listening
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {host}, port {port} ({error.strerror or error}); choose another --port or --host."
        ) from error


def _shown_host(host: str) -> str:
    """Return the address under which a browser of this machine finds the server."""
    address = as_address(host)
    if address is not None and address.is_unspecified:
        return "[::1]" if address.version == 6 else "127.0.0.1"
    return f"[{host}]" if address is not None and address.version == 6 else host
