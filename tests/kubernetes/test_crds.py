"""The CRDs on a real API server: what it accepts, what it refuses and in which words.

A case is a valid manifest with a few fields changed. What is accepted is also
decoded: our defaults must be those that the server filled in.
"""

import asyncio
import copy
import json
from pathlib import Path

import pytest
import yaml

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import build_schema, crd
from modelplane.api.schema.decode import decode
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import INFERENCE_CLUSTERS, MODEL_DEPLOYMENTS
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from support import pod_templates
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

MANIFESTS = Path(__file__).parent / "manifests"
REMOVE = object()

POD = {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]}}
GPU = {"devices": [{"name": "gpu", "selectors": [{"cel": "device.driver == 'gpu.nvidia.com'"}]}]}
MEMBER = {"nodeSelector": GPU, "template": POD}
ENGINE = {"name": "qwen", "members": [MEMBER]}
CLAIMED = [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}]
PREFILL = {**ENGINE, "name": "prefill", "phase": "Prefill"}
DECODE = {**ENGINE, "name": "decode", "phase": "Decode"}
GANG = [{**MEMBER, "role": "Leader"}, {**MEMBER, "role": "Worker", "worker": {"nodes": 3}}]
SOURCES = {
    "gke": ("GKE", {"region": "us-central1"}),
    "eks": ("EKS", {"region": "us-west-2"}),
    "aks": ("AKS", {"location": "westeurope"}),
    "nebius": ("Nebius", {}),
    "vultr": ("Vultr", {"region": "ewr"}),
    "existing": ("Existing", {"secretRef": {"name": "kubeconfig"}}),
}
RECIPES = {
    "gke": ("GKE", {"machineType": "g2-standard-8"}),
    "eks": ("EKS", {"instanceType": "g6.xlarge"}),
    "aks": ("AKS", {"vmSize": "Standard_ND96isr_H100_v5"}),
    "nebius": ("Nebius", {"platform": "gpu-h100-sxm", "preset": "8gpu-128vcpu-1600gb"}),
    "vultr": ("Vultr", {"plan": "vcg-l40s-16c-180g-48vram"}),
}

GPU_POOL = {"name": "gpu", "role": "GPU", "gpu": {"acceleratorType": "nvidia-h100"}}

SPECS = {
    "DeviceQuota": {
        "namespaces": ["ml-team"],
        "cohort": "research",
        "classes": [{"className": "l4-1x", "nominalQuota": 4, "lendingLimit": 2}],
        "priorityClassNames": ["serving"],
    },
    "InferenceAutoscaler": {
        "deploymentRef": {"name": "qwen"},
        "maxReplicas": 4,
        "targets": {"requestsPerReplica": 10},
    },
    "InferenceClass": {
        "devices": [{"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com"}]
    },
    "InferenceCluster": {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}},
        "nodePools": [{"name": "h100", "className": "h100", "zones": ["us-east-2b"]}],
    },
    "InferenceGateway": {"backend": "Envoy"},
    "ModelCache": {"source": "HuggingFace", "huggingFace": {"repo": "Qwen/Qwen3-8B", "sizeGiB": 20}},
    "ModelDeployment": {"replicas": 1, "engines": [ENGINE]},
    "ModelEndpoint": {"url": "https://api.together.xyz/"},
    "ModelKey": {"hashes": [{"sha256": "ab" * 32}]},
    "ModelReplica": {
        "clusterName": "local",
        "engines": [
            {
                "name": "qwen",
                "members": [{"nodePoolName": "local", "deviceRequests": CLAIMED, "template": POD}],
            }
        ],
    },
    "ModelService": {"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": "qwen"}}}]},
    "AKSCluster": {
        "location": "westeurope",
        "nodePools": [{**GPU_POOL, "vmSize": "Standard_ND96isr_H100_v5"}],
    },
    "EKSCluster": {
        "region": "us-west-2",
        "nodePools": [{**GPU_POOL, "instanceType": "g6.12xlarge", "zones": ["us-west-2a"]}],
    },
    "GKECluster": {
        "region": "us-central1",
        "nodePools": [{**GPU_POOL, "machineType": "a3-highgpu-8g", "zones": ["us-central1-a"]}],
    },
    "NebiusCluster": {
        "nodePools": [{**GPU_POOL, "platform": "gpu-h100-sxm", "preset": "8gpu-128vcpu-1600gb"}]
    },
    "ServingStack": {"secrets": [{"type": "Kubeconfig", "name": "west-kubeconfig", "key": "kubeconfig"}]},
    "VultrCluster": {
        "region": "ewr",
        "nodePools": [{**GPU_POOL, "plan": "vcg-l40s-16c-180g-48vram"}],
    },
}
PLACED = SPECS["ModelReplica"]["engines"][0]["members"][0]
BY_NAME = {kind.name: kind for kind in KINDS}
CLOUDS = ["AKSCluster", "EKSCluster", "GKECluster", "NebiusCluster", "VultrCluster"]


def _without_gpu(kind):
    return {
        name: value for name, value in SPECS[kind]["nodePools"][0].items() if name not in ("gpu", "zones")
    }


def _manifest(kind, edits=None):
    served = BY_NAME[kind]
    metadata = {"name": "case", **({"namespace": "default"} if served.namespaced else {})}
    spec = copy.deepcopy(SPECS[kind])
    manifest = {"apiVersion": served.api_version, "kind": kind, "metadata": metadata, "spec": spec}
    for path, value in (edits or {}).items():
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
        target = manifest
        for parent in parents:
            target = target[parent] if isinstance(target, list) else target.setdefault(parent, {})
        if value is REMOVE:
            del target[last]
        elif isinstance(target, list) and last == len(target):
            target.append(copy.deepcopy(value))
        else:
            target[last] = copy.deepcopy(value)
    return manifest


@pytest.fixture(scope="module")
def kubeconfig(control_plane):
    """The kubeconfig of a control plane on which the kinds are established."""

    async def install():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as client:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-team"}}
            await client.apply(namespace)
            for kind in KINDS:
                await client.apply(crd(kind))
            async with asyncio.timeout(PATIENCE_S):
                while not all("Established" in _true(found) for found in await _definitions(client)):
                    await asyncio.sleep(0.05)

    asyncio.run(install())
    return str(control_plane.kubeconfig)


@pytest.fixture
async def client(kubeconfig):
    async with Client.from_kubeconfig(
        kubeconfig, known=fleet_resources.find_known, timeout_s=PATIENCE_S
    ) as connected:
        yield connected


async def _definitions(client):
    names = [f"{kind.plural}.{kind.group}" for kind in KINDS]
    return [await client.get(CUSTOM_RESOURCE_DEFINITIONS, name) for name in names]


def _true(definition):
    conditions = definition.get("status", {}).get("conditions", [])
    return {condition["type"] for condition in conditions if condition["status"] == "True"}


async def _accept(client, manifest):
    return await client.apply(manifest, dry_run=True)


async def test_every_kind_is_established_with_a_structural_schema(client):
    found = {
        definition["spec"]["names"]["kind"]: _true(definition) for definition in await _definitions(client)
    }
    assert found == {kind.name: {"Established", "NamesAccepted"} for kind in KINDS}


