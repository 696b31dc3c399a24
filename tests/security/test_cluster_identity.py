"""The fleet's identity on an inference cluster: its credential makes nobody an administrator there."""

import base64
import copy
import itertools
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import GATEWAY_NAME
from modelplane.compose import copy_access
from modelplane.compose.cluster.cluster_namespace import MADE
from modelplane.compose.serving_stack import cloud_components
from modelplane.compose.serving_stack.cluster_gateway import ANSWER, CONTROLLER
from modelplane.compose.serving_stack.traffic_policies import LIMITS, REQUESTS, policies
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.copy_namespaces import CopyAccess
from modelplane.install import cluster_admission as admission, cluster_requirements
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from support.fleets import ControlPlane
from support.patience import eventually
from support.rules import rules_in, table
from support.service_accounts import kubeconfig
from support.third_party_crds import definitions

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


def llm(**spec: Any) -> dict[str, Any]:
    """Return an LLMInferenceService whose controller would make pods of a spec."""
    return item(
        "serving.kserve.io/v1alpha2", "LLMInferenceService", spec={"model": {"uri": "hf://m"}, **spec}
    )


ON_THE_NODE = {"containers": [{"name": "main", "image": "engine:1"}], "hostNetwork": True}


def elsewhere(manifest: dict[str, Any], namespace: str = OTHERS) -> dict[str, Any]:
    moved = copy.deepcopy(manifest)
    moved["metadata"]["namespace"] = namespace
    return moved


def binding(**changed: Any) -> dict[str, Any]:
    """Return the binding that the identity makes for itself, changed."""
    return {**copy_access.binding(TEAM), **changed}


def of_the_node(field: str, value: Any) -> dict[str, Any]:
    return workload({"volumes": [{"name": "v", field: value}]})


NODE = "pods of Modelplane do not share the network, the processes or the IPC of their node"
VOLUMES = "volumes of Modelplane's pods are of the kinds configMap, emptyDir, persistentVolumeClaim"
PRIVILEGES = "containers of Modelplane have no privileges, capabilities or ports of their node"
UNPRIVILEGED = "disallowed by cluster policy"
"""This API server has no privileged pods at all, and says so before any policy is asked."""
TOKEN = "a Secret of Modelplane is not a token of an account or of a node"
RBAC = "rbac.authorization.k8s.io"
ADMIN = {"apiGroup": RBAC, "kind": "ClusterRole", "name": INFERENCE_CLUSTER}
BINDING = (
    "a RoleBinding of Modelplane is for a Role of its namespace, or gives the fleet's identity alone the "
    "role modelplane-inference-cluster-copies"
)
DEFAULT = {"kind": "ServiceAccount", "name": "default", "namespace": TEAM}
OWN_COPIES = binding()
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}
PASSWORD = "hunter-2-of-others"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()

