"""Fields and values that the fleet's identity may not write, and the list of a cluster's administrator."""

import asyncio
import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import CERTIFICATE_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.controllers import fleet_resources
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from support.cluster_identity import OURS, limited, prepare, refusal
from support.fleets import ControlPlane
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

TEAM = "ml-team"
GRANTED = "granted"
ENFORCE = "pod-security.kubernetes.io/enforce"
ENGINE = {"name": "engine", "image": "engine:1"}
POD = {"containers": [ENGINE]}


def item(api_version: str, kind: str, *, namespace: str = TEAM, name: str = "escape", **more: Any) -> Any:
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **where, "labels": OURS, **more.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def deployment(pod: Any = None, metadata: Any = None, **more: Any) -> Any:
    template = {"metadata": {"labels": {"app": "a"}, **(metadata or {})}, "spec": {**POD, **(pod or {})}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template, **more}
    return item("apps/v1", "Deployment", spec=spec)


def job(pod: Any = None, metadata: Any = None, **more: Any) -> Any:
    spec = {**POD, "restartPolicy": "Never", **(pod or {})}
    return item("batch/v1", "Job", spec={"template": {"metadata": metadata or {}, "spec": spec}, **more})


def gang(pod: Any = None, metadata: Any = None, **more: Any) -> Any:
    plain = {"metadata": {}, "spec": POD}
    theirs = {"metadata": metadata or {}, "spec": {**POD, **(pod or {})}}
    template = {"size": 2, "leaderTemplate": plain, "workerTemplate": theirs, **more}
    return item("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec={"leaderWorkerTemplate": template})


def llm(pod: Any = None, metadata: Any = None, **more: Any) -> Any:
    spec = {"model": {"uri": "hf://m"}, "worker": {**POD, **(pod or {})}, "template": POD, **(metadata or {})}
    return item("serving.kserve.io/v1alpha2", "LLMInferenceService", spec={**spec, **more})


WORKLOADS = {"Deployment": deployment, "Job": job, "LeaderWorkerSet": gang, "LLMInferenceService": llm}


def container(**fields: Any) -> Any:
    return {"containers": [{**ENGINE, **fields}]}


def volume(**fields: Any) -> Any:
    return {"volumes": [{"name": "v", **fields}]}


PODS: dict[str, Any] = {
    "system priority": {"priorityClassName": "system-node-critical"},
    "a priority": {"priority": 2000000000},
    "a preemption policy": {"preemptionPolicy": "Never"},
    "a node by its name": {"nodeName": "node-1"},
    "a node by a label": {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}},
    "a node by its fields": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                    ]
                }
            }
        }
    },
    "every taint": {"tolerations": [{"operator": "Exists"}]},
    "another's account": {"serviceAccountName": "prometheus"},
    "another's account by the former field": {"serviceAccount": "prometheus"},
    "a runtime class": {"runtimeClassName": "kata"},
    "another's claim": {"resourceClaims": [{"name": "devices", "resourceClaimName": "others"}]},
    "an unconfined seccomp profile": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    "a seccomp profile of the node": {
        "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"}}
    },
    "an unconfined AppArmor profile": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
    "an SELinux type": {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
    "a sysctl": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}},
    "a supplementary group": {"securityContext": {"supplementalGroups": [0]}},
    "the user root": {"securityContext": {"runAsUser": 0}},
    "shared processes": {"shareProcessNamespace": True},
    "aliases of hosts": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["hub"]}]},
    "another resolver": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]}},
    "a resolver of the node": {"dnsPolicy": "Default"},
    "a readiness gate": {"readinessGates": [{"conditionType": "x.example.com/y"}]},
    "files of the node": volume(hostPath={"path": "/"}),
    "an image as a volume": volume(image={"reference": "x"}),
    "a claim of its own": volume(
        ephemeral={
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }
        }
    ),
    "a disk by a driver": volume(csi={"driver": "secrets-store.csi.k8s.io"}),
    "a device as a resource": container(resources={"limits": {"nvidia.com/gpu": "1"}}),
    "a device of the host": container(volumeDevices=[{"name": "v", "devicePath": "/dev/sda"}]),
    "propagated mounts": {
        **volume(emptyDir={}),
        **container(volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": "HostToContainer"}]),
    },
    "a part of a volume": {
        **volume(emptyDir={}),
        **container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "$(X)"}]),
    },
    "all variables of a Secret": container(envFrom=[{"secretRef": {"name": "x"}}]),
    "a probe of another host": container(livenessProbe={"tcpSocket": {"host": "192.0.2.1", "port": 1}}),
    "headers of a probe": container(
        livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "Host", "value": "x"}]}}
    ),
    "a hook to another host": container(
        lifecycle={"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}}
    ),
    "a port of the node": container(ports=[{"containerPort": 1, "hostPort": 1}]),
    "an address of the node": container(ports=[{"containerPort": 1, "hostIP": "192.0.2.1"}]),
    "a capability": container(securityContext={"capabilities": {"add": ["NET_RAW"]}}),
    "more privileges": container(securityContext={"allowPrivilegeEscalation": True}),
    "an unconfined container": container(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "an AppArmor profile of a container": container(
        securityContext={"appArmorProfile": {"type": "Unconfined"}}
    ),
    "an SELinux level": container(securityContext={"seLinuxOptions": {"level": "s0"}}),
    "another group": container(securityContext={"runAsGroup": 0}),
    "a terminal": container(stdin=True, tty=True),
    "an init container": {
        "initContainers": [{**ENGINE, "name": "i", "securityContext": {"capabilities": {"add": ["NET_RAW"]}}}]
    },
}
"""Specs of pods. Each is tried in every kind of workload."""

METADATA: dict[str, Any] = {
    "a device": {"annotations": {"devices.nri.io/container.engine": "- path: /dev/mem"}},
    "a share of a GPU": {"labels": {"app": "a", "gpu-fraction": "0.5"}},
    "a role of a cloud": {"annotations": {"k8s.aliyun.com/eci-ram-role-name": "admin"}},
    "a mesh": {"annotations": {"kuma.io/sidecar-injection": "true"}},
    "a network": {"annotations": {"cni.cilium.io/mac-address": "x"}},
    "a profile": {"annotations": {"container.apparmor.security.beta.kubernetes.io/engine": "unconfined"}},
    "a label of Modelplane's that composition does not write": {
        "labels": {"app": "a", "modelplane.ai/managed-by": "modelplane"}
    },
}
"""Metadata of pods. Each is tried in every kind of workload."""


def service(**spec: Any) -> Any:
    selector = {"modelplane.ai/serving": "x"}
    return item("v1", "Service", spec={"selector": selector, "ports": [{"port": 80}], **spec})


def claims(request: Any, **devices: Any) -> Any:
    spec = {"devices": {"requests": [{"name": "gpu", **request}], **devices}}
    return item("resource.k8s.io/v1", "ResourceClaimTemplate", spec={"spec": spec})


def granted(request: Any) -> Any:
    """Return claims in a namespace whose administrator permits admin access to devices."""
    return with_metadata(claims(request), namespace=GRANTED)


def exactly(**fields: Any) -> Any:
    return {"exactly": {"deviceClassName": "gpu.nvidia.com", **fields}}


def route(rule: Any = None, match: Any = None, backend: Any = None, **spec: Any) -> Any:
    path = {"type": "PathPrefix", "value": f"/{TEAM}/escape/"}
    whole = {
        "matches": [{"path": path, **(match or {})}],
        "backendRefs": [{"name": "escape", "port": 80, **(backend or {})}],
        **(rule or {}),
    }
    parents = [{"name": "inference-gateway", "namespace": SYSTEM_NAMESPACE}]
    return item(
        "gateway.networking.k8s.io/v1", "HTTPRoute", spec={"parentRefs": parents, "rules": [whole], **spec}
    )


def namespace(labels: Any, **metadata: Any) -> Any:
    own = {"name": "made", "labels": {**OURS, ENFORCE: "baseline", **labels}, **metadata}
    own["labels"] = {key: value for key, value in own["labels"].items() if value is not None}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": own}


def claim(**spec: Any) -> Any:
    whole = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return item("v1", "PersistentVolumeClaim", spec=whole)


def budget(**spec: Any) -> Any:
    selector = {"matchLabels": {"modelplane.ai/workload": "x"}}
    return item("policy/v1", "PodDisruptionBudget", spec={"selector": selector, "maxUnavailable": 1, **spec})


def with_metadata(manifest: Any, **metadata: Any) -> Any:
    changed = copy.deepcopy(manifest)
    changed["metadata"] |= metadata
    return changed


RBAC = "rbac.authorization.k8s.io"
GATEWAYS = "gateway.networking.k8s.io"
LISTENER = {"name": "http", "port": 80, "protocol": "HTTP"}
ACCOUNT = item("v1", "ServiceAccount")

PERMITTED: dict[str, Any] = {
    **{f"a {kind}": make() for kind, make in WORKLOADS.items()},
    "a Service": service(),
    "claims": claims(exactly(count=1)),
    "a route": route(),
    "a namespace": namespace({}),
    "a volume": claim(),
    "a budget": budget(),
    "an account": ACCOUNT,
}
"""What the attacks below start from."""

OTHERS: dict[str, Any] = {
    "a namespace without pod security": namespace({ENFORCE: None}),
    "a namespace for privileged pods": namespace({ENFORCE: "privileged"}),
    "a namespace with another version of it": namespace({f"{ENFORCE}-version": "v1.0"}),
    "a namespace with admin access to devices": namespace({"resource.kubernetes.io/admin-access": "true"}),
    "a namespace of a mesh": namespace({"istio-injection": "enabled"}),
    "a namespace of a project": namespace({"field.cattle.io/projectId": "local"}),
    "a namespace with a node selector": namespace(
        {}, annotations={"scheduler.alpha.kubernetes.io/node-selector": "a=b"}
    ),
    "all devices with admin access": granted(exactly(allocationMode="All", adminAccess=True)),
    "a device with admin access": granted(exactly(count=1, adminAccess=True)),
    "all devices": claims(exactly(allocationMode="All")),
    "devices by alternatives": claims(
        {"firstAvailable": [{"name": "a", "deviceClassName": "gpu.nvidia.com"}]}
    ),
    "a configuration of a driver": claims(
        exactly(count=1), config=[{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"a": "b"}}}]
    ),
    "a Service with external addresses": service(externalIPs=["192.0.2.1"]),
    "a load balancer": service(type="LoadBalancer"),
    "ports of nodes": service(type="NodePort"),
    "a name elsewhere": item("v1", "Service", spec={"type": "ExternalName", "externalName": "x.example.org"}),
    "a Service of other pods": service(selector={"app": "database"}),
    "a Service of any endpoints": item("v1", "Service", spec={"ports": [{"port": 80}]}),
    "a Service with a name of a zone": with_metadata(
        service(), annotations={"external-dns.alpha.kubernetes.io/hostname": "www.example.org"}
    ),
    "a global Service": with_metadata(service(), annotations={"service.cilium.io/global": "true"}),
    "an account with a role of AWS": with_metadata(
        ACCOUNT, annotations={"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin"}
    ),
    "an account of Google": with_metadata(
        ACCOUNT, annotations={"iam.gke.io/gcp-service-account": "a@b.iam.gserviceaccount.com"}
    ),
    "an account of Azure": with_metadata(ACCOUNT, annotations={"azure.workload.identity/client-id": "x"}),
    "an account with Secrets": {**ACCOUNT, "secrets": [{"name": "foreign"}]},
    "a route of another path": route(match={"path": {"type": "PathPrefix", "value": "/team-b/bobs/"}}),
    "a route of every path": route(match={"path": {"type": "PathPrefix", "value": "/"}}),
    "a route by a pattern": route(
        match={"path": {"type": "RegularExpression", "value": f"/{TEAM}/escape/.*"}}
    ),
    "a route of a host": route(hostnames=["www.example.org"]),
    "a route of another gateway": route(parentRefs=[{"name": "public", "namespace": SYSTEM_NAMESPACE}]),
    "a route of a gateway of its namespace": route(parentRefs=[{"name": "inference-gateway"}]),
    "a mirror of requests": route(
        {
            "filters": [
                {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "thief", "port": 80}}}
            ]
        }
    ),
    "a backend in another namespace": route(backend={"namespace": "kube-system"}),
    "a backend with a filter": route(
        backend={"filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x"]}}]}
    ),
    "a volume of others": claim(volumeName="pv-1"),
    "a copy of a volume": claim(dataSource={"kind": "PersistentVolumeClaim", "name": "others"}),
    "a volume that is a device": claim(volumeMode="Block"),
    "a budget of all pods": budget(selector={}),
    "a budget of other pods": budget(selector={"matchLabels": {"app": "database"}}),
    "a budget without evictions": budget(maxUnavailable=0),
    "a Secret for another tool": item("v1", "Secret", type="helm.sh/release.v1"),
    "a ConfigMap for another tool": with_metadata(
        item("v1", "ConfigMap"), labels={**OURS, "grafana_dashboard": "1"}
    ),
    "an owner": with_metadata(
        item("v1", "ConfigMap"),
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}],
    ),
    "a finalizer": with_metadata(item("v1", "ConfigMap"), finalizers=["example.com/never"]),
    "a role that reads more": item(
        f"{RBAC}/v1", "Role", rules=[{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]
    ),
    "a quota": item("v1", "ResourceQuota", spec={"hard": {"pods": "0"}}),
    "a Job of many pods": job(parallelism=1000, completions=1000),
    "an address of a gateway": item(
        f"{GATEWAYS}/v1",
        "Gateway",
        namespace=SYSTEM_NAMESPACE,
        name="inference-gateway",
        spec={"gatewayClassName": "envoy", "listeners": [LISTENER], "addresses": [{"value": "192.0.2.1"}]},
    ),
    "a certificate of others": item(
        f"{GATEWAYS}/v1",
        "Gateway",
        namespace=SYSTEM_NAMESPACE,
        name="inference-gateway",
        spec={
            "gatewayClassName": "envoy",
            "listeners": [
                {
                    **LISTENER,
                    "protocol": "HTTPS",
                    "tls": {"certificateRefs": [{"name": "others", "namespace": "kube-system"}]},
                }
            ],
        },
    ),
    "a grant of other Secrets": item(
        f"{GATEWAYS}/v1beta1",
        "ReferenceGrant",
        namespace=CERTIFICATE_NAMESPACE,
        spec={
            "from": [{"group": GATEWAYS, "kind": "Gateway", "namespace": TEAM}],
            "to": [{"group": "", "kind": "Secret"}],
        },
    ),
    "a bare pod": item("v1", "Pod", spec=POD),
    "a StatefulSet": item("apps/v1", "StatefulSet", spec=deployment()["spec"] | {"serviceName": "x"}),
    "a DaemonSet": item("apps/v1", "DaemonSet", spec=deployment()["spec"]),
    "a claim": item("resource.k8s.io/v1", "ResourceClaim", spec={"devices": {"requests": []}}),
    "the list of the administrator": {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "x", "namespace": SYSTEM_NAMESPACE, "labels": OURS},
    },
}


