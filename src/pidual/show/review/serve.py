"""Serve the review page."""

import contextlib
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from ...errors import UsageError
from ...run.decisions import Store
from ...run.files import RunFiles
from .access import as_address
from .app import make_app


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
