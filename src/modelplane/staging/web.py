"""Requests of HTTP to addresses that a tenant chose, for a program that runs beside secrets of others.

No connection leads to an address of the machine or of its cloud. Redirects are few, never lead from HTTPS to
HTTP, and take no credentials to another host.
"""

import http.client
import ipaddress
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

DELAYS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
LONGEST_DELAY_S = 60.0
TIMEOUT_S = 60.0
"""Time for each step of a request, and for the whole of an answer up to its body."""
DESCRIBED_S = 300.0
"""Time for an answer that is not a file."""
MOST_REDIRECTS = 5
LARGEST_DESCRIPTION = 8 << 20
FORBIDDEN = (
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"),
    *("192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128", "fe80::/10", "ff00::/8"),
    *("fd00:ec2::/32", "fd00:42::42/128", "fd20:ce::254/128"),
)
"""Loopback, link-local and metadata services of clouds, as the gateway refuses them too."""
IPV4_IN_IPV6 = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))

Result = TypeVar("Result")


class Hopeless(Exception):
    """A failure that a retry cannot fix."""


class Interrupted(Exception):
    """A failure that a retry may fix."""

    after_s: float = 0.0
    """The time for which the server asks."""


class Damaged(Interrupted):
    """Content that is not what it should be."""


class Unauthorized(Hopeless):
    """A refusal that may say how to ask for a token."""

    def __init__(self, message: str, headers: Any) -> None:
        super().__init__(message)
        self.headers = headers


def guard(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse connections to the machine itself and to its cloud: an audit hook sees what names resolve to."""
    if event != "socket.connect" or not isinstance(arguments[1], tuple):
        return
    address = ipaddress.ip_address(arguments[1][0].partition("%")[0])
    inner = [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) for block in IPV4_IN_IPV6 if address in block]
    for each in (address, *inner):
        if any(each in ipaddress.ip_network(block) for block in FORBIDDEN):
            raise Hopeless(f"the address {address} is the machine's own or its cloud's: name another host")


def shown(url: str) -> str:
    """Return a URL for messages: its query may be a credential."""
    return url.partition("?")[0]


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow a few redirects, without credentials to another host, and never from HTTPS to HTTP."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request that follows one."""
        old, new = urlsplit(req.full_url), urlsplit(urljoin(req.full_url, newurl))
        if new.scheme not in {"https", old.scheme}:
            raise Hopeless(f"{shown(req.full_url)} redirects to {new.scheme}, which is not followed")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and (old.scheme, old.netloc) == (new.scheme, new.netloc):
            request.unredirected_hdrs.update(req.unredirected_hdrs)
        return request


class _Bounded(http.client.HTTPConnection):
    """A connection whose answers begin in time, also if the server sends them byte by byte."""

    def getresponse(self) -> http.client.HTTPResponse:
        """Return the answer, once its headers are there."""
        with until(self.sock, TIMEOUT_S):
            return super().getresponse()


class _BoundedTLS(_Bounded, http.client.HTTPSConnection):
    """Such a connection with TLS."""


class _HTTP(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Bounded, req)


class _HTTPS(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_BoundedTLS, req)


@contextmanager
def until(connection: socket.socket, seconds: float) -> Iterator[None]:
    """End a connection unless what is done with it is done in time. Raises ``TimeoutError``."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            # Not the method of a TLS connection, which another thread is reading.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    ended = TimeoutError(f"timed out: the answer did not begin within {seconds:.0f} s")
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise (ended if late.is_set() else error) from None
    finally:
        timer.cancel()
    if late.is_set():
        raise ended


def opener(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """Return an opener for HTTP alone: the default one reads files, too."""
    director = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _HTTP(),
        _HTTPS(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        *handlers,
    ):
        director.add_handler(handler)
    return director


FOLLOWING = opener(Redirects())
STRICT = opener()


def ask(
    url: str,
    headers: Mapping[str, str] | None = None,
    secret: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    web: urllib.request.OpenerDirector = FOLLOWING,
) -> http.client.HTTPResponse:
    """Return the answer to one request; ``secret`` are headers that are not sent to another host."""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise Hopeless(f"{shown(url)} is not an address of HTTP")
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)  # noqa: S310  checked
    for name, value in (secret or {}).items():
        request.add_unredirected_header(name, value)
    try:
        answer: http.client.HTTPResponse = web.open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(error, url) from error
    except (ValueError, http.client.InvalidURL):
        # What is said of a header has its value.
        raise Hopeless(f"no request can be made for {shown(url)}: correct the URL or the Secret") from None
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(f"cannot reach {shown(url)}: {error}") from error
    return answer


def refusal(error: urllib.error.HTTPError, url: str) -> Exception:
    """Return what a status of HTTP means for the next attempt."""
    code, where = error.code, shown(url)
    if code in {408, 412, 416, 425, 429} or code >= 500:
        interrupted = Interrupted(f"{where} answers {code}")
        wait = error.headers.get("Retry-After", "")
        interrupted.after_s = float(wait) if wait.isdecimal() else 0.0
        if code == 416:
            interrupted = Damaged(f"{where} has no more than is there already")
        return interrupted
    if code in {401, 403}:
        return Unauthorized(f"{where} refuses access ({code}): correct the Secret", error.headers)
    if code in {404, 410}:
        return Hopeless(f"{where} does not exist ({code})")
    region = error.headers.get("x-amz-bucket-region")
    return Hopeless(
        f"{where} answers {code}" + (f": the bucket is in region {region[:63]!a}" if region else "")
    )


def patiently(action: Callable[[], Result]) -> Result:
    """Return the result of an action, after a few retries."""
    for delay_s in DELAYS_S:
        try:
            return action()
        except Interrupted as error:
            time.sleep(min(error.after_s or delay_s, LONGEST_DELAY_S))
    return action()


def described(answer: http.client.HTTPResponse) -> bytes:
    """Return an answer that is not a file; it is short."""
    body, began = b"", time.monotonic()
    try:
        while len(body) <= LARGEST_DESCRIPTION and (piece := answer.read1(LARGEST_DESCRIPTION)):
            body += piece
            if time.monotonic() - began > DESCRIBED_S:
                raise Interrupted(f"the description of the source took more than {DESCRIBED_S:.0f} s")
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(f"an answer broke off: {error}") from error
    if len(body) > LARGEST_DESCRIPTION:
        raise Hopeless("the description of the source has more than 8 MiB")
    if answer.length:
        raise Interrupted("an answer broke off")
    return body