TEMPLATE = {"spec.engines": REMOVE, "spec.template": {"spec": {"engines": [ENGINE]}}}
PHASES = {"spec.serving": {"mode": "PrefillDecode"}, "spec.engines": [PREFILL, DECODE]}

SCHEDULE = {"name": "a", "cron": "*/5 8-17 1,15 JAN-JUN MON", "durationSeconds": 604_800, "minReplicas": 2}

ACCEPTED = [
    pytest.param(
        "InferenceAutoscaler",
        {"spec.schedules": [SCHEDULE | {"timeZone": "America/Argentina/Buenos_Aires"}]},
        id="a schedule in a time zone",
    ),
    *(pytest.param(kind.name, {}, id=f"the least {kind.name}") for kind in KINDS),
    pytest.param("ModelDeployment", TEMPLATE, id="a deployment with a template"),
    pytest.param(
        "ModelDeployment",
        {
            **TEMPLATE,
            "spec.template.metadata": {"labels": {"example.com/team": "a"}},
            "spec.template.spec.tolerations": [
                {"key": "modelplane.ai/maintenance", "value": "x", "effect": "NoExecute"},
                {"operator": "Exists"},
            ],
            "spec.template.spec.clusterSelector": {"matchLabels": {"modelplane.ai/region": "us"}},
            "spec.template.spec.modelCacheRef": {"name": "weights"},
        },
        id="a deployment with a template and every setting",
    ),
    pytest.param(
        "ModelDeployment", {"spec.tolerations": [{"operator": "Exists"}]}, id="tolerations beside the engines"
    ),
    pytest.param("ModelDeployment", {"spec.replicas": 0}, id="a deployment scaled to zero"),
    pytest.param("ModelDeployment", {"spec.replicas": REMOVE}, id="a deployment whose number another sets"),
    pytest.param("ModelDeployment", {"spec.replicas": 10000}, id="a deployment of many replicas"),
    pytest.param("ModelDeployment", {"spec.engines.0.members": GANG}, id="a gang, the leader first"),
    pytest.param("ModelDeployment", {"spec.engines.0.members": GANG[::-1]}, id="a gang, the worker first"),
    pytest.param(
        "ModelDeployment",
        {"spec.engines.0.members": [{"role": "Worker", "template": POD}, GANG[0]]},
        id="a gang of which only the leader asks for devices",
    ),
    pytest.param("ModelDeployment", PHASES, id="prefill and decode"),
    pytest.param("ModelDeployment", {"spec.serving": {}}, id="serving without a mode"),
    pytest.param(
        "ModelDeployment",
        {
            "spec.engines.0.copies": 3,
            "spec.engines.0.members.0.template.metadata": {
                "labels": {"team": "a", "example.com/team": ""},
                "annotations": {"example.com/note": "any text: at all"},
            },
            "spec.engines.0.members.0.template.spec.imagePullSecrets": [{"name": "pull"}],
            "spec.engines.0.members.0.template.spec.containers.0.env": [
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "empty.allowed"},
            ],
        },
        id="every field of a pod",
    ),
    *(
        pytest.param("ModelDeployment", {"spec.engines.0.members.0.template.spec": spec}, id=why)
        for why, spec in pod_templates.ACCEPTED.items()
    ),
    pytest.param(
        "ModelReplica",
        {
            "spec.modelCacheRef": {"name": "weights"},
            "spec.serving": {},
            "spec.engines.0.members.0.deviceRequests.0.selectors": [{"cel": "true"}],
        },
        id="a replica with a cache and selectors",
    ),
    *(
        pytest.param("InferenceCluster", {"spec.cluster": {"source": source, name: block}}, id=f"on {source}")
        for name, (source, block) in SOURCES.items()
    ),
    *(
        pytest.param(
            "InferenceClass",
            {
                "spec.provisioning": {
                    "provider": name,
                    key: {**recipe, "accelerator": {"type": "l4", "count": 1}},
                }
            },
            id=f"a recipe for {name}",
        )
        for key, (name, recipe) in RECIPES.items()
    ),
    pytest.param(
        "InferenceCluster",
        {"spec.cluster": {"source": "GKE", "gke": {"region": "us-central1", "project": "my-gcp-project"}}},
        id="a GCP project, as older manifests have it",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.cluster": {
                "source": "EKS",
                "eks": {"region": "us-west-2", "credentials": {"name": "team-a"}},
            }
        },
        id="credentials of a team",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.cluster.existing.identitySecretRef": {"name": "identity"},
            "spec.cluster.existing.cache": {"storageClassName": "nfs"},
        },
        id="an identity and cache storage",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.taints": [
                {"key": "modelplane.ai/maintenance", "effect": "NoSchedule"},
                {"key": "modelplane.ai/maintenance", "effect": "NoExecute", "value": "now"},
            ],
            "spec.servingStack": {"profile": "None"},
        },
        id="taints of one key and two effects, and no serving stack",
    ),
    *(
        pytest.param("InferenceCluster", {"spec.nodePools.0.fabric": fabric}, id=f"fabric {fabric}")
        for fabric in (
            "None",
            "EFA",
            {},
            {"type": "EFA"},
            {"type": "InfiniBand"},
            {"type": "InfiniBand", "infiniband": {"fabric": "fabric-2"}},
            {"name": "rack-1"},
            {"type": "EFA", "name": "rack-1"},
            {"type": "InfiniBand", "name": "rack-1", "infiniband": {"fabric": "fabric-2"}},
        )
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.nodePools.0.nodeCount": 0,
            "spec.nodePools.0.minNodeCount": 0,
            "spec.nodePools.0.maxNodeCount": 4,
            "spec.nodePools.0.zones": ["us-east-2b"],
            "spec.nodePools.0.capacityBlock": {"capacityReservationId": "cr-0a1b2c"},
        },
        id="an autoscaled pool of reserved capacity",
    ),
    pytest.param(
        "InferenceClass",
        {
            "spec.devices": [
                {
                    **SPECS["InferenceClass"]["devices"][0],
                    "count": 8,
                    "attributes": {
                        "architecture": {"string": "Ada Lovelace"},
                        "cudaComputeCapability": {"version": "9.0.0"},
                        "ecc": {"bool": False},
                        "resource.kubernetes.io/numaNode": {"int": 0},
                    },
                    "capacity": {"memory": {"value": "81559Mi"}},
                },
                {"name": "nic", "claim": "Synthetic", "driver": "nic.nvidia.com", "count": 8},
            ]
        },
        id="a class with every type of attribute and a synthetic device",
    ),
    pytest.param(
        "InferenceGateway",
        {
            "spec": {
                "backend": "Traefik",
                "traefik": {
                    "version": "41.3.0",
                    "loadBalancer": "MetalLB",
                    "metallb": {"addressPool": "172.18.255.200-172.18.255.250"},
                },
            }
        },
        id="a gateway of Traefik and MetalLB",
    ),
    pytest.param(
        "ModelService", {"spec.endpoints.0.selector.matchLabels": {}}, id="a service of all endpoints"
    ),
    pytest.param("ModelService", {"spec.endpoints.0.weight": 1000000}, id="a service with weights"),
    pytest.param(
        "ModelService",
        {"spec.balancing": {"policy": "Session", "sessionHeader": "X-Session-Id"}},
        id="a service with sessions",
    ),
    pytest.param("ModelEndpoint", {"spec.rewritePath": "/v1/"}, id="a path to rewrite to"),
    pytest.param(
        "ModelKey",
        {
            "spec.hashes": [
                {"sha256": "ab" * 32, "expires": "2026-12-01T00:00:00Z"},
                {"sha256": "cd" * 32, "expires": "2026-12-01T00:00:00.123456789+01:00"},
            ],
            "spec.services": ["ml-team/*", "shared/qwen-2.5"],
            "spec.requestsPerMinute": 60,
            "spec.tokensPerMinute": 20_000,
            "spec.streams": 4,
            "spec.blocked": True,
        },
        id="a key with every field",
    ),
    pytest.param(
        "InferenceGateway",
        {"spec.keyGrants": [{"namespace": "*", "maxKeys": 5}, {"namespace": "ml", "services": ["ml/*"]}]},
        id="grants of keys",
    ),
    pytest.param(
        "ModelCache",
        {
            "spec.huggingFace.revision": "main",
            "spec.huggingFace.authSecret": {"name": "hf-token"},
            "spec.clusterSelector": {"matchLabels": {"tier": "h100"}},
        },
        id="a cache with a revision and a token",
    ),
    pytest.param("ModelDeployment", {"metadata.name": "a" * 63}, id="a name of 63 characters"),
    pytest.param(
        "ModelReplica",
        {
            "spec.serving": {"mode": "PrefillDecode", "routing": "EndpointPicker"},
            "spec.engines": [
                {
                    "name": f"{phase}-{'x' * 55}",
                    "phase": phase.title(),
                    "copies": 2,
                    "members": [
                        {**PLACED, "role": "Leader"},
                        {
                            "nodePoolName": "H100_a",
                            "role": "Worker",
                            "worker": {"nodes": 1},
                            "template": POD,
                        },
                    ],
                }
                for phase in ("prefill", "decode")
            ],
        },
        id="a placed prefill and decode of gangs, with the longest names",
    ),
    pytest.param(
        "InferenceClass",
        {
            "spec.devices": [
                {
                    **SPECS["InferenceClass"]["devices"][0],
                    "driver": "gpu.example.com",
                    "attributes": {"driverVersion": {"version": "580.65.6"}, "index": {"int": -1}},
                    "capacity": {"memory": {"value": "80Gi"}, "bandwidth": {"value": "1.5e3"}},
                }
            ],
            "spec.provisioning": {
                "provider": "GKE",
                "gke": {
                    "machineType": "a2-highgpu-1g",
                    "accelerator": {"type": "nvidia-h100-80gb", "count": 1},
                },
            },
        },
        id="a class with its recipe",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.cluster": {"source": "AKS", "aks": {"location": "westeurope"}},
            "spec.nodePools": [
                {"name": "gpuh100", "className": "h100", "minNodeCount": 1, "maxNodeCount": 4}
            ],
        },
        id="a pool of AKS without zones",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.cluster": {"source": "Nebius", "nebius": {"kubernetesVersion": "1.34"}},
            "spec.nodePools": [{"name": "gpu-h100", "className": "h100", "nodeCount": 0, "maxNodeCount": 1}],
        },
        id="a pool of Nebius with only a maximum",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "metadata.name": "rack.example.com",
            "spec.nodePools": [{"name": "Rack_1", "className": "a.b", "nodeCount": 5000}],
        },
        id="an existing cluster named as its operator likes, with a large pool",
    ),
    pytest.param(
        "InferenceCluster",
        {
            "spec.cluster": {
                "source": "GKE",
                "gke": {"region": "us-central1", "kubernetesVersion": "1.35.1-gke.1234000"},
            }
        },
        id="a version as GKE writes it",
    ),
    pytest.param(
        "ModelEndpoint",
        {"spec": {"url": "http://10.0.1.50/ml-team/qwen-72b/", "rewritePath": "/ml-team/qwen-72b/"}},
        id="an endpoint in the fleet",
    ),
    *(
        pytest.param(
            kind,
            {
                "spec.credentials": {"type": "ProviderConfig", "name": "team-a"},
                "spec.nodePools.0.nodeCount": 1,
                "spec.nodePools.0.minNodeCount": 1,
                "spec.nodePools.0.maxNodeCount": 8,
                "spec.nodePools.1": {
                    **_without_gpu(kind),
                    "name": "system",
                    "role": "System",
                    "nodeCount": 2,
                },
            },
            id=f"a {kind} with a pool of its own for the system",
        )
        for kind in CLOUDS
    ),
    pytest.param("GKECluster", {"spec.project": "my-gcp-project"}, id="a GKECluster with a project"),
    pytest.param(
        "GKECluster",
        {
            "spec.networking": {"podCidr": "10.4.0.0/14"},
            "spec.nodePools.0.gpu": {"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": 8},
            "spec.nodePools.0.diskSizeGb": 500,
        },
        id="a GKECluster with its ranges",
    ),
    pytest.param(
        "EKSCluster",
        {
            "spec.networking": {"subnetCidrs": ["10.0.0.0/20", "10.0.16.0/20"]},
            "spec.nodePools.0.fabric": "EFA",
            "spec.nodePools.0.capacityBlock": {"capacityReservationId": "cr-0a1b2c"},
        },
        id="an EKSCluster with adapters and reserved capacity",
    ),
    pytest.param(
        "AKSCluster",
        {"spec.nodePools.0.fabric": "InfiniBand", "spec.nodePools.0.zones": ["1", "2"]},
        id="an AKSCluster with InfiniBand",
    ),
    pytest.param(
        "NebiusCluster",
        {"spec.nodePools.0.fabric": {"type": "InfiniBand", "infiniband": {"fabric": "fabric-2"}}},
        id="a NebiusCluster with InfiniBand",
    ),
    *(
        pytest.param(
            "ServingStack",
            {"spec.secrets.1": {"type": type_, "name": "west-gke-sa-key", "key": "private_key", **where}},
            id=f"a ServingStack with a {type_}",
        )
        for type_, where in {
            "GCPServiceAccountKey": {},
            "GoogleApplicationCredentials": {},
            "AWSWebIdentityCredentials": {},
            "NebiusServiceAccountCredentials": {"namespace": "crossplane-system"},
        }.items()
    ),
    pytest.param(
        "ServingStack",
        {
            "spec.nvidiaDriverRoot": "/home/kubernetes/bin/nvidia",
            "spec.versions": {"gatewayApi": "v1.5.1", "certManager": "v1.17.1", "envoyGateway": "v1.8.1"},
            "spec.gateway": {"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
        },
        id="a ServingStack with its versions and listeners",
    ),
]


