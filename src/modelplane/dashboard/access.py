"""Access to the page: from this machine, from the browser that was given its address, and from no other site.

The page shows what the viewer's kubeconfig may read. Three checks guard it: the ``Host`` of a request is a
name of loopback (against DNS rebinding), its ``Origin`` is the page's own (against other sites), and it
carries a key that is made at each start and is part of the printed address (against other users).
"""

import hmac
import secrets
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

LOOPBACK: Final = "127.0.0.1"

_HOSTS: Final = (LOOPBACK, "localhost", "[::1]")

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_KEY: Final = "key"


class Access:
    """The checks of every request."""

    def __init__(self) -> None:
        self._key = secrets.token_urlsafe(24)
        self.port = 0

    def build_address(self) -> str:
        """Return the address to open."""
        return f"http://{LOOPBACK}:{self.port}/?{_KEY}={self._key}"

    @property
    def cookie(self) -> str:
        """Name of the cookie with the key: browsers do not tell the ports of a host apart."""
        return f"modelplane-{self.port}"

    async def set_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the headers of a response."""
        response.headers.update(_HEADERS)

    def build_middleware(self) -> Middleware:
        """Return the checks as aiohttp's middleware."""

        @web.middleware
        async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
            hosts = {f"{name}:{self.port}" for name in _HOSTS}
            if request.headers.get("Host", "") not in hosts:
                return _refused(421, "This page is served on loopback only.")
            origin = request.headers.get("Origin")
            if origin is not None and origin not in {f"http://{host}" for host in hosts}:
                return _refused(403, "Requests of other sites are refused.")
            if request.method == "POST" and origin is None:
                return _refused(403, "The request does not say which site it is from.")
            if self._is_key(request.query.get(_KEY, "")):
                return self._admit(request)
            if not self._is_key(request.cookies.get(self.cookie, "")):
                return _refused(403, "Open the address that `modelplane dashboard` printed.")
            return await handler(request)

        return checked

    def _is_key(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._key.encode())

    def _admit(self, request: web.Request) -> web.StreamResponse:
        """Keep the key in a cookie, and take it out of the address."""
        rest = {name: value for name, value in request.query.items() if name != _KEY}
        response = web.Response(status=303, headers={"Location": str(request.rel_url.with_query(rest))})
        response.set_cookie(self.cookie, self._key, httponly=True, samesite="Strict", path="/")
        return response


def _refused(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=f"{why}\n")
