"""A control plane as a registered cluster, and the fleet's identity on it with its limits in force."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.copy_namespaces import CopyAccess
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.fleets import ControlPlane
from support.patience import eventually
from support.service_accounts import kubeconfig
from support.third_party_crds import definitions

OURS = {"modelplane.ai/managed-by": "modelplane"}
ORIGINS = ("envoy-gateway", "gateway-api", "gateway-api-inference-extension", "kserve", "lws")
"""The projects whose kinds are written to clusters."""


async def prepare(administrator: Client, namespaces: Mapping[str, Mapping[str, str]]) -> None:
    """Install the kinds, the namespaces with their labels, and the identity with its limits."""
    crds = [crd(kind) for kind in KINDS] + [each for origin in ORIGINS for each in definitions(origin)]
    for each in crds:
        await administrator.apply(each)
    await wait_until_established(administrator, [each["metadata"]["name"] for each in crds])
    for name, labels in namespaces.items():
        metadata = {"name": name, "labels": dict(labels)}
        await administrator.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for manifest in cluster_requirements.build_manifests():
        await administrator.apply(manifest)


@asynccontextmanager
async def limited(plane: ControlPlane, folder: Path, namespaces: Iterable[str]) -> AsyncIterator[Client]:
    """Yield a client with the identity's credential, once every policy acts."""
    path = kubeconfig(plane, INFERENCE_CLUSTER, folder / "kubeconfig")
    async with Client.from_kubeconfig(str(path), known=fleet_resources.find_known) as client:
        access = CopyAccess(client)
        for name in namespaces:
            await access.take(resources.SECRETS, name)

        async def acts() -> bool:
            return all([await refusal(client, probe) for probe in _probes(next(iter(namespaces)))])

        await eventually(acts)
        yield client


async def refusal(client: Client, manifest: Mapping[str, Any], *, dry_run: bool = True) -> str:
    """Return why the API server refuses a write; empty if it does not."""
    try:
        if manifest["kind"] == "Namespace":
            await client.create(dict(manifest))
        else:
            await client.apply(dict(manifest), dry_run=dry_run)
    except (errors.Forbidden, errors.Invalid) as error:
        return str(error)
    return ""


def _probes(namespace: str) -> Iterable[dict[str, Any]]:
    """Return one refused object for each policy: an API server takes a moment to act by a new one."""
    metadata = {"name": "probe", "namespace": namespace, "labels": OURS}
    owned = {"apiVersion": "v1", "metadata": metadata}
    pod = {"containers": [{"name": "engine", "image": "x"}], "hostNetwork": True}
    template = {"metadata": {"labels": {"app": "probe"}}, "spec": pod}
    labelled = {**metadata, "labels": {**OURS, "kuma.io/mesh": "x"}}
    everywhere = {"name": "probe", "labels": OURS}
    gateways, storage = "gateway.networking.k8s.io/v1", "storage.k8s.io/v1"
    return (
        {**owned, "kind": "ServiceAccount", "metadata": {**metadata, "labels": {}}},
        {**owned, "kind": "ServiceAccount", "metadata": labelled},
        {
            **owned,
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"selector": {"matchLabels": {"app": "probe"}}, "template": template},
        },
        # One that is too early is made, so each time it is a new one.
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"probe-{time.monotonic_ns()}"}},
        {
            "apiVersion": gateways,
            "kind": "GatewayClass",
            "metadata": everywhere,
            "spec": {"controllerName": "a.b/c"},
        },
        {"apiVersion": storage, "kind": "StorageClass", "metadata": everywhere, "provisioner": "x.y"},
    )
