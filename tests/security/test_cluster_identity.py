"""The fleet's identity on an inference cluster: its credential makes nobody an administrator there."""

import copy
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.controllers import fleet_resources
from modelplane.install import admission, inference_cluster
from modelplane.install.permissions import INFERENCE_CLUSTER
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from support.attacked import eventually
from support.fleets import ControlPlane
from support.rules import rules_in, table
from support.service_accounts import kubeconfig

pytestmark = pytest.mark.kubernetes

OURS = {"modelplane.ai/managed-by": "modelplane"}
TEAM = "ml-team"
OTHERS = "monitoring"
RULES = Path(__file__).with_name("identity_rules.txt")
LABEL = "the namespace is not Modelplane's: kubectl label namespace NAME modelplane.ai/managed-by=modelplane"


def item(
    api_version: str, kind: str, name: str = "escape", namespace: str = TEAM, **more: Any
) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **where, "labels": OURS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def workload(pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None) -> dict[str, Any]:
    engine = {"name": "engine", "image": "engine:1", **(container or {})}
    spec = {"containers": [engine], **(pod or {})}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": spec}
    return item(
        "apps/v1", "Deployment", spec={"selector": {"matchLabels": {"app": "a"}}, "template": template}
    )


def elsewhere(manifest: dict[str, Any]) -> dict[str, Any]:
    moved = copy.deepcopy(manifest)
    moved["metadata"]["namespace"] = OTHERS
    return moved


def of_the_node(field: str, value: Any) -> dict[str, Any]:
    return workload({"volumes": [{"name": "v", field: value}]})


NODE = "pods of Modelplane do not share the network, the processes or the IPC of their node"
VOLUMES = "volumes of Modelplane's pods are of the kinds configMap, emptyDir, persistentVolumeClaim"
PRIVILEGES = "containers of Modelplane have no privileges, capabilities or ports of their node"
UNPRIVILEGED = "disallowed by cluster policy"
"""This API server has no privileged pods at all, and says so before any policy is asked."""
TOKEN = "a Secret of Modelplane is no token of an account or of a node"
ADMIN = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": INFERENCE_CLUSTER}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}

ESCAPES = {
    "a workload in another's namespace": (elsewhere(workload()), LABEL),
    "a Secret in another's namespace": (elsewhere(item("v1", "Secret")), LABEL),
    "an account in the system's namespace": (
        item("v1", "ServiceAccount", namespace="kube-system"),
        LABEL,
    ),
    "the node's processes": (workload({"hostPID": True}), NODE),
    "the node's network": (workload({"hostNetwork": True}), NODE),
    "the node's IPC": (workload({"hostIPC": True}), NODE),
    "the node's files": (of_the_node("hostPath", {"path": "/"}), VOLUMES),
    "another's Secret as a volume": (of_the_node("secret", {"secretName": "prometheus"}), VOLUMES),
    "a token of the API server as a volume": (
        of_the_node("projected", {"sources": [{"serviceAccountToken": {"path": "token"}}]}),
        VOLUMES,
    ),
    "a privileged container": (workload(container={"securityContext": {"privileged": True}}), UNPRIVILEGED),
    "a privileged init container": (
        workload({"initContainers": [{"name": "i", "image": "i", "securityContext": {"privileged": True}}]}),
        UNPRIVILEGED,
    ),
    "a capability": (
        workload(container={"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
        PRIVILEGES,
    ),
    "a port of the node": (workload(container={"ports": [{"containerPort": 1, "hostPort": 1}]}), PRIVILEGES),
    "another's account": (
        workload({"serviceAccountName": "prometheus"}),
        "pods of Modelplane have the account of their own workload, or the default one",
    ),
    "a job of the node": (
        item(
            "batch/v1",
            "Job",
            spec={
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "hostPID": True,
                        "containers": [{"name": "c", "image": "c"}],
                    }
                }
            },
        ),
        NODE,
    ),
    "a token of another's account": (
        item("v1", "Secret", type="kubernetes.io/service-account-token")
        | {
            "metadata": {
                "name": "escape",
                "namespace": TEAM,
                "labels": OURS,
                "annotations": {"kubernetes.io/service-account.name": "default"},
            }
        },
        TOKEN,
    ),
    "a token of a new node": (item("v1", "Secret", type="bootstrap.kubernetes.io/token"), TOKEN),
    "its own rights for a team": (
        item(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            roleRef=ADMIN,
            subjects=[{"kind": "ServiceAccount", "name": "default", "namespace": TEAM}],
        ),
        "a RoleBinding of Modelplane is for a Role of its namespace",
    ),
    "an object without the label": (
        {**item("v1", "ConfigMap"), "metadata": {"name": "escape", "namespace": TEAM}},
        "an object of Modelplane keeps its label modelplane.ai/managed-by=modelplane",
    ),
    "a namespace without the label": (
        NAMESPACE | {"metadata": {"name": "escape"}},
        "a namespace that Modelplane makes has the label modelplane.ai/managed-by=modelplane",
    ),
    "a reserved namespace": (
        NAMESPACE | {"metadata": {"name": "kube-escape", "labels": OURS}},
        "the namespace is reserved for system components",
    ),
    "a namespace for privileged pods": (
        NAMESPACE
        | {
            "metadata": {
                "name": "escape",
                "labels": {**OURS, "pod-security.kubernetes.io/enforce": "privileged"},
            }
        },
        "a namespace that Modelplane makes does not permit privileged pods",
    ),
}


