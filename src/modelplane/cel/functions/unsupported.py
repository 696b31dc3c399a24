"""Functions that Kubernetes gives to selectors and Modelplane does not support.

Devices publish versions, quantities, booleans, numbers and short texts, so a selector has no use for URLs, IP
addresses or formats. Each function is refused by name, with its replacement.
"""

from collections.abc import Iterable, Iterator
from typing import Final

STRING_FORMAT: Final = "string.format"
"""The method of CEL's strings extension; `format` alone is a name of Kubernetes' format library."""


def _library(library: str, functions: Iterable[str], remedy: str) -> Iterator[tuple[str, str]]:
    for function in functions:
        yield function, f"{function} of {library} is not supported: {remedy}"


_COMPARE: Final = "compare texts with ==, startsWith or matches"
_REASONS: Final = dict(
    (
        *_library(
            "Kubernetes' URL library",
            ("url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery"),
            _COMPARE,
        ),
        *_library(
            "Kubernetes' IP address library",
            (
                *("ip", "isIP", "family", "isUnspecified", "isLoopback", "isGlobalUnicast"),
                *("isLinkLocalMulticast", "isLinkLocalUnicast"),
            ),
            _COMPARE,
        ),
        *_library(
            "Kubernetes' CIDR library",
            ("cidr", "isCIDR", "containsIP", "containsCIDR", "masked", "prefixLength"),
            _COMPARE,
        ),
        *_library("Kubernetes' format library", ("format", "validate"), "check the text with matches"),
        *_library("CEL's strings extension", (STRING_FORMAT,), "join texts with +"),
    )
)


def reason(function: str) -> str:
    """Return why a function is refused; empty if it is not one of these."""
    return _REASONS.get(function, "")
