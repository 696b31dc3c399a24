"""Removal of Modelplane from a cluster: models first, while the controllers can still clean up after them.

Each run continues from the objects that are left, so the next run completes an interrupted one. Users'
objects are deleted only on request, and objects of other owners never.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from modelplane.api.listing import listing
from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.model_key import ModelKey
from modelplane.compose.definition_owner import crossplane_owns
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import resource_of
from modelplane.controllers.leader import LEASE
from modelplane.gateway import tokens
from modelplane.install import existing_installation
from modelplane.install.crossplane_gateway import PUBLISHER
from modelplane.install.existing_installation import PARTS, Installation, list_metadata, read_installation
from modelplane.install.installation_options import CONTROLLER, INSTALLATION, PART_OF
from modelplane.install.waiting import Deadline, Report
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import name_object
from modelplane.kube.resources import Object, Resource
from modelplane.proxy.publication import SELECTOR
from modelplane.user_error import UserError

_MODELS = (
    fleet_resources.MODEL_SERVICES,
    fleet_resources.MODEL_DEPLOYMENTS,
    fleet_resources.MODEL_REPLICAS,
    fleet_resources.MODEL_CACHES,
)
"""Objects of ML teams, and their children."""

_FLEET = (
    fleet_resources.MODEL_ENDPOINTS,
    fleet_resources.resource_of_kind(ModelKey),
    fleet_resources.INFERENCE_AUTOSCALERS,
    fleet_resources.DEVICE_QUOTAS,
    fleet_resources.INFERENCE_GATEWAYS,
    fleet_resources.INFERENCE_CLUSTERS,
    fleet_resources.INFERENCE_CLASSES,
)
"""The other objects that people write; clusters come before the classes that they need."""

_LAST = frozenset({"CustomResourceDefinition", "Namespace"})

_WORTH_KEEPING = (
    resources.SECRETS,
    resources.CONFIG_MAPS,
    resources.SERVICES,
    resources.SERVICE_ACCOUNTS,
    resources.DEPLOYMENTS,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.PODS,
    resources.GATEWAYS,
)
_EVERYWHERE = frozenset({"default", "kube-root-ca.crt", "openshift-service-ca.crt"})
"""Objects that Kubernetes or OpenShift creates in each namespace."""


@dataclass(frozen=True, slots=True)
class Uninstaller:
    """One run against one API server."""

    client: Client
    report: Report
    deadline: Deadline

    async def uninstall(self, *, delete_models: bool) -> None:
        """Remove the installation, and with ``delete_models`` every model first.

        Raises ``UserError`` before anything is changed, ``NotInTime`` or ``KubernetesError`` after.
        """
        existing = await read_installation(self.client)
        native = [definition for definition in existing.definitions if not crossplane_owns(definition)]
        await self._check(existing, native, delete_models=delete_models)
        if delete_models:
            await self._delete_objects("models", _served(_MODELS, native))
            await self._delete_objects("fleet objects", _served(_FLEET, native))
        await self._delete_installation(existing)
        if len(native) < len(existing.definitions):
            self.report("Kept the CRDs and the namespace, because Crossplane uses them")
            return
        label = {PART_OF: INSTALLATION}.items()
        ours = [item for item in native if label <= item["metadata"].get("labels", {}).items()]
        if await self._delete_definitions(ours) and len(ours) == len(native):
            # Without a cluster, nobody requires the tokens of a replica.
            await self.client.delete(resources.SECRETS, tokens.SECRET, SYSTEM_NAMESPACE)
        # Delete the namespace, unless it holds objects of users, such as a cluster's kubeconfig.
        names = [item["metadata"]["name"] for item in existing.objects if item["kind"] == "Namespace"]
        for name in names:
            left = [
                item
                for resource in _WORTH_KEEPING
                for item in await list_metadata(self.client, resource, name)
                if item["metadata"]["name"] not in _EVERYWHERE and "deletionTimestamp" not in item["metadata"]
            ]
            if left:
                self.report(f"Kept namespace {name}, because of {listing(map(name_object, left))}")
                continue
            await self.client.delete(resources.NAMESPACES, name)
            await self.deadline.wait_until_nothing(partial(self._ending, name))
            self.report(f"Deleted namespace {name}")

    async def _check(self, existing: Installation, native: Sequence[Object], *, delete_models: bool) -> None:
        """Raise ``UserError`` if nothing may be removed."""
        if not existing.objects:
            raise UserError("Modelplane is not installed there")
        existing_installation.check_tool(existing)
        if delete_models and len(native) < len(existing.definitions):
            raise UserError("Crossplane owns the models: delete them first, then omit --delete-models")
        if delete_models:
            return
        if models := await self._objects(_served(_MODELS, native)):
            raise UserError(
                f"models exist: {listing(map(name_object, models))}: delete them first, or "
                "use --delete-models"
            )

    async def _objects(self, kinds: Iterable[Resource]) -> list[Object]:
        return [
            item
            for kind in kinds
            for item in (await self.deadline.wait_for_answer(partial(self.client.list, kind))).items
        ]

    async def _delete_objects(self, what: str, kinds: Sequence[Resource]) -> None:
        """Delete every object of some kinds and wait until the controllers have released them."""
        count = len(await self._objects(kinds))
        await self.deadline.wait_until_nothing(partial(self._undeleted, kinds))
        self._counted(what, count)

    async def _undeleted(self, kinds: Sequence[Resource]) -> str:
        """Delete the objects that exist, and return what their deletion waits for."""
        items = await self._objects(kinds)
        for item in items:
            await self._delete(item)
        causes = listing(
            f"{name_object(item)}, {condition_of(item, 'Ready').get('message') or 'which is being deleted'}"
            for item in items
        )
        return f"{causes}: deletion completes only while {CONTROLLER} is running" if items else ""

    def _counted(self, what: str, count: int) -> None:
        if count:
            self.report(f"{what}: {count} deleted")

    async def _delete(self, item: Object) -> None:
        metadata = item["metadata"]
        if "deletionTimestamp" in metadata:
            return
        with suppress(errors.Conflict):  # another object has taken the name, and the next look sees it
            await self.client.delete(
                resource_of(item), metadata["name"], metadata.get("namespace"), uid=metadata["uid"]
            )

    async def _delete_installation(self, existing: Installation) -> None:
        """Delete the workloads, and after their end the objects that they needed or created."""
        parts = [item for item in existing.objects if item["kind"] not in _LAST]
        workloads = [item for item in parts if item["kind"] == "Deployment"]
        for item in workloads:
            await self._delete(item)
        await self.deadline.wait_until_nothing(self._running)
        others = [item for item in parts if item not in workloads]
        others += await self._written_by_controllers()
        for item in others:
            await self._delete(item)
        self._counted("installation", len(workloads) + len(others))

    async def _written_by_controllers(self) -> list[Object]:
        """Return the Lease and the gateway's configuration, unless a publisher beside Crossplane has them."""
        if await self.client.get(resources.DEPLOYMENTS, PUBLISHER, SYSTEM_NAMESPACE):
            return []
        lease = await self.client.get(resources.LEASES, LEASE, SYSTEM_NAMESPACE)
        public = await self.client.list(resources.CONFIG_MAPS, SYSTEM_NAMESPACE, labels=SELECTOR)
        private = await self.client.list(resources.SECRETS, GATEWAY_NAMESPACE, labels=SELECTOR)
        return [*public.items, *private.items, *([lease] if lease else [])]

    async def _running(self) -> str:
        pods = await list_metadata(self.client, resources.PODS, SYSTEM_NAMESPACE, labels=PARTS)
        return f"{listing(map(name_object, pods))} has not stopped yet" if pods else ""

    async def _delete_definitions(self, ours: Sequence[Object]) -> bool:
        """Delete the CRDs, unless that would delete objects with them; return whether they are deleted."""
        left = await self._objects(_served(fleet_resources.OURS.values(), ours))
        if left:
            self.report(f"Kept the CRDs, because of {listing(map(name_object, left))}")
            return False
        for definition in ours:
            await self._delete(definition)
        await self.deadline.wait_until_nothing(partial(self._defined, ours))
        self._counted("CRDs", len(ours))
        return True

    async def _defined(self, definitions: Sequence[Object]) -> str:
        names = [definition["metadata"]["name"] for definition in definitions]
        answers = [await self.client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]
        remaining = [name for name, definition in zip(names, answers, strict=True) if definition is not None]
        return f"{listing(remaining)} still exists" if remaining else ""

    async def _ending(self, namespace: str) -> str:
        item = await self.client.get(resources.NAMESPACES, namespace)
        return f"namespace {namespace} still exists" if item else ""


def _served(kinds: Iterable[Resource], definitions: Iterable[Object]) -> tuple[Resource, ...]:
    """Return those of some kinds that an API server has."""
    names = {definition["metadata"]["name"] for definition in definitions}
    return tuple(kind for kind in kinds if f"{kind.plural}.{kind.group}" in names)
