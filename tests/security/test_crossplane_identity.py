"""The fleet's identity on a cluster under Crossplane: a dry run writes nothing, and opens no way to write.

provider-kubernetes applies whatever it looks at as a dry run, so the policies let dry runs pass. What the
identity may write is the same as for the controllers.
"""

import copy
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.compose.cluster.cluster_namespace import MADE, OURS
from modelplane.controllers import fleet_resources
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from support.fleets import ControlPlane
from support.patience import eventually
from support.rules import rules_in, table
from support.service_accounts import kubeconfig

pytestmark = pytest.mark.kubernetes

TEAM, OTHERS, PROBED = "ml-team", "monitoring", "probed"
RULES = Path(__file__).with_name("identity_rules_crossplane.txt")
NAMESPACES = {TEAM: "a labeled one", "modelplane-system": "the system's", OTHERS: "an unlabeled one"}
DEFINITION = "widgets.example.com"


def namespace(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def definition(name: str = DEFINITION, **names: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Widget", **names},
            "versions": [version],
        },
    }


def deployment(where: str, name: str = "probe", **pod: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "engine", "image": "engine:1"}], **pod},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": where, "labels": dict(OURS)},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }


@pytest.fixture
async def administrator(own_control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(
        str(own_control_plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        for manifest in (
            *cluster_requirements.build_manifests(crossplane=True),
            namespace(TEAM, labels=MADE),
            namespace(OTHERS),
            namespace(PROBED),
            definition(),
        ):
            await client.apply(manifest)
        yield client


@pytest.fixture
async def provider(
    own_control_plane: ControlPlane, administrator: Client, tmp_path: Path
) -> AsyncIterator[Client]:
    """A client with the identity, as the provider applies, once the policies act."""
    path = kubeconfig(own_control_plane, INFERENCE_CLUSTER, tmp_path / "kubeconfig")
    async with Client.from_kubeconfig(
        str(path), field_manager="provider-kubernetes/probe", known=fleet_resources.find_known
    ) as client:

        async def acts() -> bool:
            # One of each policy: an API server takes a moment to act by a new one. What is too early is
            # carried out, and the same again would be no change, so each time it is something new.
            new = f"probe-{time.monotonic_ns()}"
            probes = (
                deployment(OTHERS, name=new),
                deployment(TEAM, name=new, hostPID=True),
                namespace(f"kube-{new}"),
                namespace(PROBED, labels={"probe": new}),
                definition(singular=new),
            )
            return all([await refusal(client, each) for each in probes])

        await eventually(acts)
        assert not await refusal(administrator, namespace(OTHERS)), "they limit no other identity"
        yield client


async def refusal(client: Client, manifest: dict[str, Any], *, dry_run: bool = False) -> str:
    """Return why the provider's request is refused; empty if it is not."""
    try:
        await client.apply(manifest, force=True, dry_run=dry_run)
    except (errors.Forbidden, errors.Invalid) as error:
        return str(error)
    return ""


def _of_team(**changed: Any) -> dict[str, Any]:
    return namespace(TEAM, **{"labels": MADE, **changed})


WRITES: dict[str, tuple[dict[str, Any], str]] = {
    "a workload in another's namespace": (deployment(OTHERS), "the namespace is not Modelplane's"),
    "a pod of the node": (deployment(TEAM, hostPID=True), "do not share the network"),
    "the label of a namespace of others": (namespace(OTHERS, labels=OURS), "changes no namespace"),
    "the label of the system's namespace": (
        namespace("modelplane-system", labels=OURS),
        "changes no namespace",
    ),
    "the label of the cluster's own namespace": (namespace("kube-system", labels=OURS), "changes no"),
    "an annotation of a namespace of others": (
        namespace(OTHERS, annotations={"scheduler.alpha.kubernetes.io/node-selector": "a=b"}),
        "changes no namespace",
    ),
    "privileged pods in a namespace of a team": (
        _of_team(labels=MADE | {"pod-security.kubernetes.io/enforce": "privileged"}),
        "changes no namespace",
    ),
    "devices of administrators in a namespace of a team": (
        _of_team(labels=MADE | {"resource.kubernetes.io/admin-access": "true"}),
        "changes no namespace",
    ),
    "an annotation of a namespace of a team": (_of_team(annotations={"a": "b"}), "changes no namespace"),
    "a finalizer of a namespace of a team": (_of_team(finalizers=["a.example/b"]), "changes no namespace"),
    "an owner of a namespace of a team": (
        _of_team(ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "b"}]),
        "changes no namespace",
    ),
    "another definition of a kind": (definition(singular="gadget"), "changes no CustomResourceDefinition"),
    "a new kind": (definition("gadgets.example.com"), "cannot create resource"),
    "a reserved namespace": (namespace("kube-escape", labels=MADE), "reserved for system components"),
    "a namespace without the label": (namespace("escape"), "has the label modelplane.ai/managed-by"),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_is_refused(provider: Client, name: str) -> None:
    manifest, why = WRITES[name]
    assert why in await refusal(provider, manifest)


async def test_a_look_at_what_is_not_modelplanes_passes_and_writes_nothing(
    administrator: Client, provider: Client
) -> None:
    """Each look of the provider names the object and nothing else, or all that is wanted of it."""
    looked = [
        namespace("kube-system"),
        namespace(OTHERS, labels=MADE),
        {**definition(), "spec": {}},
        deployment(OTHERS),
    ]
    del looked[2]["spec"]
    await administrator.apply({**deployment(OTHERS), "metadata": {"name": "probe", "namespace": OTHERS}})

    async def stored() -> list[Any]:
        return [
            await administrator.get(resources.NAMESPACES, "kube-system"),
            await administrator.get(resources.NAMESPACES, OTHERS),
            await administrator.get(resources.CUSTOM_RESOURCE_DEFINITIONS, DEFINITION),
        ]

    before = copy.deepcopy(await stored())
    assert [await refusal(provider, each, dry_run=True) for each in looked] == [""] * len(looked)
    assert await stored() == before


async def test_two_objects_that_make_one_namespace_both_succeed(
    own_control_plane: ControlPlane, provider: Client, tmp_path: Path
) -> None:
    path = kubeconfig(own_control_plane, INFERENCE_CLUSTER, tmp_path / "another")
    made = namespace("made-twice", labels=MADE)
    async with Client.from_kubeconfig(
        str(path), field_manager="provider-kubernetes/other", known=fleet_resources.find_known
    ) as other:
        assert [await refusal(each, made) for each in (provider, other)] == ["", ""]


async def test_everything_that_the_identity_may_do_is_written_down(provider: Client) -> None:
    allowed = {f"{name} ({which})": await rules_in(provider, name) for name, which in NAMESPACES.items()}
    found = table(
        "What the fleet's identity may do on an inference cluster under Crossplane by RBAC, as its API "
        "server says (SelfSubjectRulesReview).\n# Admission policies refuse part of it: see WRITES in "
        "test_crossplane_identity.py, and ESCAPES in test_cluster_identity.py.",
        allowed,
    )
    if os.environ.get("MODELPLANE_UPDATE_GOLDEN"):
        RULES.write_text(found)
    assert RULES.read_text() == found


def test_every_kind_that_is_written_is_limited() -> None:
    documents = cluster_requirements.build_manifests(crossplane=True)
    limited = {
        (group, plural, operation)
        for policy in documents
        for rule in policy.get("spec", {}).get("matchConstraints", {}).get("resourceRules", ())
        for group in rule["apiGroups"]
        for plural in rule["resources"]
        for operation in rule["operations"]
    }
    operations = {"create": "CREATE", "patch": "UPDATE", "delete": "DELETE"}
    written = {
        (group, plural, operations[verb])
        for role in documents
        for rule in role.get("rules", ())
        # A rule that names its objects is a limit itself.
        if "resourceNames" not in rule
        for verb in operations.keys() & {*rule["verbs"]}
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert written <= limited
