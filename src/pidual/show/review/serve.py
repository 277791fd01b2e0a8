"""Serve the review page."""

import asyncio
import contextlib
import secrets
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...errors import UsageError
from ...run.decisions import Store
from ...run.files import RunFiles
from .access import as_address
from .app import make_app

MAX_CONNECTIONS = 256
REQUEST_SECONDS = 10.0  # for a client to send a request in, headers and body


class Connection(H11Protocol):  # type: ignore[misc]
    """Ends a connection whose client sends no whole request in time, or holds too many places."""

    overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin; where there are too many connections, another one ends."""
        self.since = self.loop.time()
        waiting = [other for other in self.connections if other.is_waiting()]
        if len(self.connections) >= MAX_CONNECTIONS and waiting:
            held = Counter(map(Connection.address, waiting))  # whoever holds most gives up the oldest
            oldest = min(waiting, key=lambda other: (-held[other.address()], other.since))
            self.connections.discard(oldest)
            oldest.transport.abort()
        super().connection_made(transport)
        self.watch()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        if self.overdue is not None:
            self.overdue.cancel()

    def address(self) -> str:
        """Return the client's address, without its port."""
        return str(self.client and self.client[0])

    def is_waiting(self) -> bool:
        """Say whether the client has to send something before there is anything to answer."""
        return self.cycle is None or self.cycle.more_body or self.cycle.response_complete

    def watch(self) -> None:
        """Give the client its time for a request, from the first part of it to the last."""
        if self.overdue is not None and not self.is_waiting():
            self.overdue.cancel()
            self.overdue = None
        elif self.overdue is None and self.is_waiting():
            self.overdue = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)


def serve(
    run: RunFiles, host: str, port: int, ready: Callable[[str], None], x: Path | None = None, sample: int = 0
) -> int:
    """Serve the review page of a run until Ctrl-C.

    Parameters
    ----------
    run : RunFiles
        A finished run.
    host : str
        The address to listen at.
    port : int
        0 for any that is free.
    ready : callable
        Called with the address of the page, its token included, when the server can be asked.
    x : Path, optional
        Where the inputs are, if not where the run read them.
    sample : int
        Labels spread over the list that come first; see `Suspects`.

    Returns
    -------
    int
        The number of labels that are decided.
    """
    with contextlib.closing(Store(run)) as store, contextlib.closing(listen(host, port)) as listening:
        token = secrets.token_urlsafe(24)
        app: Any = make_app(run, store, token, host, x, sample)
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=2 * MAX_CONNECTIONS,  # all of them being answered at once
        )
        ready(f"http://{shown_host(host)}:{listening.getsockname()[1]}/#token={token}")
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


def shown_host(host: str) -> str:
    """Return the address under which a browser of this machine finds the server."""
    address = as_address(host)
    if address is not None and address.is_unspecified:
        return "[::1]" if address.version == 6 else "127.0.0.1"
    return f"[{host}]" if address is not None and address.version == 6 else host
