"""The documented identity of a cluster is enough for provider-kubernetes, through everything that it does.

Crossplane and the provider are the stand-in; the cluster's API server is real, and answers the provider's
requests under the identity of ``modelplane install --inference-cluster --crossplane``, with its policies.
"""

import asyncio
import copy
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from modelplane.api import labels
from modelplane.compose.workload_kinds import OF_STACKS, Place, rows
from modelplane.controllers import fleet_resources
from modelplane.install import cluster_requirements as documented
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube.client import Client
from support.crossplane.api import ApiError
from support.crossplane.cloud_providers import ProviderHelm
from support.crossplane.fleet import Fleet
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import (
    CACHE,
    DEPLOYMENT,
    TEAM,
    image,
    inference_cluster,
    model_cache,
    model_deployment,
    secret,
)
from support.crossplane.member import Connection, Installer, Member
from support.crossplane.objects import Object
from support.crossplane.provider_kubernetes import OBJECT
from support.crossplane.scenarios import prepared
from support.engine_shapes import shapes
from support.fleets import ControlPlane
from support.patience import PATIENCE_S
from support.service_accounts import kubeconfig
from support.third_party_crds import definitions

pytestmark = pytest.mark.kubernetes

CLUSTER, BY_KSERVE = "a", "by-kserve"
GANG, DIVIDED, KSERVE = (f"{TEAM}/{name}" for name in ("gang", "divided", "kserve"))
MANAGED = {"get", "dry run", "create", "update", "delete"}
# A stack of a cluster with an identity of the fleet has no storage of a cloud, and mutual TLS needs the
# controllers.
ELSEWHERE = {row.kind for row in OF_STACKS} - {"Gateway", "GatewayClass"}


@dataclass(frozen=True, slots=True)
class Site:
    """A fleet with a real cluster."""

    fleet: Fleet
    member: Member

    def until(self, holds: Callable[[], bool]) -> None:
        """Let both clocks go on until something holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{self.fleet.report()}\n{self.member.refused}"
            self.fleet.run_for(1)
            self.member.work()

    def until_ready(self, kind: str, *names: str) -> None:
        self.until(lambda: all(self.fleet.is_true(kind, name) for name in names))

    def managed(self) -> list[Object]:
        """Return the Objects that write."""
        found = self.fleet.api.of(OBJECT)
        return [item for item in found if item["spec"].get("managementPolicies", ["*"]) == ["*"]]


@pytest.fixture(scope="module")
def site(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A fleet with a cluster that only has what the page says, and no gateway."""
    asyncio.run(_identity(own_control_plane))
    path = kubeconfig(own_control_plane, INFERENCE_CLUSTER, tmp_path_factory.mktemp("member") / "kubeconfig")
    provider, administrator = Connection(path), Connection(own_control_plane.kubeconfig)
    fleet = prepared(by_its_own_clock())
    member = Member(CLUSTER, fleet.simulation.server(CLUSTER), provider, administrator)
    for name in (CLUSTER, BY_KSERVE):
        fleet.join(member, name)
    # It has no watches of a real server.
    fleet.provider.poll_s = fleet.provider.poll_unready_s = 3.0
    installer = Installer(administrator)
    helm = ProviderHelm(fleet.api, lambda _release: installer)
    fleet.simulation.add(fleet.api, helm)
    yield Site(fleet, member)
    provider.close()
    administrator.close()


async def _identity(plane: ControlPlane) -> None:
    async with Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known) as client:
        for manifest in documented.build_manifests(crossplane=True):
            await client.apply(manifest)
        for origin in ("gateway-api-inference-extension", "kserve"):
            for definition in definitions(origin):
                await client.apply(definition)


def _gang() -> Object:
    manifest = model_deployment(name=GANG)
    [only] = manifest["spec"]["engines"][0]["members"]
    manifest["spec"]["engines"][0]["members"] = [{**only, "role": role} for role in ("Leader", "Worker")]
    return manifest