@pytest.mark.parametrize(("kind", "edits"), ACCEPTED)
async def test_is_accepted_and_read_as_the_server_completed_it(client, kind, edits):
    manifest = _manifest(kind, edits)
    completed = await _accept(client, manifest)
    assert decode(completed).spec == decode(manifest).spec


@pytest.mark.parametrize("file", sorted(MANIFESTS.glob("*.yaml")), ids=lambda file: file.stem)
async def test_an_example_of_the_documentation_is_accepted(client, file):
    manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
    completed = await _accept(client, manifest)
    assert decode(completed).spec == decode(manifest).spec


MEMBERS = "spec.engines.0.members"
DEVICE = "spec.devices.0"
POOL = "spec.nodePools.0"
CONTAINER = f"{MEMBERS}.0.template.spec.containers.0"
POOL_PATH = "spec.nodePools[0]"
SECRET = "spec.cluster.existing.secretRef"
SECRET_NAME = f"{SECRET}.name"
CLUSTERS = "spec.clusterSelector.matchLabels"
ENDPOINTS = "spec.endpoints.0.selector.matchLabels"
TAINT = {"key": "a", "effect": "NoSchedule"}
LABEL_KEY = "a key has at most 63 letters, digits"
INFINIBAND = "infiniband is required when type is InfiniBand, and belongs to no other type"


