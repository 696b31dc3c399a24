"""Functions of Kubernetes' CEL libraries that selectors cannot call here.

Devices publish versions, quantities, booleans, numbers and short texts, so a selector has no use for URLs,
IP addresses or formats. They are refused by name: Kubernetes would accept them.
"""

from typing import Final

_LIBRARIES: Final = {
    "URL": ("url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery"),
    "IP address": (
        *("ip", "isIP", "ip.isCanonical", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast"),
        *("isLinkLocalUnicast", "isGlobalUnicast"),
    ),
    "CIDR": ("cidr", "isCIDR", "containsIP", "containsCIDR", "masked", "prefixLength"),
    "format": ("format", "validate"),
}
_LIBRARY_OF: Final = {name: library for library, names in _LIBRARIES.items() for name in names}


def message(function: str) -> str:
    """Return why a function is refused; empty where it is not one of these."""
    library = _LIBRARY_OF.get(function) or ("format" if function.startswith("format.") else "")
    return (
        f"{function} is of Kubernetes' {library} library, which Modelplane does not support"
        if library
        else ""
    )