@pytest.fixture(scope="module")
def registered(own_control_plane: ControlPlane) -> ControlPlane:
    async def install() -> None:
        async with Client.from_kubeconfig(
            str(own_control_plane.kubeconfig), known=fleet_resources.find_known
        ) as administrator:
            await prepare(
                administrator,
                {
                    TEAM: OURS,
                    GRANTED: {**OURS, "resource.kubernetes.io/admin-access": "true"},
                    CERTIFICATE_NAMESPACE: OURS,
                    SYSTEM_NAMESPACE: {},
                },
            )

    asyncio.run(install())
    return own_control_plane


@pytest.fixture
async def administrator(registered: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(str(registered.kubeconfig), known=fleet_resources.find_known) as client:
        yield client


@pytest.fixture
async def identity(registered: ControlPlane, tmp_path: Path) -> AsyncIterator[Client]:
    async with limited(registered, tmp_path, [TEAM]) as client:
        yield client


async def test_the_attacks_start_from_what_is_permitted(identity: Client) -> None:
    assert {name: await refusal(identity, each) for name, each in PERMITTED.items()} == dict.fromkeys(
        PERMITTED, ""
    )


@pytest.mark.parametrize("kind", WORKLOADS)
async def test_no_workload_has_other_pods(identity: Client, kind: str) -> None:
    make = WORKLOADS[kind]
    answers = {name: await refusal(identity, make(pod=pod)) for name, pod in PODS.items()}
    assert [name for name, why in answers.items() if not why] == []
    assert [name for name, why in answers.items() if "Modelplane" not in why and "invalid" not in why] == []


@pytest.mark.parametrize("kind", WORKLOADS)
async def test_no_workload_has_other_labels_or_annotations_of_pods(identity: Client, kind: str) -> None:
    for name, metadata in METADATA.items():
        why = await refusal(identity, WORKLOADS[kind](metadata=metadata))
        [key] = {*metadata.get("annotations", {}), *metadata.get("labels", {})} - {"app"}
        assert f"that this cluster does not allow: {key}" in why, (name, why)


async def test_no_other_object_has_other_fields(identity: Client) -> None:
    answers = {}
    for name, manifest in OTHERS.items():
        try:
            answers[name] = await refusal(identity, manifest)
        except errors.ApiError as error:
            answers[name] = str(error)
    assert [name for name, why in answers.items() if not why] == []
    assert {name: why for name, why in answers.items() if "forbidden" not in why} == {}


ALLOWED = "allow.modelplane.ai/keys"


async def test_the_administrator_allows_keys_and_the_identity_does_not(
    identity: Client, administrator: Client
) -> None:
    exact = deployment(metadata={"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"}})
    below = deployment(metadata={"annotations": {"mesh.example.org/inject": "true"}})
    beside = deployment(metadata={"annotations": {"mesh.example.organisation/inject": "true"}})
    allowed = {"metadata": {"annotations": {ALLOWED: "k8s.v1.cni.cncf.io/networks,\n mesh.example.org/"}}}
    for each in (exact, below, beside):
        assert await refusal(identity, each)
    with pytest.raises(errors.Forbidden):
        await identity.patch(resources.NAMESPACES, SYSTEM_NAMESPACE, allowed)
    await administrator.patch(resources.NAMESPACES, SYSTEM_NAMESPACE, allowed)

    async def acts() -> bool:
        return [await refusal(identity, each) for each in (exact, below)] == ["", ""]

    await eventually(acts)
    assert await refusal(identity, beside)
    account = with_metadata(ACCOUNT, annotations={"mesh.example.org/role": "admin"})
    assert await refusal(identity, account), "the list is not for accounts"
    await administrator.patch(
        resources.NAMESPACES, SYSTEM_NAMESPACE, {"metadata": {"annotations": {ALLOWED: None}}}
    )

    async def is_closed() -> bool:
        return bool(await refusal(identity, exact))

    await eventually(is_closed)


