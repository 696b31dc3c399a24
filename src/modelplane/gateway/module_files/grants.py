"""Grants: what the platform lets the API keys of a namespace use."""

from collections.abc import Callable, Iterable

from modelplane.api.fields.requests.key_limits import RateLimitType
from modelplane.api.inference_gateway import EVERY_NAMESPACE, KeyGrant
from modelplane.api.names import check_reserved


def grant_of(grants: Iterable[KeyGrant], namespace: str) -> KeyGrant | None:
    """Return the grant of a namespace: its own, or that of every namespace; a reserved one has none."""
    return grant_finder(grants)(namespace)


def grant_finder(grants: Iterable[KeyGrant]) -> Callable[[str], KeyGrant | None]:
    """Return ``grant_of`` for many namespaces of the same grants."""
    by_namespace = {grant.namespace: grant for grant in grants}

    def find(namespace: str) -> KeyGrant | None:
        if check_reserved(namespace):
            return None
        return by_namespace.get(namespace) or by_namespace.get(EVERY_NAMESPACE)

    return find


def list_services(patterns: tuple[str, ...], namespace: str) -> tuple[str, ...]:
    """Return the services of a key or a grant: those that it names, else those of its namespace."""
    return tuple(sorted(patterns)) or (f"{namespace}/*",)


def must_count_by_service(grant: KeyGrant) -> bool:
    """Return True if the rate limit service counts the limits of all keys of a grant."""
    return grant.rate_limit_types == (RateLimitType.GLOBAL,)


def is_counted_by_service(grant: KeyGrant, asked: bool) -> bool:
    """Return True if the rate limit service counts the limits of a key; ``asked`` is what the key says."""
    allowed = grant.rate_limit_types
    return must_count_by_service(grant) or (asked and (not allowed or RateLimitType.GLOBAL in allowed))


def list_not_granted(asked: Iterable[str], granted: Iterable[str]) -> list[str]:
    """Return the patterns of a key of which a grant has nothing."""
    known = frozenset(granted)
    named = {pattern.partition("/")[0] for pattern in known}
    return [
        pattern
        for pattern in asked
        if pattern not in known
        and f"{pattern.partition('/')[0]}/*" not in known
        # NAMESPACE/* has those of the namespace's services that the grant names.
        and not (pattern.endswith("/*") and pattern.partition("/")[0] in named)
    ]
