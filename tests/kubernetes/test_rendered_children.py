"""What is composed, as a real API server takes it: strictly, with the CRDs of its owners.

Every child of the golden cases, and every child that the examples render, down to the pods of each replica.
"""

import asyncio
from typing import Any

import pytest

from examples.planned import applied, composed, desired
from examples.rows import ROWS
from modelplane.api.kinds import KINDS
from modelplane.api.meta import CERTIFICATE_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.schema.crd import crd
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.goldens import GOLDENS
from support.patience import PATIENCE_S
from support.third_party_crds import definitions

pytestmark = pytest.mark.kubernetes

NAMESPACE = "ml-team"
NAMESPACES = (NAMESPACE, "batch", "serving")
"""Of the teams in the cases and examples."""
OF_A_RELEASE = "dra-driver-nvidia-gpu"
ORIGINS = (
    "provider-helm",
    "envoy-gateway",
    "gateway-api",
    "gateway-api-inference-extension",
    "kserve",
    "lws",
    "provider-upjet-aws",
    "provider-upjet-azure",
    "provider-upjet-gcp",
    "provider-upjet-nebius",
    "provider-upjet-vultr",
)
GROUP = "leaderworkerset.sigs.k8s.io/group-key"


def _children(case: str) -> list[dict[str, Any]]:
    children = GOLDENS.output(case).get("children", ())
    return [child["manifest"] for child in children if "manifest" in child]


CASES = [case for case in GOLDENS.names() if _children(case)]


@pytest.fixture(scope="module")
def kubeconfig(control_plane):
    """The kubeconfig of a control plane that has the kinds of other projects."""
    crds = [crd(kind) for kind in KINDS] + [each for origin in ORIGINS for each in definitions(origin)]

    async def install():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.known, timeout_s=PATIENCE_S
        ) as client:
            for name in (*NAMESPACES, SYSTEM_NAMESPACE, CERTIFICATE_NAMESPACE, OF_A_RELEASE):
                await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            for each in crds:
                await client.apply(each)
            await wait_until_established(client, [each["metadata"]["name"] for each in crds])

    asyncio.run(install())
    return str(control_plane.kubeconfig)


@pytest.fixture
async def client(kubeconfig):
    async with Client.from_kubeconfig(
        kubeconfig, known=fleet_resources.known, timeout_s=PATIENCE_S
    ) as connected:
        yield connected


@pytest.mark.parametrize("case", CASES)
async def test_the_server_takes_every_child(client, case):
    await _taken(client, _children(case))


@pytest.mark.parametrize("row", [row for row in ROWS if row.planned], ids=lambda row: row.name)
async def test_the_server_takes_what_the_examples_render(client, row):
    state = applied(row.steps)
    everything = [*state.objects, *state.of_kind_now("ModelReplica")]
    rendered = [child for item in everything for child in desired(composed(item, state)).values()]
    await _taken(client, rendered)


async def _taken(client: Client, manifests: list[dict[str, Any]]) -> None:
    for manifest in manifests:
        stored = await client.apply(manifest, dry_run=True)
        assert stored["metadata"]["name"] == manifest["metadata"]["name"]


async def test_the_pods_of_one_gang_are_kept_apart_by_its_key(client):
    [gang] = [
        child for child in _children("model_replica/gang-with-cache") if child["kind"] == "LeaderWorkerSet"
    ]
    template = gang["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    labels = {**template["metadata"]["labels"], GROUP: "one"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker", "namespace": NAMESPACE, "labels": labels},
        "spec": template["spec"],
    }
    stored = await client.apply(pod, dry_run=True)
    affinity = stored["spec"]["affinity"]["podAntiAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {
        "matchLabels": template["metadata"]["labels"],
        "matchExpressions": [{"key": GROUP, "operator": "In", "values": ["one"]}],
    }
