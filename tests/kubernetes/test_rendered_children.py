"""What is composed, as a real API server takes it: strictly, with the CRDs of its owners.

Every child of the golden cases, and every child that the examples render, down to the pods of each replica.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from examples.planned import applied, composed, desired
from examples.rows import ROWS
from modelplane.api.kinds import KINDS
from modelplane.api.meta import CERTIFICATE_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.schema.crd import crd
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from support.goldens import GOLDENS
from support.kinds import apply_definitions
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
CHILDLESS = {"device_quota", "inference_autoscaler", "inference_class", "model_key"}
"""Kinds, as golden cases name them, for which nothing is composed."""


def _children(case: str) -> list[dict[str, Any]]:
    children = GOLDENS.output(case).get("children", ())
    return [child["manifest"] for child in children if "manifest" in child]


OWNERS = sorted({case.partition("/")[0] for case in GOLDENS.names()} - CHILDLESS)
"""The other kinds of owners of golden cases."""


@pytest.fixture(scope="module")
def kubeconfig(control_plane):
    """The kubeconfig of a control plane that has the kinds of other projects."""
    crds = [crd(kind) for kind in KINDS] + [each for origin in ORIGINS for each in definitions(origin)]

    async def install():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as client:
            namespaces = (*NAMESPACES, SYSTEM_NAMESPACE, CERTIFICATE_NAMESPACE, OF_A_RELEASE)
            await apply_definitions(client, crds, namespaces)

    asyncio.run(install())
    return str(control_plane.kubeconfig)


@pytest.fixture
async def client(kubeconfig):
    async with Client.from_kubeconfig(
        kubeconfig, known=fleet_resources.find_known, timeout_s=PATIENCE_S
    ) as connected:
        yield connected


@pytest.mark.parametrize("owner", OWNERS)
async def test_the_server_takes_every_child(client, owner):
    children = [(case, child) for case in GOLDENS.names(owner) for child in _children(case)]
    assert children, f"the golden cases of {owner} have no children: name it in CHILDLESS"
    await _taken(client, children)


def test_a_kind_without_children_has_none():
    assert [case for owner in sorted(CHILDLESS) for case in GOLDENS.names(owner) if _children(case)] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.planned], ids=lambda row: row.name)
async def test_the_server_takes_what_the_examples_render(client, row):
    state = applied(row.steps)
    everything = [*state.objects, *state.of_kind_now("ModelReplica")]
    rendered = [
        (item["kind"], child) for item in everything for child in desired(composed(item, state)).values()
    ]
    await _taken(client, rendered)


async def _taken(client: Client, manifests: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Apply each manifest without storing it, equal ones once; a refusal says of what it is."""
    seen = set()
    for origin, manifest in manifests:
        if (text := json.dumps(manifest, sort_keys=True)) in seen:
            continue
        seen.add(text)
        try:
            stored = await client.apply(manifest, dry_run=True)
        except Exception as error:
            error.add_note(f"{origin}: {manifest['kind']} {manifest['metadata']['name']}")
            raise
        assert stored["metadata"]["name"] == manifest["metadata"]["name"], origin


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
