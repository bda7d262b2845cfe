"""Who may ask: the token, the Host, the Origin and the size of what is sent.

The page holds patients' scans. So every request needs the token of the printed link (kept in a
cookie that scripts cannot read), a Host that is this server's own (a foreign name that resolves
to this machine is refused), and, where it changes something, an Origin that is this server's own.
Each refusal is one line in the log, and the server goes on.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from twoslice.annotator.errors import RequestError

log = logging.getLogger("twoslice.annotator")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 8 << 20
"""Of a request's body: a stroke over a whole slice of 1024 × 1024 has room in it."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class RefusedError(Exception):
    """Why a request is turned away."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class TooLargeError(RequestError):
    """A body grew past its bound while it was read."""

    status = 413
    code = "too-large"


@dataclass(frozen=True)
class Doors:
    """What is let in: the token, the names of this server, its port."""

    token: str
    port: int
    names: frozenset[str]
    any_address: bool = False

    @property
    def cookie(self) -> str:
        """Cookies do not know ports, so the port is in the name."""
        return f"twoslice-{self.port}"

    def is_own(self, authority: str) -> bool:
        """True for `name:port` of this server."""
        name, port = _split(authority)
        if port != self.port:
            return False
        # A bare address cannot be made to resolve elsewhere, which a name can.
        return name in self.names or (self.any_address and _is_address(name))

    def fits(self, token: str) -> bool:
        """True for the right token; takes as long for a wrong one."""
        return secrets.compare_digest(token.encode(), self.token.encode())


class Guard:
    """Wraps an application: what does not pass never reaches it."""

    def __init__(self, app: App, doors: Doors) -> None:
        self.app, self.doors = app, doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a refusal."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            self._check(scope)
            await self.app(scope, _bounded(receive), _hardened(send))
        except RefusedError as refusal:
            await self._refuse(scope, refusal, send)

    def _check(self, scope: Scope) -> None:
        headers = _headers(scope)
        host = headers.get("host", "")
        if not self.doors.is_own(host):
            raise RefusedError(421, f"foreign Host '{host}'")
        origin = headers.get("origin")
        changing = scope["method"] not in ("GET", "HEAD")
        if origin is not None and not self._own_origin(origin):
            raise RefusedError(403, f"foreign Origin '{origin}'")
        if headers.get("sec-fetch-site") == "cross-site" and not _is_entry(scope):
            raise RefusedError(403, "asked for by another site")
        bearer = headers.get("authorization", "")
        if not self._has_token(scope, headers, bearer):
            raise RefusedError(401, "wrong token" if _shows_token(scope, headers) else "no token")
        by_header = bearer.startswith("Bearer ")
        if changing and origin is None and not by_header:
            raise RefusedError(403, "a change without an Origin")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            raise RefusedError(
                413, f"a body of {length[:24]} bytes, at most {MOST_BYTES} are taken"
            )

    def _own_origin(self, origin: str) -> bool:
        scheme, _, authority = origin.partition("://")
        return scheme == "http" and self.doors.is_own(authority)

    def _has_token(self, scope: Scope, headers: dict[str, str], bearer: str) -> bool:
        if bearer.startswith("Bearer "):
            return self.doors.fits(bearer.removeprefix("Bearer "))
        asked = query_token(scope)
        if asked is not None and _is_entry(scope):
            return self.doors.fits(asked)
        return self.doors.fits(_cookie(headers, self.doors.cookie) or "")

    async def _refuse(self, scope: Scope, refusal: RefusedError, send: Send) -> None:
        client = (scope.get("client") or ("?",))[0]
        line = (
            f"refused: {scope.get('method')} {scope.get('path')} from {client}: {refusal.message}"
        )
        log.warning("%s", plain(line))
        text = _WORDS.get(refusal.status, "This request is refused.")
        body = f"{text}\n".encode()
        start = {"type": "http.response.start", "status": refusal.status, "headers": []}
        start["headers"] = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        hardened = _hardened(send)
        await hardened(start)
        await hardened({"type": "http.response.body", "body": body})


_WORDS = {
    401: (
        "Open the annotator with the whole link that 'twoslice annotate' printed when it was "
        "started: it ends in a token, and a new start makes a new one."
    ),
    413: "That is more than the annotator takes at once.",
    421: "This server does not answer under that name. Use the link as it was printed.",
}


def query_token(scope: Scope) -> str | None:
    """The token in an address, if there is one."""
    found = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token")
    return found[0] if found else None


def plain(text: str, most: int = 300) -> str:
    """Text from outside made fit for one line of a log."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)[:most]


def own_names(host: str, machine: Iterable[str]) -> frozenset[str]:
    """The names under which a server that listens on `host` may be asked."""
    local = {"127.0.0.1", "localhost", "[::1]"}
    if host in ("127.0.0.1", "localhost", "::1"):
        return frozenset(local)
    written = f"[{host}]" if ":" in host else host.lower()
    return frozenset({*local, written, *(name.lower() for name in machine)})


def _is_entry(scope: Scope) -> bool:
    return scope["path"] == "/" and scope["method"] in ("GET", "HEAD")


def _shows_token(scope: Scope, headers: dict[str, str]) -> bool:
    return (
        query_token(scope) is not None
        or "authorization" in headers
        or "twoslice" in headers.get("cookie", "")
    )


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name. One that may come once and comes twice is refused, not guessed at."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in found and name in ("host", "origin", "authorization", "content-length"):
            raise RefusedError(400, f"two {name} headers")
        text = value.decode("latin-1")
        found[name] = f"{found[name]}; {text}" if name in found and name == "cookie" else text
    return found


def _cookie(headers: dict[str, str], name: str) -> str | None:
    """One cookie's value. Other programs on this machine share the jar, and http.cookies gives up
    at the first cookie of theirs that it cannot read, so they are told apart by hand.
    """
    for part in headers.get("cookie", "").split(";"):
        found, equals, value = part.strip().partition("=")
        if equals and found == name:
            return value
    return None


def _split(authority: str) -> tuple[str, int]:
    name, colon, port = authority.rpartition(":")
    if not colon or not port.isdecimal() or len(port) > 5:
        return authority.lower(), 80
    return name.lower(), int(port)


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _bounded(receive: Receive) -> Receive:
    """Count what comes in: a body without a length is bounded too."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise TooLargeError(f"a body of more than {MOST_BYTES} bytes.")
        return message

    return bounded


def _hardened(send: Send) -> Send:
    """Add the security headers to every answer."""
    extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return hardened