def _from(name, key):
    return [{"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]


REFUSED = [
    pytest.param(
        "InferenceCluster",
        {"spec.taints": [{"key": "modelplane.ai/drain", "effect": "NoExecute"}]},
        "a taint modelplane.ai/unschedulable or modelplane.ai/drain has the effect NoSchedule",
        id="a drain that would evict at once",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.engines": REMOVE},
        "engines are required: list those of one replica in spec.engines or spec.template.spec.engines",
        id="a deployment without engines",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.rollout": {"maxUnavailable": "0%", "maxSurge": 0}},
        "maxUnavailable and maxSurge must not both be zero: no replica could be updated",
        id="a rollout that may do nothing",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.placement": {"maxCostPerHour": "12.50"}},
        "currency is required with maxCostPerHour",
        id="a limit of cost without a currency",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.failover": {"after": "9s"}},
        "after must be from 10s to 24h",
        id="failover after a blink",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.failover": {"after": "25h"}},
        "after must be from 10s to 24h",
        id="failover after more than a day",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.serving": {"connector": "NIXL"}},
        "connector belongs to mode PrefillDecode: set that mode or remove connector",
        id="a connector without prefill and decode",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.serving": {"picker": {"scorers": [{"type": "Queue", "weight": 1}]}}},
        "picker belongs to routing EndpointPicker: set that routing or remove picker",
        id="scorers without a picker",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.serving": {"routing": "EndpointPicker", "picker": {"nonCachedTokens": 16}}},
        "prefillScorers and nonCachedTokens belong to mode PrefillDecode: remove them",
        id="a picker with settings of prefill without prefill",
    ),
    pytest.param(
        "InferenceClass",
        {"spec.pricing": {"currency": "USD", "devices": [{"name": "nic", "perHour": "1"}]}},
        "pricing names a device that is not under devices",
        id="the price of another device",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.template": {"spec": {"engines": [ENGINE]}}},
        "spec.engines and spec.template are two ways to write one thing: keep one of them",
        id="a deployment written both ways",
    ),
    pytest.param(
        "ModelDeployment",
        {**TEMPLATE, "spec.serving": {"mode": "Unified"}},
        "with spec.template, move clusterSelector, modelCacheRef, regions, serving and tolerations",
        id="a setting beside a template",
    ),
    pytest.param(
        "ModelDeployment", {"spec.regions": []}, "spec.regions", id="a region rule without a region"
    ),
    pytest.param(
        "ModelDeployment", {"spec.regions": ["eu\n"]}, "spec.regions[0]", id="a region's line break"
    ),
    pytest.param(
        "ModelDeployment", {"spec.regions": ["eu", "eu"]}, "spec.regions: duplicate", id="a region twice"
    ),
    pytest.param(
        "ModelDeployment", {"spec.regions": [f"r{at}" for at in range(33)]}, "spec.regions", id="33 regions"
    ),
    pytest.param("ModelEndpoint", {"spec.region": "e" * 64}, "spec.region", id="a region's name too long"),
    pytest.param("ModelCache", {"spec.regions": [""]}, "spec.regions[0]", id="a region without a name"),
    pytest.param("ModelDeployment", {"spec.replicas": -1}, "spec.replicas", id="fewer than no replicas"),
    *(
        pytest.param("ModelDeployment", edits, "serving.mode PrefillDecode needs two engines", id=why)
        for why, edits in {
            "prefill without decode": {**PHASES, "spec.engines": [PREFILL]},
            "prefill twice": {**PHASES, "spec.engines": [PREFILL, {**PREFILL, "name": "second"}]},
            "three engines in two phases": {**PHASES, "spec.engines": [PREFILL, DECODE, ENGINE]},
            "prefill without decode in a template": {
                "spec.engines": REMOVE,
                "spec.template.spec": {"serving": {"mode": "PrefillDecode"}, "engines": [PREFILL]},
            },
        }.items()
    ),
    pytest.param(
        "ModelDeployment",
        {**PHASES, "spec.serving": {"mode": "PrefillDecode", "routing": "Service"}},
        "mode PrefillDecode routes by endpoint picker: remove routing or set it to EndpointPicker",
        id="prefill and decode behind a Service",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.engines": [PREFILL, DECODE]},
        "phase belongs to serving.mode PrefillDecode",
        id="phases without the mode",
    ),
    *(
        pytest.param(
            "ModelDeployment", {MEMBERS: members}, "an engine has either one Standalone member", id=why
        )
        for why, members in {
            "a leader alone": [{**MEMBER, "role": "Leader"}],
            "two standalone members": [MEMBER, MEMBER],
            "two leaders": [{**MEMBER, "role": "Leader"}, {**MEMBER, "role": "Leader"}],
            "a leader and a standalone member": [{**MEMBER, "role": "Leader"}, MEMBER],
        }.items()
    ),
    pytest.param(
        "ModelDeployment",
        {f"{MEMBERS}.0.nodeSelector": REMOVE},
        "an engine must say which devices it needs",
        id="an engine without a node selector",
    ),
    pytest.param(
        "ModelDeployment",
        {
            f"{MEMBERS}.0.nodeSelector.devices.0.selectors": [
                {"cel": " " * 10_236 + "true"},
                *[{"cel": "true"}] * 2,
            ]
            * 2
        },
        "the device selectors of an engine have at most 20,480 characters together",
        id="selectors of an engine that are too long together",
    ),
    pytest.param(
        "ModelDeployment",
        {f"{MEMBERS}.0.worker": {"nodes": 1}},
        "worker.nodes sizes a gang: set it on the member with role Worker only",
        id="a worker size on a standalone member",
    ),
    *(
        pytest.param("ModelDeployment", {f"{MEMBERS}.0.template.spec": spec}, message, id=why)
        for why, (spec, message) in pod_templates.REFUSED.items()
    ),
    pytest.param(
        "ModelDeployment",
        {
            f"{MEMBERS}.0.template.spec.containers.0.env": [
                {"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
            ]
        },
        "set either value or valueFrom, not both",
        id="a variable with two values",
    ),
    pytest.param(
        "ModelDeployment",
        {f"{MEMBERS}.0.template.spec.containers.0.env": [{"name": "A", "valueFrom": {}}]},
        "set exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        id="a variable from nowhere",
    ),
    pytest.param(
        "ModelDeployment", {"spec.engines.0.name": "Qwen"}, "spec.engines[0].name", id="an engine's name"
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.engines": [ENGINE, ENGINE]},
        "duplicate entries for key",
        id="two engines of one name",
    ),
    pytest.param(
        "ModelDeployment",
        {f"{MEMBERS}.0.template.metadata": {"labels": {"modelplane.ai/pool": "x"}}},
        "keys under modelplane.ai/ are set by Modelplane: use a prefix of your own",
        id="a reserved pod label",
    ),
    pytest.param(
        "ModelDeployment",
        {f"{MEMBERS}.0.template.metadata": {"annotations": {"not a key": "x"}}},
        LABEL_KEY,
        id="an annotation key with a space",
    ),
    pytest.param(
        "ModelDeployment",
        {**TEMPLATE, "spec.template.metadata": {"labels": {"modelplane.ai/cluster": "x"}}},
        "keys under modelplane.ai/ are set by Modelplane: use a prefix of your own",
        id="a reserved label of children",
    ),
    pytest.param(
        "ModelDeployment",
        {**TEMPLATE, "spec.template.metadata": {"labels": {"a/b/c": "x"}}},
        LABEL_KEY,
        id="a label key with two prefixes",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.tolerations": [{"value": "x"}]},
        "key is required with operator Equal: name the taint, or use operator Exists to tolerate all",
        id="a toleration without a key",
    ),
    pytest.param(
        "ModelDeployment",
        {"spec.tolerations": [{"operator": "Exists", "key": "a", "value": "x"}]},
        "value must be absent with operator Exists",
        id="a toleration of any value that names one",
    ),
    pytest.param(
        "ModelDeployment",
        {"metadata.name": "qwen2.5"},
        "metadata.name must not contain a dot",
        id="a dotted name",
    ),
    *(
        pytest.param(
            kind.name, {"metadata.name": "a" * 64}, "at most 63 characters", id=f"a long {kind.name} name"
        )
        for kind in KINDS
    ),
    pytest.param(
        "ModelReplica",
        {f"{MEMBERS}.0.deviceRequests": REMOVE},
        "an engine must claim a device: give at least one member deviceRequests",
        id="a replica that claims nothing",
    ),
    pytest.param(
        "ModelReplica",
        {f"{MEMBERS}.0.role": "Leader"},
        "either one Standalone member",
        id="half a placed gang",
    ),
    pytest.param(
        "ModelReplica",
        {"spec.engines.0.phase": "Decode"},
        "phase belongs to",
        id="a placed phase without mode",
    ),
    pytest.param(
        "ModelReplica", {"metadata.name": "a.b"}, "must not contain a dot", id="a dotted replica name"
    ),
    *(
        pytest.param(
            "InferenceCluster",
            {"spec.cluster": {"source": source}},
            f"{name} is required when source is {source}",
            id=f"{source} without its settings",
        )
        for name, (source, _) in SOURCES.items()
    ),
    *(
        pytest.param(
            "InferenceClass",
            {"spec.provisioning": {"provider": name}},
            f"{key} is required when provider is {name}",
            id=f"{name} without its recipe",
        )
        for key, (name, _) in RECIPES.items()
    ),
    *(
        pytest.param(
            "InferenceCluster", {f"{POOL}.fabric": fabric}, f"spec.nodePools[0].fabric{path}", id=why
        )
        for why, fabric, path in (
            ("fabric of another name", "Ethernet", ': Unsupported value: "Ethernet"'),
            ("fabric as a number", 1, ": Unsupported value: 1"),
            ("fabric as a truth value", True, ": Unsupported value: true"),
            ("fabric as a list", ["EFA"], ": Unsupported value"),
            ("fabric of another type", {"type": "Ethernet"}, '.type: Unsupported value: "Ethernet"'),
            ("fabric with a misspelt field", {"type": "EFA", "infinband": {}}, ".infiniband: Required"),
            (
                "settings of InfiniBand on EFA",
                {"type": "EFA", "infiniband": {"fabric": "f"}},
                '.type: Unsupported value: "EFA": supported values: "InfiniBand"',
            ),
        )
    ),
    pytest.param(
        "InferenceCluster",
        {f"{POOL}.minNodeCount": 3, f"{POOL}.maxNodeCount": 2},
        "minNodeCount must not be greater than maxNodeCount",
        id="a pool with its bounds the wrong way round",
    ),
    pytest.param(
        "InferenceCluster",
        {"spec.cluster": {"source": "EKS", "eks": {"region": "r"}}, f"{POOL}.name": "system"},
        "a provisioned cluster gets a pool named system of its own: give this pool another name",
        id="a pool that collides with the system pool",
    ),
    pytest.param(
        "InferenceCluster", {f"{POOL}.name": "gpu pool"}, "spec.nodePools[0].name", id="a pool's name"
    ),
    pytest.param(
        "InferenceCluster", {"spec.taints": [{"key": "a", "effect": "Evict"}]}, '"Evict"', id="another effect"
    ),
    *(
        pytest.param(
            "InferenceCluster",
            {"spec.cluster": {"source": SOURCES[source][0], source: SOURCES[source][1]}, **edits},
            message,
            id=why,
        )
        for why, source, edits, message in (
            (
                "a pool of GKE without zones",
                "gke",
                {f"{POOL}.zones": REMOVE},
                "zones are required in every pool",
            ),
            ("a pool of EKS with no zone", "eks", {f"{POOL}.zones": []}, "zones are required in every pool"),
            (
                "a pool of AKS with a hyphen",
                "aks",
                {f"{POOL}.name": "gpu-h100"},
                "at most 12 lower-case letters",
            ),
            (
                "a minimum alone on Nebius",
                "nebius",
                {f"{POOL}.minNodeCount": 1},
                "maxNodeCount is required with minNodeCount where the source is Nebius or Vultr",
            ),
            ("no node on Vultr", "vultr", {f"{POOL}.nodeCount": 0}, "has at least one node"),
            ("spot nodes on Vultr", "vultr", {f"{POOL}.spot": True}, "Vultr has no spot nodes"),
            (
                "reserved spot nodes",
                "eks",
                {f"{POOL}.spot": True, f"{POOL}.capacityBlock": {"capacityReservationId": "cr-0a1b2c"}},
                "nodes of a capacity block are reserved and not spot",
            ),
            ("a provisioned pool in capitals", "gke", {f"{POOL}.name": "H100"}, "cloud resources are named"),
            ("too many provisioned nodes", "gke", {f"{POOL}.nodeCount": 1001}, "at most 1000 nodes"),
            ("a dotted name in a cloud", "gke", {"metadata.name": "a.b"}, "must not contain a dot"),
        )
    ),
    *(
        pytest.param(kind, {path: value}, message or path.replace(".0", "[0]"), id=why)
        for why, kind, path, value, message in (
            ("a kubeconfig Secret in capitals", "InferenceCluster", SECRET_NAME, "Kubeconfig", ""),
            ("a key that cannot be mounted", "InferenceCluster", f"{SECRET}.key", "..data", ""),
            ("a class in capitals", "InferenceCluster", f"{POOL}.className", "H100", ""),
            ("a zone without a name", "InferenceCluster", f"{POOL}.zones", [""], f"{POOL_PATH}.zones[0]"),
            (
                "a taint's value",
                "InferenceCluster",
                "spec.taints",
                [{**TAINT, "value": "a b"}],
                "taints[0].value",
            ),
            ("a taint's key", "InferenceCluster", "spec.taints", [{**TAINT, "key": "-a"}], "taints[0].key"),
            (
                "a cluster's label value",
                "ModelDeployment",
                CLUSTERS,
                {"region": "us west"},
                f"{CLUSTERS}.region",
            ),
            ("a cluster's label key", "ModelDeployment", CLUSTERS, {"a/b/c": "x"}, LABEL_KEY),
            ("a cache's label key", "ModelCache", CLUSTERS, {"a/b/c": "x"}, LABEL_KEY),
            (
                "a cache in capitals",
                "ModelDeployment",
                "spec.modelCacheRef",
                {"name": "Q"},
                "modelCacheRef.name",
            ),
            (
                "a tolerated key",
                "ModelDeployment",
                "spec.tolerations",
                [{"key": "a b"}],
                "tolerations[0].key",
            ),
            (
                "a tolerated value",
                "ModelDeployment",
                "spec.tolerations",
                [{"key": "a", "value": "b c"}],
                "tolerations[0].value",
            ),
            ("an engine with 64 characters", "ModelDeployment", "spec.engines.0.name", "a" * 64, ""),
            (
                "a request with a dot",
                "ModelDeployment",
                f"{MEMBERS}.0.nodeSelector.devices.0.name",
                "a.b",
                "",
            ),
            ("an image with a blank", "ModelDeployment", f"{CONTAINER}.image", "vllm :v1", ""),
            (
                "an image that no registry takes",
                "ModelDeployment",
                f"{CONTAINER}.image",
                "vllm/vLLM:v1",
                "not an image reference",
            ),
            ("too many nodes", "InferenceCluster", f"{POOL}.nodeCount", 5001, "at most 5000 nodes"),
            ("too large a maximum", "InferenceCluster", f"{POOL}.maxNodeCount", 5001, "at most 5000 nodes"),
            (
                "a variable with an equals sign",
                "ModelDeployment",
                f"{CONTAINER}.env",
                [{"name": "A=B"}],
                "env[0].name",
            ),
            (
                "a Secret in capitals",
                "ModelDeployment",
                f"{CONTAINER}.env",
                _from("Token", "k"),
                "secretKeyRef.name",
            ),
            (
                "a key with a slash",
                "ModelDeployment",
                f"{CONTAINER}.env",
                _from("token", "a/b"),
                "secretKeyRef.key",
            ),
            (
                "a field of which a variable cannot be made",
                "ModelDeployment",
                f"{CONTAINER}.env",
                [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.tolerations"}}}],
                "fieldRef.fieldPath",
            ),
            (
                "a name that begins with a digit",
                "ModelDeployment",
                "metadata.name",
                "7b",
                "must begin with a letter",
            ),
            (
                "a replica that begins with a digit",
                "ModelReplica",
                "metadata.name",
                "7b",
                "must begin with a letter",
            ),
            ("a placed cluster in capitals", "ModelReplica", "spec.clusterName", "West", ""),
            ("a placed pool with a blank", "ModelReplica", f"{MEMBERS}.0.nodePoolName", "a b", ""),
            ("a label key of endpoints", "ModelService", ENDPOINTS, {"a b": "x"}, LABEL_KEY),
            ("a label value of endpoints", "ModelService", ENDPOINTS, {"a": "x y"}, "matchLabels.a"),
            ("a path with a query", "ModelEndpoint", "spec.rewritePath", "/v1?a=b", ""),
            (
                "a Secret for a token in capitals",
                "ModelCache",
                "spec.huggingFace.authSecret",
                {"name": "T"},
                ".name",
            ),
            (
                "a token's key",
                "ModelCache",
                "spec.huggingFace.authSecret",
                {"name": "t", "key": "a/b"},
                ".key",
            ),
            ("a device in capitals", "InferenceClass", f"{DEVICE}.name", "GPU", ""),
            ("a DeviceClass in capitals", "InferenceClass", f"{DEVICE}.deviceClassName", "GPU", ""),
            (
                "an attribute's name",
                "InferenceClass",
                f"{DEVICE}.attributes",
                {"a-b": {"int": 1}},
                "a C identifier",
            ),
            (
                "an accelerator that is no label",
                "InferenceClass",
                "spec.provisioning",
                {"provider": "GKE", "gke": {"machineType": "m", "accelerator": {"type": "a b", "count": 1}}},
                "accelerator.type",
            ),
            (
                "a chart's version with a blank",
                "InferenceGateway",
                "spec",
                {"backend": "Traefik", "traefik": {"version": "40 2"}},
                "spec.traefik.version",
            ),
            ("a GKECluster's range", "GKECluster", "spec.networking", {"podCidr": "10.1.0.0"}, "podCidr"),
            (
                "an EKSCluster's subnets",
                "EKSCluster",
                "spec.networking",
                {"subnetCidrs": ["10.0.0.0/20"]},
                "at least 2",
            ),
            ("InfiniBand on an EKSCluster", "EKSCluster", f"{POOL}.fabric", "InfiniBand", ""),
            (
                "a fabric without its network",
                "NebiusCluster",
                f"{POOL}.fabric",
                {"type": "InfiniBand"},
                INFINIBAND,
            ),
            (
                "a network of no fabric",
                "NebiusCluster",
                f"{POOL}.fabric",
                {"infiniband": {"fabric": "f"}},
                INFINIBAND,
            ),
            ("no node in a VultrCluster", "VultrCluster", f"{POOL}.nodeCount", 0, ""),
            ("a pool of an AKSCluster with a hyphen", "AKSCluster", f"{POOL}.name", "gpu-h100", ""),
            (
                "a ServingStack without a kubeconfig",
                "ServingStack",
                "spec.secrets.0.type",
                "AWSWebIdentityCredentials",
                "one of the secrets must be of type Kubeconfig",
            ),
            (
                "a ServingStack's version",
                "ServingStack",
                "spec.versions",
                {"prometheus": "72 6"},
                ".prometheus",
            ),
        )
    ),
    *(
        pytest.param(kind, {f"{POOL}.gpu": REMOVE}, "gpu is required when role is GPU", id=f"no GPU, {kind}")
        for kind in CLOUDS
    ),
    *(
        pytest.param(
            kind, {f"{POOL}.zones": REMOVE}, "zones are required when role is GPU", id=f"no zones, {kind}"
        )
        for kind in ("EKSCluster", "GKECluster")
    ),
    *(
        pytest.param(
            kind,
            {f"{POOL}.minNodeCount": 3, f"{POOL}.maxNodeCount": 2},
            "minNodeCount must not be greater than maxNodeCount",
            id=f"the bounds of a pool the wrong way round, {kind}",
        )
        for kind in CLOUDS
    ),
    *(
        pytest.param(
            kind,
            {f"{POOL}.minNodeCount": 1},
            "maxNodeCount is required with minNodeCount",
            id=f"a minimum, {kind}",
        )
        for kind in ("NebiusCluster", "VultrCluster")
    ),
    *(
        pytest.param(kind, {"metadata.name": "a.b"}, "must not contain a dot: cloud", id=f"a dotted {kind}")
        for kind in CLOUDS
    ),
    pytest.param(
        "InferenceClass",
        {f"{DEVICE}.deviceClassName": REMOVE},
        "deviceClassName is required when claim is DRA",
        id="a claimed device without a class",
    ),
    pytest.param(
        "InferenceClass",
        {f"{DEVICE}.attributes": {"a": {"string": "x", "int": 1}}},
        "set exactly one of string, version, bool and int",
        id="an attribute of two types",
    ),
    pytest.param(
        "InferenceClass",
        {f"{DEVICE}.attributes": {"a": {}}},
        "set exactly one of string, version, bool and int",
        id="an attribute of no type",
    ),
    pytest.param(
        "InferenceClass",
        {f"{DEVICE}.capacity": {"gpu memory": {"value": "1Gi"}}},
        "a name is a C identifier of at most 32 characters",
        id="a capacity's name",
    ),
    pytest.param(
        "InferenceClass", {f"{DEVICE}.capacity": {"memory": {"value": "80GB"}}}, ".value", id="not a quantity"
    ),
    pytest.param(
        "InferenceClass", {f"{DEVICE}.attributes": {"v": {"version": "9.0"}}}, ".version", id="not a version"
    ),
    pytest.param("InferenceClass", {f"{DEVICE}.driver": "gpu_nvidia"}, ".driver", id="not a driver's name"),
    pytest.param("InferenceClass", {"spec.devices": []}, "spec.devices", id="a class without devices"),
    pytest.param(
        "InferenceGateway",
        {"spec.backend": "Traefik"},
        "traefik is required when backend is Traefik: give it a version",
        id="Traefik without a version",
    ),
    pytest.param(
        "InferenceGateway",
        {"spec": {"backend": "Traefik", "traefik": {"version": "41.3.0", "loadBalancer": "MetalLB"}}},
        "metallb is required when loadBalancer is MetalLB: give it an addressPool",
        id="MetalLB without addresses",
    ),
    pytest.param(
        "InferenceGateway",
        {
            "spec": {
                "backend": "Envoy",
                "pricing": {
                    "currency": "USD",
                    "prices": [
                        {
                            "name": "by-model",
                            "models": ["cheap"],
                            "promptPerMillion": "0",
                            "completionPerMillion": "0",
                        }
                    ],
                },
            }
        },
        "models needs hosts: an engine may ignore the model that a client names",
        id="a price by the client's word",
    ),
    pytest.param(
        "ModelCache",
        {"spec.http": {"files": [{"url": "https://models.example.org/a", "path": "a", "sha256": "0" * 64}]}},
        "exactly one of huggingFace, http, s3, oci, ngc and persistentVolumeClaim must be set: the one that "
        "source names",
        id="a cache of two sources",
    ),
    pytest.param(
        "ModelCache",
        {"spec.huggingFace.endpoint": "http://hub.example.org", "spec.huggingFace.authSecret": {"name": "t"}},
        "authSecret needs an endpoint with https: a token is not sent in clear text",
        id="a token for a mirror in clear text",
    ),
    pytest.param(
        "ModelCache",
        {
            "spec.source": "HTTP",
            "spec.huggingFace": REMOVE,
            "spec.http": {
                "files": [{"url": "http://models.example.org/a", "path": "a", "sha256": "0" * 64}],
                "authSecret": {"name": "t"},
            },
        },
        "authSecret needs URLs with https: a token is not sent in clear text",
        id="a token for a web server in clear text",
    ),
    pytest.param(
        "ModelCache",
        {
            "spec.source": "OCI",
            "spec.huggingFace": REMOVE,
            "spec.oci": {
                "reference": "registry.example.org/models/a:1",
                "plainHTTP": True,
                "authSecret": {"name": "t"},
            },
        },
        "authSecret needs HTTPS: remove plainHTTP, because a password is not sent in clear text",
        id="a password for a registry in clear text",
    ),
    pytest.param(
        "ModelCache",
        {"spec.huggingFace": REMOVE},
        "huggingFace is required when source is HuggingFace: name the repo",
        id="a cache of nothing",
    ),
    pytest.param(
        "ModelCache", {"spec.huggingFace.repo": "x; rm -rf /"}, ".repo", id="a repository of commands"
    ),
    pytest.param(
        "ModelCache", {"spec.huggingFace.revision": "--x"}, ".revision", id="a revision like a flag"
    ),
    pytest.param(
        "DeviceQuota",
        {
            "spec": {
                "namespaces": ["a"],
                "classes": [{"className": "a", "nominalQuota": 1, "borrowingLimit": 1}],
            }
        },
        "borrowingLimit and lendingLimit need a cohort: set cohort, or remove them",
        id="lending without a cohort",
    ),
    pytest.param(
        "DeviceQuota",
        {"spec.classes": [{"className": "a", "nominalQuota": 1}, {"className": "a", "nominalQuota": 2}]},
        "a device of a class is listed twice: keep one of the entries",
        id="two limits on one device",
    ),
    pytest.param(
        "DeviceQuota",
        {"spec.classes": [{"className": "a", "nominalQuota": 1, "lendingLimit": 2}]},
        "lendingLimit must not be greater than nominalQuota",
        id="more lent than there is",
    ),
    pytest.param(
        "DeviceQuota",
        {"spec.priorityClassNames": ["system-cluster-critical"]},
        "the PriorityClasses whose names begin with system- are those of Kubernetes itself: name others",
        id="a priority of Kubernetes itself",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.minReplicas": 5},
        "minReplicas is more than maxReplicas: lower it, or raise maxReplicas",
        id="bounds in the wrong order",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.targets": {}},
        "a target of load is required: give requestsPerReplica or tokensPerSecondPerReplica",
        id="an autoscaler without a target",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.targets": {"timeToFirstTokenMilliseconds": 1000}},
        "a target of load is required: give requestsPerReplica or tokensPerSecondPerReplica",
        id="a goal without a target of load",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.schedules": [{"name": "a", "cron": "0 8 * * *", "durationSeconds": 60}]},
        "a schedule without a bound changes nothing: give minReplicas or maxReplicas",
        id="a schedule without a bound",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.schedules": [{"name": "a", "cron": "0 8 * * *", "durationSeconds": 60, "minReplicas": 5}]},
        "in the windows of a schedule, minReplicas is more than maxReplicas: give the schedule both",
        id="a schedule's minimum above the maximum of the spec",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.schedules": [{"name": "a", "cron": "@daily", "durationSeconds": 60, "minReplicas": 2}]},
        "spec.schedules[0].cron",
        id="a schedule without five fields",
    ),
    pytest.param(
        "InferenceAutoscaler",
        {"spec.schedules": [SCHEDULE | {"timeZone": "../../etc/passwd"}]},
        "spec.schedules[0].timeZone",
        id="a time zone that is a path",
    ),
    pytest.param(
        "ModelEndpoint", {"spec.url": "api.together.xyz"}, "spec.url", id="an address without scheme"
    ),
    *(
        pytest.param("ModelKey", {f"spec.{path}": value}, words, id=name)
        for name, path, value, words in (
            ("a key without a hash", "hashes", [], "spec.hashes"),
            (
                "five hashes of a key",
                "hashes",
                [{"sha256": f"{each:064}"} for each in range(5)],
                "spec.hashes",
            ),
            ("a hash in capitals", "hashes.0.sha256", "AB" * 32, "[0].sha256"),
            ("a key in place of its hash", "hashes.0.sha256", "mpk_" + "ab" * 24, "[0].sha256"),
            ("a time in words", "hashes.0.expires", "tomorrow", "[0].expires"),
            ("no service of a key", "services", [], "spec.services"),
            ("services of all namespaces", "services", ["*"], "spec.services[0]"),
            ("a service without its namespace", "services", ["qwen"], "spec.services[0]"),
            ("a service with a path", "services", ["ml/../other"], "spec.services[0]"),
            ("a service on two lines", "services", ["ml/qwen\n"], "spec.services[0]"),
            ("no streams", "streams", 0, "spec.streams"),
        )
    ),
    *(
        pytest.param("InferenceGateway", {"spec.keyGrants": grants}, "spec.keyGrants", id=name)
        for name, grants in (
            ("two grants of a namespace", [{"namespace": "ml"}, {"namespace": "ml"}]),
            ("a grant of no namespace", [{"namespace": "ml*"}]),
            ("a grant of no key", [{"namespace": "ml", "maxKeys": 0}]),
        )
    ),
    pytest.param("ModelEndpoint", {"spec.rewritePath": "v1"}, "spec.rewritePath", id="a relative path"),
    pytest.param("ModelService", {"spec.endpoints": []}, "spec.endpoints", id="a service of nothing"),
    pytest.param("ModelService", {"spec.endpoints.0.weight": 0}, ".weight", id="a weight of zero"),
    *(
        pytest.param(
            "ModelService",
            {f"spec.endpoints.0.{limit}": 0},
            f".{limit}",
            id=f"an endpoint that never has room: {limit}",
        )
        for limit in ("maxOutstandingRequests", "maxQueuedRequests")
    ),
    pytest.param(
        "ModelService",
        {"spec.balancing": {"sessionHeader": "X-Session-Id"}},
        "sessionHeader requires the policy Session",
        id="a header of sessions with another policy",
    ),
    pytest.param(
        "ModelService",
        {"spec.balancing": {"policy": "Session", "sessionHeader": "a b"}},
        "sessionHeader",
        id="a header with a space",
    ),
    pytest.param(
        "ModelService",
        {"spec.endpoint": []},
        ".spec.endpoint: field not declared in schema",
        id="a misspelt field",
    ),
]


@pytest.mark.parametrize(("kind", "edits", "message"), REFUSED)
async def test_is_refused_in_words_that_help(client, kind, edits, message):
    with pytest.raises(errors.ApiError) as refused:
        await _accept(client, _manifest(kind, edits))
    assert message in refused.value.message


def _rules(value):
    """Yield the messages of the rules within a schema."""
    yield from (rule["message"] for rule in value.get("x-kubernetes-validations", ()))
    for name in ("properties", "items", "additionalProperties"):
        for inner in value.get(name, {}).values() if name == "properties" else (value.get(name),):
            if inner:
                yield from _rules(inner)


def test_every_rule_has_a_case_that_breaks_it():
    broken = [case.values[2] for case in REFUSED]
    rules = {rule for kind in KINDS for rule in _rules(build_schema(kind))}
    assert {rule for rule in rules if not any(message in rule for message in broken)} == set()


async def test_a_weight_that_is_not_given_is_not_filled_in(client):
    completed = await _accept(client, _manifest("ModelService"))
    assert completed["spec"] == SPECS["ModelService"]


@pytest.fixture
async def deployment(client):
    """A deployment that has reported what its replicas are selected by."""
    applied = await client.apply(_manifest("ModelDeployment"))
    status = {"replicas": {"total": 1, "ready": 0}, "selector": "modelplane.ai/deployment=case"}
    reported = {key: applied[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": "case", "namespace": "default"},
        "status": status,
    }
    yield await client.apply(reported, subresource="status")
    await client.delete(MODEL_DEPLOYMENTS, "case", "default")


@pytest.mark.usefixtures("deployment")
async def test_an_autoscaler_is_told_the_counts_and_the_selector(client):
    path = MODEL_DEPLOYMENTS.build_path("default", "case", "scale")
    scale = json.loads(await client.get_raw(path))
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 1},
        {"replicas": 1, "selector": "modelplane.ai/deployment=case"},
    )


@pytest.mark.parametrize("replicas", [0, 10000])
async def test_a_deployment_is_scaled_through_the_scale_subresource(client, deployment, replicas):
    await client.patch(
        MODEL_DEPLOYMENTS, "case", {"spec": {"replicas": replicas}}, "default", subresource="scale"
    )
    scaled = await client.get(MODEL_DEPLOYMENTS, "case", "default")
    assert scaled["spec"] == deployment["spec"] | {"replicas": replicas}


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize("replicas", [-1, 10001])
async def test_a_deployment_is_not_scaled_beyond_its_limits(client, replicas):
    with pytest.raises(errors.ApiError) as refused:
        await client.patch(
            MODEL_DEPLOYMENTS, "case", {"spec": {"replicas": replicas}}, "default", subresource="scale"
        )
    assert "spec.replicas" in refused.value.message


async def test_a_number_that_an_autoscaler_sets_survives_what_is_applied_without_one(client):
    """As Flux and other GitOps tools apply a manifest without ``spec.replicas`` again and again."""
    manifest = _manifest("ModelDeployment")
    del manifest["spec"]["replicas"]
    created = await client.apply(manifest)
    assert created["spec"]["replicas"] == 1
    await client.patch(MODEL_DEPLOYMENTS, "case", {"spec": {"replicas": 3}}, "default", subresource="scale")
    manifest["metadata"]["labels"] = {"example.com/edit": "1"}
    again = await client.apply(manifest)
    assert again["spec"]["replicas"] == 3
    await client.delete(MODEL_DEPLOYMENTS, "case", "default")


async def test_a_number_that_leaves_a_manifest_stays_once_an_autoscaler_has_changed_it(client):
    manifest = _manifest("ModelDeployment")
    manifest["spec"]["replicas"] = 2
    await client.apply(manifest)
    await client.patch(MODEL_DEPLOYMENTS, "case", {"spec": {"replicas": 3}}, "default", subresource="scale")
    del manifest["spec"]["replicas"]
    assert (await client.apply(manifest))["spec"]["replicas"] == 3
    await client.delete(MODEL_DEPLOYMENTS, "case", "default")


async def test_a_cluster_can_report_what_it_has(client):
    manifest = _manifest("InferenceCluster")
    await client.apply(manifest)
    del manifest["spec"]
    manifest["status"] = {
        "conditions": [
            {
                "type": "ClusterReady",
                "status": "True",
                "reason": "ClusterRunning",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
        "capabilities": {"dra": True, "leaderWorkerSet": False, "inferencePool": False},
        "gpuPools": [{"name": "gpu-h100", "nodes": 2, "devices": SPECS["InferenceClass"]["devices"]}],
        "gateway": {"address": "127.0.0.1:8081"},
    }
    reported = await client.apply(manifest, subresource="status")
    await client.delete(INFERENCE_CLUSTERS, "case")
    assert decode(reported).status == decode({**_manifest("InferenceCluster"), **manifest}).status
