"""Check who may ask the server, and how much, before anything else sees a request.

Host      the name under which the server is asked must be an address of this machine, so that no page of another site
          reaches it under a name that was turned to it (DNS rebinding)
Origin    a change comes from our own page
token     a client that asks for data knows the address that was printed
sizes     of the address and of what is sent
"""

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse

MAX_QUERY = 2_048  # bytes
MAX_BODY = 4_096
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Access:
    """Lets through to an ASGI application what may come, and puts `HEADERS` on every answer.

    Parameters
    ----------
    app : ASGI application
        What it guards.
    token : str
        The secret of this server.
    host : str
        The address that it listens at.
    """

    def __init__(self, app: App, token: str, host: str):
        self.app, self.token, self.host = app, token.encode(), host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # uvicorn's own start and stop; there are no web sockets
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        refused = self._refused(scope)
        answer = self.app if refused is None else JSONResponse({"error": refused[1]}, refused[0])
        await answer(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason, or None where the request may come."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        asked = _only(headers, b"host")
        if asked is None or not is_own_host(asked, self.host, scope.get("server")):
            return 421, "This server does not have that name; open the address that `pidual review` printed."
        if len(scope.get("query_string", b"")) > MAX_QUERY:
            return 414, "The address is too long."
        if not scope.get("query_string", b"").isascii():
            return 400, "The address has bytes that are not text."
        if scope["method"] not in ("GET", "HEAD") and _only(headers, b"origin") != f"http://{asked}":
            return 403, "Changes are accepted only from the review page."
        given = (_only(headers, b"authorization") or "").encode("latin-1")
        if scope["path"].startswith("/api/") and not hmac.compare_digest(given, b"Bearer " + self.token):
            return 401, "The token is missing or from an earlier start; open the address that `pidual review` printed."
        length = _only(headers, b"content-length") or "0"
        if not length.isdigit() or len(length) > 9 or int(length) > MAX_BODY:
            return 413, f"At most {MAX_BODY} bytes may be sent."
        return None


def _only(headers: dict[bytes, list[bytes]], name: bytes) -> str | None:
    """Return the value of a header that is there once."""
    values = headers.get(name, [])
    return values[0].decode("latin-1") if len(values) == 1 else None


def is_own_host(asked: str, host: str, server: Any) -> bool:
    """Say whether a Host header names this server: by an address, localhost, or the name that it listens at.

    A server that listens at a loopback address goes by loopback addresses alone.
    """
    try:
        parts = urlsplit(f"//{asked}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return False
    if name is None or parts.netloc != asked or "@" in asked:
        return False
    if server is not None and server[1] is not None and (port or 80) != server[1]:
        return False
    if name in ("localhost", host.lower()):
        return True
    address = as_address(name)
    return address is not None and (address.is_loopback or not is_loopback(host))


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches a server that listens there."""
    address = as_address(host)
    return host == "localhost" if address is None else address.is_loopback


def as_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that is written there, if one is."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
