"""Access of a fleet's identity to the copies in the namespaces of one cluster.

The API server itself is asked whether access is there. Without a binding it is for an administrator, for the
identity of an earlier version, and for one that Crossplane shares.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress

from modelplane.compose import copy_access
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import ROLE_BINDINGS, SELF_SUBJECT_ACCESS_REVIEWS, Resource

_REVIEW_S = 0.1
"""Delay between questions whether a binding is in force: an authorizer learns of it by a watch."""

_IN_FORCE_S = 5.0
"""Time for a binding to come into force."""


class CopyAccess:
    """The identity's access to copies, by namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.bound: set[str] = set()
        """Namespaces with a binding, as far as it was found or made."""
        self._known: set[str] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def has(self, resource: Resource, namespace: str) -> bool:
        """Return True if copies of a kind in a namespace may be read."""
        asked = {"verb": "list", "group": resource.group, "resource": resource.plural, "namespace": namespace}
        kind = SELF_SUBJECT_ACCESS_REVIEWS
        review = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {},
            "spec": {"resourceAttributes": asked},
        }
        answer = await self._client.create(review)
        return bool(answer.get("status", {}).get("allowed"))

    async def before_write(self, resource: Resource, namespace: str) -> None:
        """Make sure of the access before a write: once, until ``take``."""
        if namespace not in self._known:
            await self.take(resource, namespace)

    async def before_list(self, resource: Resource, namespace: str) -> bool:
        """Make sure of the access before a list; return False if the namespace is gone."""
        try:
            await self.take(resource, namespace)
        except errors.NotFound as error:
            if not error.is_of_namespace(namespace):
                raise
            return False
        return True

    async def take(self, resource: Resource, namespace: str) -> bool:
        """Make the binding unless access is there; return True if it was made.

        Raises ``Forbidden`` if access cannot be had, and ``NotFound`` if there is no such namespace.
        """
        async with self._turns[namespace]:
            self._known.discard(namespace)
            missing = not await self.has(resource, namespace)
            if missing:
                await self._bind(namespace)
                await self._until_in_force(resource, namespace)
            self._known.add(namespace)
            return missing

    async def give_back(self, namespace: str) -> None:
        """Remove the binding, if there is one, in a namespace without copies."""
        async with self._turns[namespace]:
            self._known.discard(namespace)
            if namespace in self.bound:
                await self._client.delete(ROLE_BINDINGS, copy_access.ROLE, namespace)
                self.bound.discard(namespace)

    async def _bind(self, namespace: str) -> None:
        try:
            await self._client.apply(copy_access.binding(namespace))
        except (errors.Invalid, errors.NotFound) as error:
            # Such as another binding of that name: one namespace's problem, and none of the whole cluster.
            if isinstance(error, errors.NotFound) and error.is_of_namespace(namespace):
                raise
            raise _forbidden(f"cannot be made ({error})", namespace) from error
        self.bound.add(namespace)

    async def _until_in_force(self, resource: Resource, namespace: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_IN_FORCE_S):
                while not await self.has(resource, namespace):
                    await asyncio.sleep(_REVIEW_S)
                return
        raise _forbidden(f"does not allow the identity to list {resource.plural}", namespace)


def _forbidden(problem: str, namespace: str) -> errors.Forbidden:
    return errors.Forbidden(
        403,
        "Forbidden",
        f'RoleBinding "{copy_access.ROLE}" in namespace "{namespace}" {problem}: delete it if it exists, '
        "and apply the output of `modelplane install --inference-cluster` to the cluster",
    )
