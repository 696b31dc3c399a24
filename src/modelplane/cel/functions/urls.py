"""Kubernetes' URL library: `url("https://host:80/path?a=b")` and its parts.

One rule: a text is a URL when Go's `net/url` can parse it as that of a request. Python's `urllib` forgives
more and splits at other places, so the few rules of RFC 3986 that Go holds are written here.

Sources: k8s.io/apiserver v0.35 `pkg/cel/library/urls.go`; Go's documentation of `net/url` (ParseRequestURI,
Parse, EscapedPath, Query).
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from modelplane.cel import values
from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import Overload, overload, takes

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_HOST_ESCAPE: Final = re.compile(r"%(?!25|[89A-Fa-f][0-9A-Fa-f])", re.ASCII)
_BAD_HOST: Final = re.compile(r"[\x00-\x20#/?@\\^`{|}\x7f]")
_BAD_ZONE: Final = re.compile(r"[\x00-\x20\[\]#/?@\\^`{|}\x7f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_PATH: Final = re.compile(r"[A-Za-z0-9\-._~$&+,/:;=@!'()*\[\]%]*", re.ASCII)
_PATH_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~$&+,/:;=@")


@dataclass(frozen=True, slots=True)
class Url(values.Opaque):
    """A parsed URL."""

    scheme: str
    host: str
    path: str
    query: str
    text: str
    kind = "kubernetes.URL"

    @property
    def weight(self) -> int:  # type: ignore[override]  # of one URL, not of the class
        """Steps: Python takes one for two characters."""
        return len(self.text) // 2

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host, _ = self._host_and_port()
        return host.removeprefix("[").removesuffix("]") if host.startswith("[") else host

    @property
    def port(self) -> str:
        """The port, or nothing."""
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        return (host, port) if colon and _PORT.fullmatch(f":{port}") and "]" not in port else (self.host, "")


def _problem(text: str, why: str) -> EvaluationError:
    return EvaluationError(f'"{text[:80]}" is not a URL: {why}')


def _parsed(text: str) -> Url:
    """Return a URL. Kubernetes checks it as that of a request, and then reads it as one of a document."""
    _read(text, text, of_request=True)
    whole, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise _problem(text, "an escape is malformed")
    return _read(whole, text, of_request=False)


def _read(part: str, text: str, *, of_request: bool) -> Url:
    if not text:
        raise _problem(text, "it is empty")
    if _CONTROL.search(part):
        raise _problem(text, "it has a control character")
    if part == "*":
        return Url("", "", "*", "", text)
    found = _SCHEME.match(part)
    if found is None and part.startswith(":"):
        raise _problem(text, "it has no scheme")
    scheme, rest = (found[1].lower(), part[found.end() :]) if found else ("", part)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise _problem(text, "it is neither absolute nor has a scheme")
        return Url(scheme, "", "", query, text)
    host, path = "", rest
    if rest.startswith("//") and (scheme or not (of_request or rest.startswith("///"))):
        authority, slash, tail = rest[2:].partition("/")
        host, path = _host(authority, text), slash + tail
    if _BAD_ESCAPE.search(path):
        raise _problem(text, "an escape is malformed")
    return Url(scheme, host, path, query, text)


def _host(authority: str, text: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        raise _problem(text, "its user is malformed")
    if host.startswith("["):
        return _bracketed(host, text)
    if "[" in host:
        raise _problem(text, "its host has a bracket")
    _, colon, port = host.rpartition(":")
    if not _PORT.fullmatch(colon + port if colon else ""):
        raise _problem(text, "its port is not a number")
    if _BAD_HOST.search(host) or _HOST_ESCAPE.search(host):
        raise _problem(text, "its host is malformed")
    return _unescaped(host)


def _bracketed(host: str, text: str) -> str:
    inside, bracket, port = host[1:].rpartition("]")
    address, zoned, zone = inside.partition("%25")
    if not bracket:
        raise _problem(text, "a bracket is missing in its host")
    if not _PORT.fullmatch(port):
        raise _problem(text, "its port is not a number")
    try:
        ipaddress.IPv6Address(address)
    except ValueError as error:
        raise _problem(text, "what its host has in brackets is not an IPv6 address") from error
    if "%" in address or (zoned and (not zone or _BAD_ESCAPE.search(zone) or _BAD_ZONE.search(zone))):
        raise _problem(text, "the zone of its host is malformed")
    return f"[{address}{'%' if zoned else ''}{_unescaped(zone)}]{port}"


def _unescaped(text: str, *, plus: bool = False) -> str:
    data = (text.replace("+", " ") if plus else text).encode()
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), data).decode(errors="replace")


def _escaped_path(url: Url) -> str:
    if _PATH.fullmatch(url.path):
        return url.path
    decoded = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), url.path.encode())
    return "".join(chr(byte) if byte in _PATH_BYTES else f"%{byte:02X}" for byte in decoded)


def _query(url: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        name, _, value = pair.partition("=")
        found.setdefault(_unescaped(name, plus=True), []).append(_unescaped(value, plus=True))
    return found


is_url: Final = takes(lambda text: _read(text, text, of_request=True))
_URL: Final = Url.kind
_PARTS: Final = {
    "getScheme": ("url_get_scheme", lambda url: url.scheme),
    "getHost": ("url_get_host", lambda url: url.host),
    "getHostname": ("url_get_hostname", lambda url: url.hostname),
    "getPort": ("url_get_port", lambda url: url.port),
    "getEscapedPath": ("url_get_escaped_path", _escaped_path),
}

OVERLOADS: Final[tuple[Overload, ...]] = (
    overload("url", ("string",), _parsed, _URL, "string_to_url"),
    overload("isURL", ("string",), is_url, "bool", "is_url_string"),
    *(
        overload(name, (_URL,), read, "string", identity, member=True, kinds={_URL: Url})
        for name, (identity, read) in _PARTS.items()
    ),
    overload(
        "getQuery",
        (_URL,),
        _query,
        "map<string,list<string>>",
        "url_get_query",
        member=True,
        kinds={_URL: Url},
    ),
)