ESCAPES: dict[str, tuple[dict[str, Any], str]] = {
    "a workload in another's namespace": (elsewhere(workload()), LABEL),
    "a Secret in another's namespace": (
        elsewhere(item("v1", "Secret")),
        'cannot patch resource "secrets" in API group "" in the namespace "monitoring"',
    ),
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
        # Two policies refuse it: for its type, and for its annotation.
        "denied request: ",
    ),
    "a token of a new node": (item("v1", "Secret", type="bootstrap.kubernetes.io/token"), TOKEN),
    "its own rights for a team": (
        item(f"{RBAC}/v1", "RoleBinding", roleRef=ADMIN, subjects=[DEFAULT]),
        BINDING,
    ),
    "its own rights once more": (
        item(f"{RBAC}/v1", "RoleBinding", roleRef=ADMIN, subjects=OWN_COPIES["subjects"]),
        BINDING,
    ),
    "an administrator's rights": (
        item(
            f"{RBAC}/v1",
            "RoleBinding",
            roleRef=ADMIN | {"name": "cluster-admin"},
            subjects=OWN_COPIES["subjects"],
        ),
        "attempting to grant RBAC permissions not currently held",
    ),
    "the copies for a team": (binding(subjects=[DEFAULT]), BINDING),
    "the copies for a team too": (binding(subjects=[*OWN_COPIES["subjects"], DEFAULT]), BINDING),
    "the copies for everyone": (
        binding(subjects=[{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}]),
        BINDING,
    ),
    "the copies by another name": (binding(metadata=OWN_COPIES["metadata"] | {"name": "escape"}), BINDING),
    "Secrets in another's namespace": (elsewhere(OWN_COPIES), LABEL),
    "Secrets in the system's namespace": (elsewhere(OWN_COPIES, "kube-system"), LABEL),
    "kubeconfigs": (elsewhere(OWN_COPIES, "modelplane-system"), LABEL),
    "Secrets in all namespaces": (
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": copy_access.ROLE, "labels": OURS},
            **{part: OWN_COPIES[part] for part in ("roleRef", "subjects")},
        },
        'cannot patch resource "clusterrolebindings"',
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
        str(own_control_plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        for manifest in cluster_requirements.build_manifests():
            await client.apply(manifest)
        for name, own in ((TEAM, OURS), (OTHERS, {})):
            await client.apply(NAMESPACE | {"metadata": {"name": name, "labels": own}})
        await client.apply(
            {**item("v1", "ConfigMap", "there"), "metadata": {"name": "there", "namespace": TEAM}}
        )
        foreign = {"stringData": {"password": PASSWORD}}
        for namespace in (OTHERS, TEAM):
            metadata = {"name": "foreign", "namespace": namespace}
            await client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **foreign})
            await client.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": foreign["stringData"]}
            )
        yield client


@pytest.fixture
async def stolen(
    own_control_plane: ControlPlane, administrator: Client, tmp_path: Path
) -> AsyncIterator[Client]:
    """A client with the identity's credential, once the policies act."""
    path = kubeconfig(own_control_plane, INFERENCE_CLUSTER, tmp_path / "kubeconfig")
    async with Client.from_kubeconfig(str(path), known=fleet_resources.find_known) as client:
        # One of each policy: an API server takes a moment to act by a new one.
        probes = [ESCAPES[name][0] for name in ("the node's files", "an account in the system's namespace")]

        async def acts() -> bool:
            # A namespace that is too early is made, so each time it is a new one.
            new = NAMESPACE | {"metadata": {"name": f"probe-{time.monotonic_ns()}"}}
            await administrator.delete(resources.ROLE_BINDINGS, copy_access.ROLE, TEAM)
            bound = await CopyAccess(client).has(resources.SECRETS, TEAM)
            return not bound and all([await refusal(client, probe) for probe in (*probes, new)])

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
    return ""


async def test_no_escape_of_the_fleets_identity_succeeds(stolen: Client) -> None:
    await CopyAccess(stolen).take(resources.SECRETS, TEAM)
    refused = {name: await refusal(stolen, manifest) for name, (manifest, _) in ESCAPES.items()}
    assert {name: why in refused[name] for name, (_, why) in ESCAPES.items()} == dict.fromkeys(
        ESCAPES, True
    ), refused


async def test_it_reads_no_secret_without_a_binding_and_others_not_even_with_it(stolen: Client) -> None:
    for bound in (False, True):
        if bound:
            await CopyAccess(stolen).take(resources.SECRETS, TEAM)
        for resource in (resources.SECRETS, resources.CONFIG_MAPS):
            for where in (None, OTHERS):
                with pytest.raises(errors.Forbidden):
                    await stolen.list(resource, where)
                with pytest.raises(errors.Forbidden):
                    await anext(stolen.watch(resource, "1", where))
            for where in (OTHERS, TEAM):
                with pytest.raises(errors.Forbidden):
                    await stolen.get(resource, "foreign", where)
    assert (await stolen.list(resources.SECRETS, TEAM)).items


PATCHES: dict[str, tuple[str, Any]] = {
    "nothing": ("merge", {}),
    "no operation": ("json", []),
    "an apply of nothing": ("apply", {}),
    "a label": ("merge", {"metadata": {"labels": OURS}}),
    "a value where it must not change": ("json", [{"op": "copy", "from": "/data/password", "path": "/type"}]),
    "a value where another type belongs": (
        "json",
        [{"op": "copy", "from": "/data/password", "path": "/metadata/labels"}],
    ),
    "a guess": ("json", [{"op": "test", "path": "/data/password", "value": ENCODED}]),
}


