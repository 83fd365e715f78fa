"""The guard of the pages: requests need the token, this host and this page as their origin."""

from __future__ import annotations

import secrets

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
    "img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
METHODS = ("GET", "HEAD", "POST")


class Guard:
    """An ASGI application that passes on to `app` only requests to `/TOKEN/...` at 127.0.0.1 or localhost on this port.

    `app` gets the path without the token. The header `Host` is checked, so that a foreign name that resolves to this
    machine is not served. A POST from another page names its origin, and is refused even with the right token. Other
    methods than GET, HEAD and POST are refused. The response to a refused request is empty, with status 403. Every
    response has the security headers `HEADERS`.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # start and end of the server
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http" or not self._admits(scope):
            if scope["type"] == "http":
                await PlainTextResponse("", status_code=403, headers=HEADERS)(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [pair for pair in message["headers"] if pair[0].decode() not in HEADERS] + own
            await send(message)

        inner = dict(scope) | {"path": scope["path"][len(self.token) + 1 :], "root_path": ""}
        await self.app(inner, receive, send_guarded)

    def _admits(self, scope: Scope) -> bool:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        named = [value.decode("latin-1") for value in headers.get(b"host", [])]
        first, _, _ = str(scope["path"]).removeprefix("/").partition("/")
        token = secrets.compare_digest(first.encode(), self.token.encode())
        good = token and len(named) == 1 and named[0] in self.hosts and scope["method"] in METHODS
        return good and "/" in scope["path"][1:] and (scope["method"] != "POST" or self._own_origin(headers))

    def _own_origin(self, headers: dict[bytes, list[bytes]]) -> bool:
        """Return whether a request comes from a page of this server, as far as its headers say.

        Return False if `Origin` is another address than those in `hosts`, or if `Sec-Fetch-Site` is neither
        "same-origin" nor "none". A missing header is accepted.
        """
        origins = [value.decode("latin-1") for value in headers.get(b"origin", [])]
        site = [value for value in headers.get(b"sec-fetch-site", []) if value not in (b"same-origin", b"none")]
        return not site and all(origin in {f"http://{host}" for host in self.hosts} for origin in origins)
