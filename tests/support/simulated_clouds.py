"""Crossplane's providers of clouds, simulated: managed resources are made, fail at first, and go away.

As the providers do (Crossplane, "Managed resources"; upjet): a finalizer before anything is made, the
condition ``Synced`` with the cloud's error, ``Ready`` once a resource exists, ``status.atProvider`` with what
the cloud reports, a Secret with the connection details. A resource waits for those that it refers to, and is
not deleted while another one refers to it. The order is random, the waits are short.
"""

import asyncio
import base64
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from modelplane.compose.readiness import condition_of
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import of_row
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from support.patience import PATIENCE_S

FINALIZER = "finalizer.managedresource.crossplane.io"
SYSTEM = "modelplane-system"
_FAILS = 0.2
"""Share of the attempts that fail."""


@dataclass
class SimulatedClouds:
    """The providers, in a thread of their own while the context is entered."""

    kubeconfig: str
    """Path of the kubeconfig of the control plane that has the managed resources."""
    details: Callable[[Object], Mapping[str, str]]
    """Returns the connection details of a resource; empty until the cloud has them."""
    seed: int = 0
    turn_s: float = 0.5
    """Seconds between two looks at everything, each of which is a list of every kind."""
    failed: list[str] = field(default_factory=list)
    """The kinds whose creation failed once, in order."""
    deleted: list[str] = field(default_factory=list)
    """The kinds that were deleted, in order."""
    _stopped: Event = field(default_factory=Event)

    def __enter__(self) -> "SimulatedClouds":
        self._random = random.Random(self.seed)  # noqa: S311 - not for secrets
        self._thread = Thread(target=lambda: asyncio.run(self._run()), name="clouds", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE_S)

    async def _run(self) -> None:
        async with Client.from_kubeconfig(self.kubeconfig, known=fleet_resources.find_known) as client:
            while not self._stopped.is_set():
                found = [
                    (of_row(row), item)
                    for row in rows(Place.CONTROL_PLANE)
                    for item in await _listed(client, of_row(row))
                ]
                self._random.shuffle(found)
                others = [each for _, each in found]
                made = {each["metadata"]["name"] for each in others if condition_of(each, "Ready")}
                for resource, item in found:
                    try:
                        await self._look(client, resource, item, others, made)
                    except errors.ApiError:
                        continue  # changed meanwhile: at the next turn
                await asyncio.sleep(self.turn_s)

    async def _look(
        self, client: Client, resource: Resource, item: Object, others: list[Object], made: set[str]
    ) -> None:
        """Look at one resource; ``made`` has the names of those that are ready."""
        name = item["metadata"]["name"]
        if "deletionTimestamp" in item["metadata"]:
            if users := [each for each in others if uses(each, item)]:
                await self._report(
                    client, resource, item, error=f"DependencyViolation: {users[0]['kind']} uses it"
                )
            else:
                self.deleted.append(item["kind"])
                await client.patch(resource, name, {"metadata": {"finalizers": []}}, SYSTEM)
        elif FINALIZER not in item["metadata"].get("finalizers", ()):
            await client.patch(resource, name, {"metadata": {"finalizers": [FINALIZER]}}, SYSTEM)
        elif not condition_of(item, "Ready"):
            if unknown := references(item) - made:
                await self._report(
                    client, resource, item, error=f"cannot resolve references: {min(unknown)} is not found"
                )
            elif self._random.random() < _FAILS:
                self.failed.append(item["kind"])
                await self._report(client, resource, item, error="RequestLimitExceeded: rate exceeded")
            else:
                await self._connect(client, item)
                await self._report(client, resource, item)
                made.add(name)

    async def _report(self, client: Client, resource: Resource, item: Object, *, error: str = "") -> None:
        """Set the status, as after an attempt."""
        said = condition_of(item, "Synced")
        if error and said.get("message") == error:
            return
        synced = _condition("Synced", not error, "ReconcileError" if error else "ReconcileSuccess", error)
        conditions = [synced] if error else [synced, _condition("Ready", True, "Available", "")]
        status = {"conditions": conditions, **({} if error else {"atProvider": reported(item)})}
        await client.patch(
            resource, item["metadata"]["name"], {"status": status}, SYSTEM, subresource="status"
        )

    async def _connect(self, client: Client, item: Object) -> None:
        """Write the connection details of a resource, if it has any."""
        secret = item["spec"].get("writeConnectionSecretToRef", {}).get("name", "")
        details = self.details(item) if secret else {}
        if details:
            data = {key: base64.b64encode(value.encode()).decode() for key, value in details.items()}
            metadata = {"name": secret, "namespace": SYSTEM}
            await client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


async def _listed(client: Client, resource: Resource) -> list[Object]:
    try:
        return list((await client.list(resource, SYSTEM)).items)
    except errors.ApiError:
        return []  # its provider is not installed


def _condition(type_: str, holds: bool, reason: str, message: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": str(holds),
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def uses(user: Object, item: Object) -> bool:
    """Return True if a resource refers to another one."""
    # The group of a cluster on Azure has the name of the cluster.
    return any(
        name == item["metadata"]["name"]
        and field.startswith("resourceGroup") is (item["kind"] == "ResourceGroup")
        for field, name in _named(user["spec"].get("forProvider", {}))
    )


def references(item: Object) -> set[str]:
    """Return the names of the resources that a resource refers to, in fields like ``vpcIdRef``."""
    return {name for _, name in _named(item["spec"].get("forProvider", {}))}


def _named(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each field that refers to a resource, with the name of the resource."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key.endswith("SecretRef"):
                continue  # no resource of a cloud
            if key.endswith("Ref") and isinstance(inner, Mapping):
                yield key, inner["name"]
            elif key.endswith("Refs") and isinstance(inner, list):
                yield from ((key, each["name"]) for each in inner)
            else:
                yield from _named(inner)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)


def reported(item: Object) -> dict[str, Any]:
    """Return what the cloud reports of a resource that others are composed of."""
    name = item["metadata"]["name"]
    reported: dict[str, Any] = {"id": f"id-{name}"}
    if item["kind"] == "ServiceAccount":
        reported["member"] = f"serviceAccount:{name}@my-gcp-project.iam.gserviceaccount.com"
    if item["kind"] == "LaunchTemplate":
        reported["latestVersion"] = 1
    return reported
