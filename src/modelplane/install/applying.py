"""Installation of this version on a cluster: check, then write, then wait until it runs.

Everything is applied, so a second run changes nothing, and the next run completes an interrupted one. No
definition and no model is ever deleted here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from modelplane import __version__
from modelplane.api.kinds import KINDS
from modelplane.api.listing import listing
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.readiness import condition_of, is_true
from modelplane.controllers.fleet_resources import resource_of, resource_of_kind
from modelplane.install import existing_installation
from modelplane.install.existing_installation import Check, Installation, get_identity, read_installation
from modelplane.install.installation_options import VERSION, Options
from modelplane.install.manifests import build_manifests
from modelplane.install.waiting import Deadline, Report
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import build_key
from modelplane.kube.resources import Object

_DEFINITION = "CustomResourceDefinition"
_CROSSPLANES = "crossplane"

_HARMLESS = ("ContainerCreating", "PodInitializing")

OUTCOMES = ("created", "changed", "unchanged")
_BOOKKEEPING = frozenset({"generation", "managedFields", "resourceVersion"})


@dataclass(frozen=True, slots=True)
class Installer:
    """One run against one API server."""

    client: Client
    report: Report
    deadline: Deadline
    dry_run: bool = False

    async def install(self, options: Options, *, upgrade: bool, check: Check) -> None:
        """Install, or with ``upgrade`` bring an installation to this version.

        Raises ``UserError`` before anything is changed, ``NotInTime`` or ``KubernetesError`` after.
        """
        existing = await read_installation(self.client)
        existing_installation.check_install(existing, upgrade=upgrade)
        existing_installation.check_stored_objects(check(await self._stored(existing)))
        manifests = build_manifests(options)
        kinds = [manifest for manifest in manifests if manifest["kind"] == _DEFINITION]
        await self._apply("CRDs", kinds)
        if not self.dry_run:
            await self.deadline.wait_until_nothing(partial(self._unserved, kinds))
        await self._apply("everything else", manifests[len(kinds) :])
        for item in find_left_behind(existing, manifests):
            metadata = item["metadata"]
            named = f"{item['kind']} {build_key(item)}, of version {metadata['labels'][VERSION]}"
            if not self.dry_run:
                await self.client.delete(
                    resource_of(item), metadata["name"], metadata.get("namespace"), uid=metadata["uid"]
                )
            self.report(f"removed {named}")
        if self.dry_run:
            return
        for manifest in manifests:
            if manifest["kind"] == "Deployment":
                await self.deadline.wait_until_nothing(partial(self._unavailable, manifest))
                self.report(f"{manifest['metadata']['name']} is available")

    async def _stored(self, existing: Installation) -> list[Object]:
        names = {definition["metadata"]["name"] for definition in existing.definitions}
        kinds = [resource_of_kind(kind.type) for kind in KINDS if kind.definition in names]
        return [
            _drop_foreign(item)
            for kind in kinds
            for item in (await self.deadline.wait_for_answer(partial(self.client.list, kind))).items
        ]

    async def _apply(self, what: str, manifests: Sequence[Object]) -> None:
        outcomes = [await apply(self.client, manifest, dry_run=self.dry_run) for manifest in manifests]
        counts = (f"{outcomes.count(outcome)} {outcome}" for outcome in OUTCOMES if outcome in outcomes)
        self.report(f"{what}: {', '.join(counts)}")

    async def _unserved(self, kinds: Sequence[Object]) -> str:
        names = [kind["metadata"]["name"] for kind in kinds]
        definitions = [await self.client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]
        waiting = [
            name
            for name, definition in zip(names, definitions, strict=True)
            if not is_true(definition or {}, "Established")
        ]
        return f"{listing(waiting)} are not available on the API server yet" if waiting else ""

    async def _unavailable(self, manifest: Object) -> str:
        name = manifest["metadata"]["name"]
        deployment = await self.client.get(resources.DEPLOYMENTS, name, SYSTEM_NAMESPACE)
        if deployment is None:
            return f'Deployment "{name}" has been deleted'
        chosen = manifest["spec"]["selector"]["matchLabels"]
        labels = ",".join(f"{key}={value}" for key, value in chosen.items())
        pods = (await self.client.list(resources.PODS, SYSTEM_NAMESPACE, labels=labels)).items
        problem = find_unavailability(deployment, pods)
        return f'Deployment "{name}": {problem}' if problem else ""


def find_left_behind(existing: Installation, manifests: Sequence[Object]) -> tuple[Object, ...]:
    """Return the objects of another version that this one lacks, except definitions and the namespace."""
    identities = {get_identity(manifest) for manifest in manifests}
    return tuple(
        item
        for item in existing.objects
        if get_identity(item) not in identities
        and item["kind"] not in (_DEFINITION, "Namespace")
        and item["metadata"]["labels"].get(VERSION, __version__) != __version__
    )


def _drop_foreign(item: Object) -> Object:
    """Return an object without Crossplane's own fields, which may be removed with it."""
    parts = {key: {**item[key]} for key in ("spec", "status") if isinstance(item.get(key), dict)}
    for part in parts.values():
        part.pop(_CROSSPLANES, None)
    return {**item, **parts}


