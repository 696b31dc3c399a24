"""A gateway of the Gateway API, by its specification: where the requests of a service end, and their shares.

It knows prefixes, headers, weights, rewrites and changed headers, for a rule and for one backend. What an
implementation is known to ignore is dropped here too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelplane.gateway.gateway_api.route_tree import Implementation

_MOST_PASSES = 8


@dataclass(frozen=True)
class Request:
    """A request at the gateway."""

    path: str
    host: str = "gateway.example.com"
    headers: Mapping[str, str] = field(default_factory=dict)


class Loop(Exception):
    """A request passes the gateway again and again."""


NOT_FOUND = "404"


class Gateway:
    """An implementation with the HTTPRoutes of one service."""

    def __init__(
        self, implementation: Implementation, routes: Iterable[Mapping[str, Any]], itself: str
    ) -> None:
        """``itself`` is the Service that leads back to the gateway."""
        self._implementation = implementation
        self._rules = [rule for route in routes for rule in route["spec"]["rules"]]
        self._itself = itself

    def shares(self, request: Request, passes: int = 1) -> dict[tuple[str, Request], float]:
        """Return the share of each backend and of the request that it gets."""
        if passes > _MOST_PASSES:
            raise Loop(request)
        rule, prefix = self._match(request)
        if rule is None:
            return {(NOT_FOUND, request): 1.0}
        found: dict[tuple[str, Request], float] = defaultdict(float)
        total = sum(each["weight"] for each in rule["backendRefs"])
        for each in rule["backendRefs"]:
            sent = _filtered(request, prefix, (*rule.get("filters", ()), *self._honored(each)))
            if each["name"] != self._itself:
                found[each["name"], sent] += each["weight"] / total
                continue
            for end, share in self.shares(sent, passes + 1).items():
                found[end] += share * each["weight"] / total
        return dict(found)

    def _match(self, request: Request) -> tuple[Mapping[str, Any] | None, str]:
        """Return the rule of a request, and its prefix: the longest, then the one with the most headers."""
        fitting = [
            (
                len(match["path"]["value"]),
                len(match.get("headers", ())),
                -number,
                rule,
                match["path"]["value"],
            )
            for number, rule in enumerate(self._rules)
            for match in rule["matches"]
            if request.path.startswith(match["path"]["value"])
            and all(request.headers.get(each["name"]) == each["value"] for each in match.get("headers", ()))
        ]
        if not fitting:
            return None, ""
        *_, rule, prefix = max(fitting, key=lambda each: each[:3])
        return rule, prefix

    def _honored(self, reference: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        for each in reference.get("filters", ()):
            honored = {
                "URLRewrite": self._implementation.rewrites_per_backend,
                "RequestHeaderModifier": self._implementation.sets_headers_per_backend,
            }
            if honored[each["type"]]:
                yield each


def _filtered(request: Request, prefix: str, filters: Iterable[Mapping[str, Any]]) -> Request:
    path, host, headers = request.path, request.host, dict(request.headers)
    for each in filters:
        rewrite = each.get("urlRewrite", {})
        host = rewrite.get("hostname", host)
        if "path" in rewrite:
            path = rewrite["path"]["replacePrefixMatch"].rstrip("/") + "/" + path.removeprefix(prefix)
        changes = each.get("requestHeaderModifier", {})
        headers |= {header["name"]: header["value"] for header in changes.get("set", ())}
        for name in changes.get("remove", ()):
            headers.pop(name, None)
    return _Sent(path, host, headers)


class _Sent(Request):
    """A request that can be counted."""

    def __hash__(self) -> int:
        return hash((self.path, self.host, tuple(sorted(self.headers.items()))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and (self.path, self.host, self.headers) == (
            other.path,
            other.host,
            other.headers,
        )