async def test_the_answer_to_a_patch_of_a_foreign_secret_tells_nothing(stolen: Client) -> None:
    """A patch is validated before admission policies are asked: only roles are asked earlier."""
    await CopyAccess(stolen).take(resources.SECRETS, TEAM)
    answers = {}
    for resource, dry_run in itertools.product((resources.SECRETS, resources.CONFIG_MAPS), (False, True)):
        for name, (kind, body) in PATCHES.items():
            response = await stolen._http.patch(
                resource.build_path(OTHERS, "foreign"),
                params={"fieldManager": "thief"} | ({"dryRun": "All"} if dry_run else {}),
                content=json.dumps(body),
                headers={"Content-Type": f"application/{kind}-patch+{'yaml' if kind == 'apply' else 'json'}"},
            )
            answers[resource.kind, name, dry_run] = (
                response.status_code,
                f'cannot patch resource "{resource.plural}"' in response.json()["message"],
                any(secret in response.text for secret in (PASSWORD, ENCODED)),
            )
    assert set(answers.values()) == {(403, True, False)}, answers


async def test_it_takes_and_gives_back_the_copies_of_a_labeled_namespace(stolen: Client) -> None:
    access = CopyAccess(stolen)
    assert not await access.has(resources.SECRETS, TEAM)
    assert await access.take(resources.SECRETS, TEAM)
    assert not await access.take(resources.CONFIG_MAPS, TEAM), "one binding for both"
    await stolen.apply(item("v1", "Secret", "copy"))
    await access.give_back(TEAM)

    async def given_back() -> bool:
        return not await access.has(resources.SECRETS, TEAM)

    await eventually(given_back)
    await stolen.delete(resources.SECRETS, "copy", TEAM)


async def test_it_changes_and_deletes_only_what_is_modelplanes(stolen: Client) -> None:
    why = "the object is not Modelplane's: it has no label modelplane.ai/managed-by=modelplane"
    with pytest.raises(errors.Forbidden, match=why):
        await stolen.delete(resources.CONFIG_MAPS, "there", TEAM)
    await CopyAccess(stolen).take(resources.CONFIG_MAPS, TEAM)
    with pytest.raises(errors.Forbidden, match=why):
        await stolen.patch(resources.CONFIG_MAPS, "there", {"metadata": {"labels": OURS}}, TEAM)


