"""What the function answers, as a real API server takes it: strictly, and twice without a change."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers import fleet_resources
from modelplane.crossplane.function.applied_fields import owned
from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest, to_object
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.local import setup
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.processes import CONTROL_PLANE
from support.goldens import GOLDENS
from support.kinds import apply_definitions
from support.patience import PATIENCE_S
from support.third_party_crds import definitions

pytestmark = pytest.mark.kubernetes

MANAGER = "apiextensions.crossplane.io/composed/0123456789abcdef"
CLOUDS = ("aws", "azure", "gcp", "nebius", "vultr")
ORIGINS = (
    "crossplane",
    "provider-kubernetes",
    "provider-helm",
    "gateway-api",
    *(f"provider-upjet-{each}" for each in CLOUDS),
)
NAMESPACES = ("ml-team", "modelplane-system")
CHILDLESS = {"device_quota", "inference_autoscaler", "inference_class", "model_key"}
"""Kinds, as golden cases name them, for which the function makes nothing."""
OWNERS = sorted({case.partition("/")[0] for case in GOLDENS.names()} - CHILDLESS)
"""The other kinds of owners of golden cases."""


def _definitions() -> list[Object]:
    """Return every kind that is answered with; ours with what Crossplane adds to them."""
    ours = []
    for kind in KINDS:
        definition = crd(kind)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        for part in ("spec", "status"):
            schema[part]["properties"]["crossplane"] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
        ours.append(definition)
    wanted = (
        "gateway.networking.k8s.io",
        "helm.m.crossplane.io",
        "kubernetes.m.crossplane.io",
        "protection.crossplane.io",
    )
    managed = {row.definition for row in rows(Place.CONTROL_PLANE)}
    others = [each for origin in ORIGINS for each in definitions(origin)]
    return ours + [
        each for each in others if each["spec"]["group"] in wanted or each["metadata"]["name"] in managed
    ]


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """Let the client write kinds that the controllers never write."""
    kinds = [
        Resource("kubernetes.m.crossplane.io", "v1alpha1", "Object", "objects"),
        Resource(
            "kubernetes.m.crossplane.io", "v1alpha1", "ClusterProviderConfig", "clusterproviderconfigs", False
        ),
        Resource("helm.m.crossplane.io", "v1beta1", "Release", "releases"),
        Resource("kubernetes.m.crossplane.io", "v1alpha1", "ProviderConfig", "providerconfigs"),
        Resource("helm.m.crossplane.io", "v1beta1", "ProviderConfig", "providerconfigs"),
        Resource("protection.crossplane.io", "v1beta1", "ClusterUsage", "clusterusages", False),
        Resource("protection.crossplane.io", "v1beta1", "Usage", "usages"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for kind in kinds:
            patch.setitem(resources._BY_KIND, (kind.api_version, kind.kind), kind)
        yield


@pytest.fixture(scope="module")
def kubeconfig(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The kubeconfig of a control plane that has the kinds as under Crossplane."""
    home = Home(tmp_path_factory.mktemp("crossplane"))
    setup.make_home(home)
    setup.set_up(home)
    lifecycle.start(home, kubernetes_binary, CONTROL_PLANE)

    async def install() -> None:
        await lifecycle.wait_until_running(home, CONTROL_PLANE, PATIENCE_S, lambda _record: None)
        async with Client.from_kubeconfig(str(home.kubeconfig), known=fleet_resources.find_known) as client:
            await apply_definitions(client, _definitions(), NAMESPACES)

    try:
        asyncio.run(install())
        yield str(home.kubeconfig)
    finally:
        lifecycle.stop(home)


@pytest.fixture
async def crossplane(kubeconfig: str) -> AsyncIterator[Client]:
    """A client that applies as Crossplane does."""
    async with Client.from_kubeconfig(
        kubeconfig, field_manager=MANAGER, known=fleet_resources.find_known
    ) as connected:
        yield connected


@pytest.fixture
async def somebody(kubeconfig: str) -> AsyncIterator[Client]:
    """A client that has a say in the same objects."""
    async with Client.from_kubeconfig(
        kubeconfig, field_manager="somebody", known=fleet_resources.find_known
    ) as connected:
        yield connected


