"""Order of deployments in which each comes after the one that it stands by for."""

from collections.abc import Iterable

from modelplane.api.meta import Object


def sort_by_preference(deployments: Iterable[Object]) -> list[Object]:
    """Return deployments in their order, those without a standby's settings first, then by their distance."""
    given = list(deployments)
    preferred = {_key(deployment): _preferred(deployment) for deployment in given}
    return sorted(given, key=lambda deployment: _depth(_key(deployment), preferred))


_Key = tuple[str, str]


def _key(deployment: Object) -> _Key:
    return deployment["metadata"]["namespace"], deployment["metadata"]["name"]


def _preferred(deployment: Object) -> _Key | None:
    settings = deployment["spec"].get("standbyFor")
    return (deployment["metadata"]["namespace"], settings["name"]) if settings else None


def _depth(key: _Key, preferred: dict[_Key, _Key | None]) -> int:
    """Return how many of the deployments are before one; all of them for one in a cycle."""
    depth, above = 0, preferred.get(key)
    while above is not None and depth < len(preferred):
        depth, above = depth + 1, preferred.get(above)
    return depth