async def test_what_was_there_before_stays_and_grows(identity: Client, administrator: Client) -> None:
    """An earlier version was allowed more, and other controllers add to objects."""
    there = deployment(metadata={"annotations": {"kuma.io/mesh": "x"}}, pod={"priorityClassName": "x"})
    await administrator.apply(there)
    grown = copy.deepcopy(there)
    grown["spec"]["replicas"] = 3
    assert await refusal(identity, grown) == ""
    edited = deployment(metadata={"annotations": {"kuma.io/mesh": "x"}}, pod=container(image="engine:2"))
    assert await refusal(identity, edited) == "", "the key is the former one"
    changed = deployment(metadata={"annotations": {"kuma.io/mesh": "y"}})
    assert "kuma.io/mesh" in await refusal(identity, changed)
    await administrator.delete(resources.DEPLOYMENTS, "escape", TEAM)


async def test_the_largest_pods_are_within_the_cost_of_policies(identity: Client) -> None:
    variables = [{"name": f"V{number}", "value": "x"} for number in range(256)]
    mounts = [{"name": f"v{number}", "mountPath": f"/v{number}"} for number in range(16)]
    beside = [{"name": f"c{n}", "image": "x", "env": variables, "volumeMounts": mounts} for n in range(8)]
    before = [{**each, "name": f"i{n}"} for n, each in enumerate(beside)]
    pod = {
        "containers": beside,
        "initContainers": before,
        "volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(16)],
    }
    keys = {f"teams.modelplane.ai/{number}": "x" for number in range(32)}
    large = {"pod": pod, "metadata": {"labels": {"app": "a", **keys}, "annotations": keys}}
    assert await refusal(identity, deployment(**large)) == ""
    template = {"metadata": large["metadata"], "spec": pod}
    both = gang(**large)
    both["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = template
    assert await refusal(identity, both) == ""