def find_unavailability(deployment: Object, pods: Iterable[Object]) -> str | None:
    """Return why a Deployment is not available in its last written form; None if it is.

    One sentence, of the pod with the most specific cause: an image that cannot be pulled explains more than
    two missing replicas.
    """
    replicas = int(deployment["spec"].get("replicas", 1))
    status = deployment.get("status", {})
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    new, serving = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if seen and min(new, serving) >= replicas and status.get("replicas", 0) == new:
        return None
    counted = f"{min(new, serving) if seen else 0} of {replicas} replicas are available"
    return ": ".join((counted, *_cause(deployment, pods)))


def _cause(deployment: Object, pods: Iterable[Object]) -> tuple[str, ...]:
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        for cause in _of_pod(pod):
            return (f'pod "{pod["metadata"]["name"]}"', cause)
    refused = condition_of(deployment, "ReplicaFailure")
    return (str(refused["message"]),) if refused.get("status") == "True" else ()


def _of_pod(pod: Object) -> Iterator[str]:
    """Yield the reasons why a pod is not ready, the most specific first."""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield str(scheduled.get("message", "not scheduled"))
    containers = pod.get("status", {}).get("containerStatuses") or ()
    for container in containers:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, *_HARMLESS):
            yield _sentence(container, waiting)
    for container in containers:
        if ended := container.get("state", {}).get("terminated"):
            yield _sentence(container, {"reason": ended.get("reason", "ended"), **ended})
    if containers and not is_true(pod, "Ready"):
        for container in containers:
            if "running" in container.get("state", {}) and not container.get("ready"):
                yield f'container "{container["name"]}" is running but not ready: see the container\'s log'


def _sentence(container: Object, state: Object) -> str:
    parts = (f'container "{container["name"]}"', state["reason"], state.get("message", ""))
    return ": ".join(part for part in parts if part)


async def apply(client: Client, manifest: Object, *, force: bool = True, dry_run: bool = False) -> str:
    """Apply an object and return the outcome."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace")
    before = await client.get(resource_of(manifest), name, namespace)
    try:
        after = await client.apply(manifest, force=force, dry_run=dry_run)
    except errors.NotInstalled:
        raise
    except errors.NotFound:
        if dry_run and before is None:
            return "created"  # by then its namespace is there
        raise
    if before is None:
        return "created"
    return "unchanged" if _content(before) == _content(after) else "changed"


def _content(item: Object) -> Object:
    """Return an object as it can be applied: without server-side metadata and status."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _BOOKKEEPING}
    return {**item, "metadata": metadata, "status": None}
