"""Check who may ask the server before anything else sees a request.

Host      the name under which the server is asked must be an address of this machine, so that no page of another site
          reaches it under a name that was turned to it (DNS rebinding)
Origin    a change comes from our own page
token     a client that asks for data knows the address that was printed
"""

import hmac
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Access:
    """Lets through to an ASGI application what may come, and puts `HEADERS` on every answer.

    `app`: what it guards.
    `token`: the secret of this server.
    `host`: the address that it listens at.
    """

    def __init__(self, app: ASGIApp, token: str, host: str):
        self.app, self.token, self.host = app, token.encode(), host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # there are no web sockets
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refused(scope)
        answer = self.app if refused is None else JSONResponse({"error": refused[1]}, refused[0])
        await answer(scope, receive, send_with_headers)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        asked, origin, given = (_only(headers, name) for name in ("host", "origin", "authorization"))
        if asked is None or not is_own_host(asked, self.host, scope.get("server")):
            return 421, "This server does not have that name; open the address that `pidual review` printed."
        if scope["method"] not in ("GET", "HEAD") and origin != f"http://{asked}":
            return 403, "Changes are accepted only from the review page."
        knows = hmac.compare_digest((given or "").encode("latin-1"), b"Bearer " + self.token)
        if scope["path"].startswith("/api/") and not knows:
            return 401, "The token is missing or from an earlier start; open the address that `pidual review` printed."
        return None


def _only(headers: Headers, name: str) -> str | None:
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else None


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