async def test_it_writes_what_replicas_need(stolen: Client) -> None:
    await CopyAccess(stolen).take(resources.SECRETS, TEAM)
    permitted = [
        workload({"volumes": [{"name": "v", "emptyDir": {}}], "serviceAccountName": "escape"}),
        workload(
            {"automountServiceAccountToken": False}, {"securityContext": {"capabilities": {"drop": ["ALL"]}}}
        ),
        item("v1", "Secret", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="}),
        item("v1", "ServiceAccount"),
        item("v1", "Service", spec={"ports": [{"port": 80}], "selector": {"modelplane.ai/serving": "a"}}),
        NAMESPACE | {"metadata": {"name": "made", "labels": MADE}},
    ]
    assert [await refusal(stolen, manifest) for manifest in permitted] == [""] * len(permitted)


GATEWAY_API = "gateway.networking.k8s.io/v1"


def gateway(name: str = "inference-gateway", **spec: Any) -> dict[str, Any]:
    listener = {"name": "http", "port": 80, "protocol": "HTTP"}
    settings = {"gatewayClassName": "envoy", "listeners": [listener], **spec}
    return item(GATEWAY_API, "Gateway", name, "modelplane-system", spec=settings)


def gateway_class(controller: str = CONTROLLER, **spec: Any) -> dict[str, Any]:
    return item(GATEWAY_API, "GatewayClass", "envoy", "", spec={"controllerName": controller, **spec})


SCALING = {"maxReplicas": 2, "wva": {"hpa": {}}}


async def test_it_has_kserve_run_engines_and_no_other_pods(administrator: Client, stolen: Client) -> None:
    for each in definitions("kserve"):
        await administrator.apply(each)
    engine = {"containers": ON_THE_NODE["containers"]}

    async def is_served() -> bool:
        try:
            return await refusal(stolen, llm(template=engine, worker=engine)) == ""
        except errors.ApiError:
            return False  # its kind is not served yet

    await eventually(is_served)
    for why, refused in (
        (NODE, llm(template=ON_THE_NODE)),
        (NODE, llm(template=engine, worker=ON_THE_NODE)),
        (NODE, llm(prefill={"template": engine, "worker": ON_THE_NODE})),
        (VOLUMES, llm(template={**engine, "volumes": [{"name": "v", "hostPath": {"path": "/"}}]})),
        ("spec of LLMInferenceService has a field", llm(router={"scheduler": {"template": engine}})),
        ("spec of LLMInferenceService has a field", llm(baseRefs=[{"name": "escape"}])),
        ("spec of LLMInferenceService has a field", llm(scaling=SCALING)),
        ("prefill of LLMInferenceService has a field", llm(prefill={"template": engine, "scaling": SCALING})),
    ):
        assert why in await refusal(stolen, refused)


async def test_it_writes_the_gateway_of_a_cluster_and_no_other_pods_by_it(
    administrator: Client, stolen: Client
) -> None:
    for each in definitions("gateway-api"):
        if each["spec"]["names"]["kind"] in ("Gateway", "GatewayClass"):
            await administrator.apply(each)
    reference = {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "escape"}

    async def is_served() -> bool:
        try:
            return [await refusal(stolen, each) for each in (gateway_class(), gateway())] == ["", ""]
        except errors.ApiError:
            return False  # its kinds are not served yet

    await eventually(is_served)
    refused = [
        gateway("another"),
        elsewhere(gateway(), TEAM),
        gateway(infrastructure={"parametersRef": reference}),
        gateway_class(parametersRef={**reference, "namespace": TEAM}),
        gateway_class("modelplane.ai/another"),
    ]
    assert ["of a serving stack is" in await refusal(stolen, each) for each in refused] == [True] * 5


def storage_class(name: str = "modelplane-rwx-efs", **fields: Any) -> dict[str, Any]:
    return item("storage.k8s.io/v1", "StorageClass", name, "", provisioner="efs.csi.aws.com") | fields


async def test_it_writes_the_storage_class_of_a_cloud_and_names_no_secret_by_it(stolen: Client) -> None:
    assert await refusal(stolen, storage_class(parameters={"fileSystemId": "fs-1"})) == ""
    default = storage_class()
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    refused = [
        storage_class("standard"),
        storage_class(provisioner="elsewhere.example.com"),
        storage_class(parameters={"csi.storage.k8s.io/provisioner-secret-name": "token"}),
    ]
    assert ["of a serving stack" in await refusal(stolen, each) for each in refused] == [True] * 3
    assert "denied request" in await refusal(stolen, default), "two policies refuse it"


def definition(group: str, version: str, kind: str, plural: str, scope: str) -> dict[str, Any]:
    """Return a definition that accepts any fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


def cards(name: str = cloud_components.NIC_POLICY_KEY, **changed: Any) -> dict[str, Any]:
    """Return the NicClusterPolicy of a stack, with a changed driver or with further parts."""
    parts = {
        part: {"image": image, "repository": cloud_components.NIC_REPOSITORY, "version": version}
        for part, (image, version) in cloud_components.NIC_IMAGES.items()
    }
    spec = {
        **parts,
        "tolerations": [],
        **{part: parts.get(part, {}) | each for part, each in changed.items()},
    }
    return item("mellanox.com/v1alpha1", "NicClusterPolicy", name, "", spec=spec)


def answer(name: str = ANSWER, **spec: Any) -> dict[str, Any]:
    """Return the route that the gateway answers by itself."""
    redirect = {"type": "RequestRedirect", "requestRedirect": {"statusCode": 302}}
    made = {"parentRefs": [{"name": GATEWAY_NAME}], "rules": [{"filters": [redirect]}], **spec}
    return item(f"{GATEWAY_API.partition('/')[0]}/v1", "HTTPRoute", name, "modelplane-system", spec=made)


def traffic(policy: str, name: str = "", namespace: str = "modelplane-system", **spec: Any) -> dict[str, Any]:
    """Return a policy of the gateway, with another name or namespace, or further settings."""
    made = next(
        each.manifest for each in policies(GATEWAY_NAME) if each.manifest["metadata"]["name"] == policy
    )
    metadata = {"name": name or policy, "namespace": namespace, "labels": OURS}
    return {**made, "metadata": metadata, "spec": {**made["spec"], **spec}}


async def test_it_writes_the_policies_of_a_stack_and_runs_no_images_by_them(
    administrator: Client, stolen: Client
) -> None:
    for each in (
        definition("mellanox.com", "v1alpha1", "NicClusterPolicy", "nicclusterpolicies", "Cluster"),
        definition(
            "gateway.envoyproxy.io",
            "v1alpha1",
            "BackendTrafficPolicy",
            "backendtrafficpolicies",
            "Namespaced",
        ),
        definition(
            "gateway.envoyproxy.io",
            "v1alpha1",
            "ClientTrafficPolicy",
            "clienttrafficpolicies",
            "Namespaced",
        ),
    ):
        await administrator.apply(each)

    for each in definitions("gateway-api"):
        if each["spec"]["names"]["kind"] == "HTTPRoute":
            await administrator.apply(each)

    async def is_served() -> bool:
        try:
            written = (cards(), traffic(LIMITS), traffic(REQUESTS), answer())
            return [await refusal(stolen, each) for each in written] == [""] * 4
        except errors.ApiError:
            return False  # its kinds are not served yet

    await eventually(is_served)
    refused = [
        cards("another"),
        cards(ofedDriver={"repository": "elsewhere.example.com"}),
        cards(ofedDriver={"image": "rootkit"}),
        cards(ofedDriver={"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}),
        cards(nicConfigurationOperator={"image": "rootkit"}),
        traffic(LIMITS, "another"),
        traffic(LIMITS, namespace=TEAM),
        traffic(LIMITS, faultInjection={"abort": {"httpStatus": 503}}),
        traffic(REQUESTS, "another"),
        traffic(REQUESTS, namespace=TEAM),
        traffic(REQUESTS, path={"escapedSlashesAction": "UnescapeAndForward"}),
        traffic(REQUESTS, headers={"earlyRequestHeaders": {"remove": ["x"]}}),
    ]
    said = [await refusal(stolen, each) for each in refused]
    assert all("of a serving stack" in each or "that Modelplane does not write" in each for each in said), (
        said
    )
    redirect = {"type": "RequestRedirect", "requestRedirect": {"statusCode": 302}}
    elsewhere_led = [
        answer("another"),
        answer(parentRefs=[{"name": "of-others"}]),
        answer(rules=[{"filters": [redirect]}, {"backendRefs": [{"name": "dashboard", "port": 80}]}]),
    ]
    assert [LABEL in await refusal(stolen, each) for each in elsewhere_led] == [True] * 3


def test_every_kind_that_is_written_is_limited() -> None:
    limited = {
        (group, plural)
        for policy in admission.build_policies()
        for rule in policy["spec"].get("matchConstraints", {}).get("resourceRules", ())
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    written = {
        (group, plural)
        for role in cluster_requirements.build_manifests()
        for rule in role.get("rules", ())
        # A rule that names its objects is a limit itself.
        if {"create", "patch", "delete"} & {*rule["verbs"]} and "resourceNames" not in rule
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert written <= limited


NAMESPACES = {
    TEAM: "a labeled one, with copies",
    "modelplane-system": "the system's",
    OTHERS: "an unlabeled one",
}


async def test_everything_that_the_identity_may_do_is_written_down(stolen: Client) -> None:
    await stolen.apply(copy_access.binding(TEAM))

    async def is_in_force() -> bool:
        return await CopyAccess(stolen).has(resources.SECRETS, TEAM)

    await eventually(is_in_force)
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