def _of_kserve() -> Object:
    manifest = model_deployment(name=KSERVE, clusterSelector={"matchLabels": {"backend": "kserve"}})
    container = manifest["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]
    container["args"] = ["--model=Qwen/Qwen3-0.6B"]
    return manifest


def test_a_cluster_without_a_gateway_gets_a_stack_and_is_ready(site: Site) -> None:
    cluster = inference_cluster(CLUSTER, nodes=8, storage="shared")
    cluster["spec"]["cluster"]["existing"]["installerSecretRef"] = {"name": f"{CLUSTER}-kubeconfig"}
    site.fleet.apply(cluster)
    site.until_ready("InferenceCluster", CLUSTER)
    [stack] = site.fleet.named("ServingStack")
    site.until_ready("ServingStack", stack)
    found = site.fleet.get("InferenceCluster", CLUSTER)["status"]
    assert (found["gateway"]["address"], found["capabilities"]["leaderWorkerSet"]) == ("10.0.0.1", True)


def test_a_replica_a_gang_a_picker_kserve_and_a_cache_run(site: Site) -> None:
    fleet = site.fleet
    other = inference_cluster(BY_KSERVE)
    other["metadata"]["labels"] = {"backend": "kserve"}
    other["spec"]["servingStack"] = {"profile": "None", "backend": "KServe"}
    fleet.apply(other, secret("token", token="c2VjcmV0"))
    site.until_ready("InferenceCluster", BY_KSERVE)
    device = model_deployment()["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"][0]
    here = {"clusterSelector": {"matchLabels": {"backend": "modelplane"}}}
    first = fleet.get("InferenceCluster", CLUSTER)
    first["metadata"]["labels"] = {"backend": "modelplane"}
    fleet.api.update(first, "kubectl")
    divided = model_deployment(name=DIVIDED, **shapes(device)["NIXL"])
    whole, gang = model_deployment(), _gang()
    for each in (divided, whole, gang):
        each["spec"] |= here
    container = whole["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]
    fleet.apply(divided, whole, gang, _of_kserve(), model_cache(secret="token"))
    site.until_ready("ModelDeployment", DEPLOYMENT, GANG, DIVIDED, KSERVE)
    site.until_ready("ModelCache", CACHE)


def test_an_edit_of_each_object_is_applied(site: Site) -> None:
    for item in site.managed():
        # As what an earlier version wrote, which named no owner.
        manifest = copy.deepcopy(item["spec"]["forProvider"]["manifest"])
        manager = f"provider-kubernetes/{item['metadata']['name']}"
        if not (owner := manifest["metadata"]["labels"].pop(labels.OWNER_UID, "")):
            continue
        site.member.apply(manifest, manager)
        manifest["metadata"]["labels"][labels.OWNER_UID] = owner
        site.member.apply(manifest, manager)
    edited = site.fleet.get("ModelDeployment", DEPLOYMENT)
    image(edited, "vllm/vllm-openai:v0.24.0")
    site.fleet.api.update(edited, "kubectl")
    site.until(
        lambda: any(
            each["spec"]["template"]["spec"]["containers"][0]["image"].endswith("v0.24.0")
            for each in site.member.objects("Deployment")
        )
    )


def test_everything_is_deleted_again(site: Site) -> None:
    fleet = site.fleet
    for name in (DEPLOYMENT, GANG, DIVIDED, KSERVE):
        fleet.delete("ModelDeployment", name)
    fleet.delete("ModelCache", CACHE)
    site.until(lambda: not fleet.named("ModelReplica") and not fleet.named("ModelCache"))

    def deletes_clusters() -> bool:
        # A cluster in use refuses that, for a while after its last replica too.
        with suppress(ApiError):
            for name in fleet.named("InferenceCluster"):
                fleet.delete("InferenceCluster", name, "Foreground")
        return not fleet.named("InferenceCluster") and not fleet.named("ServingStack")

    fleet.provider.poll_s = 600.0
    site.until(deletes_clusters)
    site.until(lambda: not fleet.api.of(OBJECT))
    left = [
        f"{row.kind}/{item['metadata']['name']}"
        for row in rows(Place.CLUSTERS)
        for item in site.member.objects(row.kind)
        if labels.MANAGED_BY in item["metadata"].get("labels", {})
        and "deletionTimestamp" not in item["metadata"]
    ]
    assert left == []


def test_nothing_of_that_was_refused(site: Site) -> None:
    assert site.member.refused == []


def test_every_kind_and_every_request_was_made(site: Site) -> None:
    kinds = {row.kind for row in rows(Place.CLUSTERS)} - ELSEWHERE
    missing = {kind: MANAGED - site.member.requests[kind] for kind in kinds}
    # The Job of a cache that is staged may be gone before anything is edited.
    assert missing.pop("Job") <= {"update"}
    assert {kind: verbs for kind, verbs in missing.items() if verbs} == {}
    assert site.member.requests["CustomResourceDefinition"] == {"get", "dry run"}
    assert site.member.requests["Namespace"] == {"get", "dry run", "create"}
