"""Discovery: the kinds that an API server serves (the discovery API).

A 404 alone does not mean that a kind is missing: a proxy or load balancer in front of a server also answers
with one.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from modelplane.kube import errors
from modelplane.kube.resources import Object, Resource

Get = Callable[[str], Awaitable[Object]]
"""Return what the server answers at a path."""

Known = Callable[[str, str], Resource | None]
"""Return the resource of an ``apiVersion`` and a kind that need not be discovered."""


class Discovery:
    """The kinds of one API server: those known beforehand, and others as it names them."""

    def __init__(self, get: Get, known: Known) -> None:
        self._get = get
        self._known = known
        self._found: dict[tuple[str, str], Resource] = {}

    async def find_resource(self, manifest: Mapping[str, Any]) -> Resource:
        """Return the resource that serves a manifest; a found resource is cached.

        Raises ``NotInstalled`` if the server has no such kind, ``KubernetesError`` without a clear answer.
        """
        api_version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
        if resource := self._known(api_version, kind) or self._found.get((api_version, kind)):
            return resource
        for served in await self.list_served(api_version):
            self._found[api_version, served.kind] = served
        if (api_version, kind) not in self._found:
            raise errors.NotInstalled(kind, api_version)
        return self._found[api_version, kind]

    async def list_served(self, api_version: str) -> tuple[Resource, ...]:
        """Return the kinds of one group and version."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            answer = await self._get(path)
        except errors.NotFound as error:
            groups = await self._get("/apis")
            if groups.get("kind") != "APIGroupList" or _has_version(groups, api_version):
                raise errors.ApiError(404, "", f"cannot tell whether there is {path}") from error
            return ()
        return tuple(
            Resource(group, version, resource["kind"], resource["name"], resource["namespaced"])
            for resource in answer.get("resources") or ()
            if "/" not in resource["name"]  # a subresource, which may have the kind of another resource
        )


def _has_version(groups: Object, api_version: str) -> bool:
    return any(
        version["groupVersion"] == api_version
        for group in groups.get("groups") or ()
        for version in group["versions"]
    )