def _answer(case: str) -> dict[str, Object]:
    """Return the children that the function answers a golden case with, as if nothing had been made yet."""
    given = GOLDENS.input(case)
    owner = given["owner"]
    request = fnv1.RunFunctionRequest()
    request.observed.composite.resource.update(owner)
    local = {key: child for key, child in (given.get("observed") or {}).items() if _is_ours(child)}
    for key, child in local.items():
        request.observed.resources[key].resource.update(child)
    for _ in range(2):
        required = given.get("required") or {}
        answered = Runner().run(RunFunctionRequest.FromString(request.SerializeToString()))
        for key in answered.requirements.resources:
            request.required_resources[key].SetInParent()
            found = required.get(key, ())
            for item in found if isinstance(found, list) else ():
                if len(request.required_resources[key].items) < len(found):
                    request.required_resources[key].items.add().resource.update(item)
    return {
        key: to_object(child.resource)
        for key, child in answered.desired.resources.items()
        if key not in local
    }


def _is_ours(child: Object) -> bool:
    return str(child.get("apiVersion", "")).startswith("modelplane.ai/")


def _rendered(key: str, manifest: Object) -> Object:
    """Return a child with what Crossplane adds to its metadata."""
    manifest = copy.deepcopy(manifest)
    metadata = manifest.setdefault("metadata", {})
    metadata.setdefault("name", f"child-{key.lower()}")
    if manifest["kind"] not in ("ClusterProviderConfig", "ClusterUsage", "InferenceCluster"):
        metadata.setdefault("namespace", "ml-team")
    metadata.setdefault("labels", {})["crossplane.io/composite"] = "owner"
    metadata.setdefault("annotations", {})["crossplane.io/composition-resource-name"] = key
    return manifest


def _version(item: Object) -> object:
    """Return what only a change of an object changes; the controllers of workloads write more of theirs."""
    metadata = item["metadata"]
    if item["kind"] in ("Deployment", "PodDisruptionBudget"):
        return item["spec"], metadata["generation"], metadata["labels"]
    return metadata["resourceVersion"]


def _children(owner: str) -> Iterator[tuple[str, str, Object]]:
    """Return the children of the golden cases of a kind, and for each its case and key; equal ones once."""
    seen = set()
    for case in GOLDENS.names(owner):
        for key, manifest in _answer(case).items():
            child = _rendered(key, manifest)
            if (text := json.dumps(child, sort_keys=True)) not in seen:
                seen.add(text)
                yield case, key, child


@pytest.mark.parametrize("owner", OWNERS)
async def test_the_server_takes_every_child_and_keeping_it_changes_nothing(
    crossplane: Client, somebody: Client, owner: str
) -> None:
    children = list(_children(owner))
    assert children, f"the golden cases of {owner} have no children: name it in CHILDLESS"
    for case, key, child in children:
        about = f"{case}: {key}"
        applied = await _taken(crossplane, child, about)
        mark = {field: applied[field] for field in ("apiVersion", "kind")}
        named = applied["metadata"]
        mark["metadata"] = {field: named[field] for field in ("name", "namespace") if field in named}
        mark["metadata"]["labels"] = {"example.org/owner": "somebody"}
        seen = await _taken(somebody, mark, about)
        kept = owned(seen)
        assert not {"uid", "resourceVersion", "managedFields"} & kept["metadata"].keys(), about
        assert "status" not in kept, about
        assert "example.org/owner" not in kept["metadata"].get("labels", {}), about
        again = await _taken(crossplane, _rendered(key, dict(kept)), about)
        assert _version(again) == _version(seen), about


async def _taken(client: Client, manifest: Object, about: str) -> Object:
    """Apply an object; a refusal says of which child."""
    try:
        return await client.apply(manifest)
    except Exception as error:
        error.add_note(about)
        raise


def test_a_kind_without_children_has_none() -> None:
    assert [owner for owner in sorted(CHILDLESS) for _ in _children(owner)] == []
