"""A URL whose host means another machine to the gateway, or whose path is not used."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.offline.files.diagnostics import quote
from modelplane.offline.lint.advice import Advice


def check(endpoint: ModelEndpoint) -> Iterator[Advice]:
    """Warn of a host that means another machine to the gateway, and of a path that is not used."""
    url = re.match(_URL, endpoint.spec.url)
    if url is None:
        return
    path = ("spec", "url")
    host = url["host"].lower().rstrip(".")
    if host in _LOOPBACK or host.endswith(".localhost") or host.startswith("127."):
        message = f"{quote(host)} is the gateway's own host: use an address that the gateway can reach"
        yield Advice(path, message)
    given, rewrite = url["path"].rstrip("/"), endpoint.spec.rewrite_path or ""
    kept = len(rewrite) > 1 and f"{given}/".startswith(rewrite)
    if given and not kept:
        message = f"path {quote(url['path'])} in the URL is ignored: set spec.rewritePath instead"
        yield Advice(path, message)


_URL: Final = r"https?://(?P<host>\[[^\]]*\]|[^/?#:]+)(?::\d+)?(?P<path>[^?#]*)"
_LOOPBACK: Final = frozenset({"localhost", "[::1]", "0.0.0.0", "[::]"})  # noqa: S104  compared, not bound