@pytest.fixture
async def administrator(own_control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(
        str(own_control_plane.kubeconfig), known=fleet_resources.known
    ) as client:
        for manifest in inference_cluster.manifests():
            await client.apply(manifest)
        for name, own in ((TEAM, OURS), (OTHERS, {})):
            await client.apply(NAMESPACE | {"metadata": {"name": name, "labels": own}})
        await client.apply(
            {**item("v1", "ConfigMap", "there"), "metadata": {"name": "there", "namespace": TEAM}}
        )
        yield client


@pytest.fixture
async def stolen(
    own_control_plane: ControlPlane, administrator: Client, tmp_path: Path
) -> AsyncIterator[Client]:
    """A client with the identity's credential, once the policies act."""
    path = kubeconfig(own_control_plane, INFERENCE_CLUSTER, tmp_path / "kubeconfig")
    async with Client.from_kubeconfig(str(path), known=fleet_resources.known) as client:
        # One of each policy: an API server takes a moment to act by a new one.
        probes = [
            ESCAPES[name][0]
            for name in ("the node's files", "a namespace without the label", "an object without the label")
        ]

        async def acts() -> bool:
            return all([await refusal(client, probe) for probe in probes])

        await eventually(acts)
        assert not await refusal(administrator, probes[0]), "the policies limit no other identity"
        yield client


async def refusal(client: Client, manifest: dict[str, Any]) -> str:
    """Return why a write is refused, in the way that the controllers write; empty if it is not."""
    try:
        if manifest["kind"] == "Namespace":
            await client.create(manifest)
        else:
            await client.apply(manifest, dry_run=True)
    except (errors.Forbidden, errors.Invalid) as error:
        return str(error)
    except errors.Conflict:
        return ""  # it was made before the policies acted
    return ""


async def test_no_escape_of_the_fleets_identity_succeeds(stolen: Client) -> None:
    refused = {name: await refusal(stolen, manifest) for name, (manifest, _) in ESCAPES.items()}
    assert {name: why in refused[name] for name, (_, why) in ESCAPES.items()} == dict.fromkeys(
        ESCAPES, True
    ), refused


async def test_it_changes_and_deletes_only_what_is_modelplanes(stolen: Client) -> None:
    why = "the object is not Modelplane's: it has no label modelplane.ai/managed-by=modelplane"
    with pytest.raises(errors.Forbidden, match=why):
        await stolen.delete(resources.CONFIG_MAPS, "there", TEAM)
    with pytest.raises(errors.Forbidden, match=why):
        await stolen.patch(resources.CONFIG_MAPS, "there", {"metadata": {"labels": OURS}}, TEAM)


async def test_it_writes_what_replicas_need(stolen: Client) -> None:
    permitted = [
        workload({"volumes": [{"name": "v", "emptyDir": {}}], "serviceAccountName": "escape"}),
        workload(
            {"automountServiceAccountToken": False}, {"securityContext": {"capabilities": {"drop": ["ALL"]}}}
        ),
        item("v1", "Secret", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="}),
        item("v1", "ServiceAccount"),
        item("v1", "Service", spec={"ports": [{"port": 80}]}),
        NAMESPACE | {"metadata": {"name": "made", "labels": OURS}},
    ]
    assert [await refusal(stolen, manifest) for manifest in permitted] == [""] * len(permitted)


def test_every_kind_that_is_written_is_limited() -> None:
    limited = {
        (group, plural)
        for policy in admission.policies()
        for rule in policy["spec"].get("matchConstraints", {}).get("resourceRules", ())
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    role = next(each for each in inference_cluster.manifests() if each["kind"] == "ClusterRole")
    written = {
        (group, plural)
        for rule in role["rules"]
        if {"create", "patch", "delete"} & {*rule["verbs"]}
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert written <= limited


NAMESPACES = {TEAM: "a labeled one", "modelplane-system": "the system's", OTHERS: "an unlabeled one"}


async def test_everything_that_the_identity_may_do_is_written_down(stolen: Client) -> None:
    allowed = {f"{name} ({which})": await rules_in(stolen, name) for name, which in NAMESPACES.items()}
    found = table(
        "What the fleet's identity may do on an inference cluster by RBAC, as its API server says "
        "(SelfSubjectRulesReview).\n# Admission policies refuse part of it: see ESCAPES in "
        "test_cluster_identity.py.",
        allowed,
    )
    if os.environ.get("MODELPLANE_UPDATE_GOLDEN"):
        RULES.write_text(found)
    assert RULES.read_text() == found
