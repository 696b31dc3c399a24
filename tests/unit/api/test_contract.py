"""The contract: what the schemas of v0.1.0 and v0.3.1 say, and every place where ours say another thing.

``contract/<kind>.txt`` has a row for each field of the reference implementation. Where ours
differs, ``DEPARTURES`` has what ours says and why; a field that only we have is in
``ADDITIONS``. A row there that no longer tells a difference fails too, so the two lists are
the whole difference.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.conditions.reasons import ROWS
from modelplane.api.kinds import KINDS
from modelplane.api.schema import fields
from modelplane.api.schema.crd import build_schema

CONTRACT = Path(__file__).parent / "contract"
VERSIONS = ("v0.1.0", "v0.3.1")


@dataclass(frozen=True, slots=True)
class Row:
    """What a schema says of one field."""

    type: str
    required: str
    default: str
    limits: str


@dataclass(frozen=True, slots=True)
class Departure:
    """What ours says of fields, where that is not what the reference says; ``*`` stands for any text."""

    fields: str
    aspect: str
    ours: str
    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One aspect of one field that is not what the reference says."""

    field: str
    aspect: str
    ours: str


NAMES_AN_OBJECT = "no object could have another name"
NAMES_A_KEY = "no Secret or ConfigMap has another key that could be mounted"
OURS_TO_REPORT = "the status repeats what the spec or the class may say"
BOUNDED = "every input is bounded"
REFUSED_LATER = "the kind that provisions the cluster refuses more"

_SECRET_TYPES = (
    "one of Kubeconfig, GoogleApplicationCredentials, AWSWebIdentityCredentials, "
    "NebiusServiceAccountCredentials, GCPServiceAccountKey"
)
_POD = "*members[].template.spec."

DEPARTURES = (
    # What is wider, or written in both ways.
    Departure("ModelDeployment spec.replicas", "limits", "0..10000", "scale to zero, and no small cap"),
    Departure("ModelDeployment spec.replicas", "required", "", "an autoscaler may set it"),
    Departure("ModelDeployment spec.replicas", "default", "1", "an autoscaler may set it"),
    Departure("ModelDeployment spec.engines", "required", "", "either here or in the template"),
    Departure("ModelDeployment spec.template", "required", "", "either here or in the spec"),
    Departure("ModelDeployment *serving.mode", "required", "", "it has a default"),
    Departure(
        "ModelService spec.endpoints[].weight",
        "default",
        "",
        "no weight anywhere means an even split over endpoints",
    ),
    Departure("InferenceCluster *.gke.project", "required", "", "v0.3.1 reads it from the provider"),
    Departure("GKECluster spec.project", "required", "", "v0.3.1 reads it from the provider"),
    Departure("InferenceCluster *[].fabric", "type", "word or object", "a word in v0.1.0, then an object"),
    Departure("InferenceCluster *[].fabric", "default", "", "absent reads as None in both forms"),
    Departure("InferenceCluster *[].fabric", "limits", "", "the words are among the forms (anyOf)"),
    Departure(
        "InferenceGateway spec.backend",
        "limits",
        "one of Envoy, Traefik, EnvoyGateway, GatewayAPI",
        "Envoy needs no Helm, and a Gateway may be there",
    ),
    Departure(
        "InferenceClass spec.provisioning.provider",
        "limits",
        "one of GKE, EKS, AKS, Nebius, Vultr",
        "v0.3.1 has more clouds",
    ),
    Departure(
        "InferenceCluster spec.cluster.source",
        "limits",
        "one of GKE, EKS, AKS, Nebius, Vultr, Existing",
        "v0.3.1 has more clouds",
    ),
    Departure("*s[].type", "limits", _SECRET_TYPES, "one type for the words of both versions and all clouds"),
    Departure(
        "*Cluster spec.kubernetesVersion",
        "limits",
        "1..32 chars; a version",
        "a version of GKE can have more than 16 characters, such as 1.35.1-gke.1234000",
    ),
    Departure("*Cluster spec.nodePools[].minNodeCount", "default", "", "absent reads as 0"),
    # What could never work.
    Departure("*[].cel", "required", "required", "a selector must have a field, and this is its only one"),
    Departure("*members[].template.spec", "required", "required", "there is no engine without it"),
    Departure(f"{_POD}containers", "limits", "1..8 items", "containers beside the engine"),
    Departure(
        f"{_POD}containers[].name", "limits", "1..63 chars; a DNS label", "containers beside the engine"
    ),
    Departure(
        f"{_POD}containers[].image",
        "limits",
        r"1..512 chars; pattern ^[^\x00-\x20\x7f-\xa0]+$",
        "images have no blanks, and no registry takes a longer name, tag and digest",
    ),
    Departure(f"{_POD}containers[].env", "limits", "≤256 items", BOUNDED),
    Departure(
        f"{_POD}containers[].env[].name",
        "limits",
        "1..253 chars; pattern ^[ -<>-~]+$",
        "what Kubernetes lets a variable be called",
    ),
    Departure(
        f"{_POD}*.fieldPath",
        "limits",
        r"1..512 chars; pattern ^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])"
        r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$",
        "the fields that Kubernetes lets a variable read",
    ),
    Departure(f"{_POD}*.fieldRef.apiVersion", "limits", "≤2 chars; pattern ^v1$", "the one version of a pod"),
    Departure(f"{_POD}containers[].command", "limits", "≤1024 items; each item ≤32768 chars", BOUNDED),
    Departure(f"{_POD}containers[].args", "limits", "≤1024 items; each item ≤32768 chars", BOUNDED),
    Departure(f"{_POD}*.env[].value", "limits", "≤32768 chars", BOUNDED),
    Departure(f"{_POD}imagePullSecrets", "limits", "≤16 items", BOUNDED),
    Departure("ModelDeployment *tolerations", "limits", "≤64 items", BOUNDED),
    Departure("InferenceCluster spec.taints", "limits", "≤64 items; map-list keyed by key+effect", BOUNDED),
    Departure("InferenceClass spec.description", "limits", "≤1024 chars", BOUNDED),
    Departure(f"{_POD}*KeyRef.name", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure(f"{_POD}*KeyRef.key", "limits", "1..253 chars; a Secret's key", NAMES_A_KEY),
    Departure(f"{_POD}imagePullSecrets[].name", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure(
        "*metadata.labels", "limits", "≤32 keys; each value ≤63 chars; a label value", "a rule of v0.3.1"
    ),
    Departure("*metadata.annotations", "limits", "≤32 keys; each value ≤8192 chars", "a rule of v0.3.1"),
    Departure(
        "*.matchLabels",
        "limits",
        "≤32 keys; each value ≤63 chars; a label value",
        "no object has another label; bounded, because a rule walks the keys",
    ),
    Departure(
        "*tolerations[].key",
        "limits",
        f"≤317 chars; pattern ^$|{fields.QUALIFIED_NAME}",
        "no taint has another key",
    ),
    Departure("*tolerations[].value", "limits", "≤63 chars; a label value", "no taint has another value"),
    Departure("* spec.taints[].key", "limits", "1..317 chars; a label key", "as for the taints of nodes"),
    Departure("* spec.taints[].value", "limits", "≤63 chars; a label value", "as for the taints of nodes"),
    Departure(
        "Model* spec*engines[].name", "limits", "1..63 chars; a DNS label", "workloads are named after it"
    ),
    Departure("Model*.devices[].name", "limits", "1..63 chars; a DNS label", "a name in a ResourceClaim"),
    Departure(
        "Model*.deviceRequests[].name", "limits", "1..63 chars; a DNS label", "a name in a ResourceClaim"
    ),
    Departure("InferenceClass spec.devices[].name", "limits", "1..63 chars; a DNS label", "as for requests"),
    Departure("* spec*.deviceClassName", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure(
        "* spec*[].driver", "limits", "1..253 chars; a driver's name", "no DRA driver has another name"
    ),
    Departure(
        "*{key}.version", "limits", "≤32 chars; a semantic version", "malformed, it would match nothing"
    ),
    Departure("* spec*{key}.value", "limits", "1..32 chars; a quantity", "malformed, it would match nothing"),
    Departure("*.modelCacheRef.name", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("ModelReplica spec.clusterName", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("*.nodePoolName", "limits", "1..63 chars; a label value", "nodes are selected by it"),
    Departure("*nodePools[].className", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("InferenceCluster spec.nodePools[].name", "limits", "1..40 chars; a label value", "a label"),
    Departure("*ecretRef.name", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("*ecretRef.key", "limits", "1..253 chars; a Secret's key", NAMES_A_KEY),
    Departure("*.authSecret.name", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("*.authSecret.key", "limits", "1..253 chars; a Secret's key", NAMES_A_KEY),
    Departure("*credentials.name", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("* spec*.storageClassName", "limits", "1..253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("*secrets[].name", "limits", "≤253 chars; a DNS subdomain", NAMES_AN_OBJECT),
    Departure("*secrets[].namespace", "limits", "≤63 chars; a DNS label", NAMES_AN_OBJECT),
    Departure("*secrets[].key", "limits", "≤253 chars; a Secret's key", NAMES_A_KEY),
    Departure("ModelCache spec.huggingFace.sizeGiB", "required", "", "an estimate, from the source's sizes"),
    Departure(
        "ModelCache spec.source",
        "limits",
        "one of HuggingFace, HTTP, S3, OCI, NGC, PersistentVolumeClaim",
        "the reference has one source",
    ),
    Departure(
        "ModelCache spec.huggingFace.repo",
        "limits",
        "1..193 chars; pattern ^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)?$",
        "what the hub lets a repository be called; it is on a command line",
    ),
    Departure(
        "ModelCache spec.huggingFace.revision",
        "limits",
        "1..255 chars; pattern ^[A-Za-z0-9_][-A-Za-z0-9_./]*$",
        "what git lets a revision be called; it is on a command line",
    ),
    Departure(
        "ModelEndpoint spec.url",
        "limits",
        r"1..2048 chars; pattern ^https?://(\[[0-9a-fA-F:.]+\]|[^\x00-\x20\x7f-\xa0/?#@:\[\]]+)(:[0-9]{1,5})?([/?#][^\x00-\x20\x7f-\xa0]*)?$",
        "anything else is an invalid URL, which was said only in a condition",
    ),
    Departure(
        "ModelEndpoint spec.rewritePath",
        "limits",
        r"≤1024 chars; pattern ^/[^\x00-\x20\x7f-\xa0?#]*$",
        "a path begins at /",
    ),
    Departure("ModelService spec.endpoints", "limits", "1..64 items", BOUNDED),
    Departure("InferenceGateway *.traefik.version", "limits", "1..64 chars; a version", "a chart's version"),
    Departure(
        "InferenceGateway *.addressPool",
        "limits",
        "1..128 chars; pattern ^[0-9a-fA-F.:]+(-[0-9a-fA-F.:]+|/[0-9]{1,3})$",
        "MetalLB takes a range or a CIDR",
    ),
    # What the kinds that provision a cluster, or the cloud, would refuse later.
    Departure(
        "InferenceCluster spec.cluster.*.kubernetesVersion", "limits", "1..32 chars; a version", REFUSED_LATER
    ),
    Departure("*[].zones", "limits", "≤8 items; each item 1..63 chars", REFUSED_LATER),
    Departure("InferenceClass *.machineType", "limits", "1..63 chars", REFUSED_LATER),
    Departure("InferenceClass *.instanceType", "limits", "1..63 chars", REFUSED_LATER),
    Departure("InferenceClass *.vmSize", "limits", "1..63 chars", REFUSED_LATER),
    Departure("InferenceClass *.diskSizeGb", "limits", "10..65536", REFUSED_LATER),
    Departure("*.accelerator.type", "limits", "1..63 chars; a label value", "a label of nodes"),
    Departure("*.acceleratorType", "limits", "1..63 chars; a label value", "a label of nodes"),
    Departure("*Cluster spec.nodePools[].name", "limits", "1..40 chars; a DNS label", "clouds refuse others"),
    Departure("*Cidr", "limits", "≤18 chars; a CIDR", "a range"),
    Departure("*.subnetCidrs", "limits", "2..6 items; each item ≤18 chars; a CIDR", "ranges"),
    Departure("ServingStack spec.versions.*", "limits", "1..32 chars; a version", "a chart's version"),
    Departure("ServingStack *.className", "limits", "1..63 chars; a DNS label", NAMES_AN_OBJECT),
    Departure("ServingStack *listeners[].name", "limits", "1..63 chars; a DNS subdomain", "as in a Gateway"),
    # What we report.
    Departure("InferenceCluster status.providerConfigRef.name", "required", "required", "never empty"),
    Departure("InferenceCluster status.gateway.address", "required", "required", "never empty"),
    Departure("ModelDeployment status.replicas.*", "required", "required", "written together"),
    Departure("ModelDeployment status.replicas.*", "limits", "≥0", "counts"),
    Departure("InferenceCluster status.gpuPools[].nodes", "limits", "≥0", "a count"),
    Departure("ModelCache status.clusters", "limits", "map-list keyed by name", "one entry for a cluster"),
    Departure("* status*.count", "limits", "1..64", OURS_TO_REPORT),
    Departure("* status*.count", "default", "1", OURS_TO_REPORT),
    Departure("* status*.claim", "default", "DRA", OURS_TO_REPORT),
    Departure("* status*.driver", "limits", "1..253 chars; a driver's name", OURS_TO_REPORT),
    Departure("* status*[].name", "limits", "1..63 chars; a DNS label", OURS_TO_REPORT),
    Departure("* status*{key}.value", "limits", "1..32 chars; a quantity", OURS_TO_REPORT),
    Departure("* status*.deviceClassName", "limits", "1..253 chars; a DNS subdomain", OURS_TO_REPORT),
    Departure("* status*.storageClassName", "limits", "1..253 chars; a DNS subdomain", OURS_TO_REPORT),
)

ADDITIONS = {
    "ModelDeployment spec.priorityClassName": "priorities between teams",
    "Model* *members[].template.spec.initContainers*": "containers beside the engine",
    "Model* *members[].template.spec.volumes*": "ephemeral volumes, and the size of shared memory",
    "Model* *members[].template.spec.containers[].volumeMounts*": "ephemeral volumes",
    "Model* *members[].template.spec.containers[].resources*": "processors and memory of a container",
    "Model* *members[].template.spec.containers[].*Probe*": "probes of the author",
    "Model* *members[].template.spec.containers[].lifecycle*": "hooks of the author",
    "InferenceGateway spec.aliases*": "one URL for all models",
    "InferenceGateway spec.authentication": "API keys",
    "InferenceGateway spec.keyGrants*": "API keys",
    "InferenceGateway spec.numTrustedHops": "proxies in front of the gateway",
    "InferenceGateway spec.pricing*": "prices, for budgets in money",
    "InferenceGateway spec.rateLimitService*": "limits that are exact over several gateways",
    "InferenceGateway spec.tls*": "certificates of the gateway",
    "InferenceGateway status.url": "one URL for all models",
    "InferenceGateway status.clusterGateways": "addresses that only endpoints of replicas lead to",
    "* status.observedGeneration": "tools that wait for an edit read it",
    "ModelService spec.aliases": "one URL for all models",
    "ModelService spec.hold*": "requests that wait for a replica",
    "ModelService spec.endpoints[].budget*": "budgets of tiers",
    "InferenceCluster spec.gateway*": "mutual TLS between gateways",
    "InferenceCluster status.gateway.*": "mutual TLS between gateways",
    "ModelEndpoint spec.mutualTLS*": "mutual TLS between gateways",
    "ModelEndpoint spec.credential*": "credentials of providers",
    "ModelDeployment spec.rollout*": "limits of rollouts",
    "ModelDeployment status.rollout*": "limits of rollouts",
    "ModelDeployment spec.standbyFor*": "preference between deployments",
    "ModelDeployment status.standby*": "preference between deployments",
    "ModelDeployment spec.placement*": "placement by cost",
    "ModelDeployment status.cost*": "placement by cost",
    "ModelDeployment status.summary*": "columns of kubectl get, as of a ModelCache",
    "ModelDeployment spec.failover*": "replacement of replicas on lost clusters",
    "ModelDeployment status.failover*": "replacement of replicas on lost clusters",
    "*Cluster spec.nodePools[].spot": "spot nodes",
    "InferenceCluster status.gpuPools[].spot": "spot nodes",
    "InferenceCluster status.gpuPools[].blockedUntil": "spot nodes",
    "InferenceCluster status.evictionNotices*": "spot nodes",
    "ModelReplica status.eviction*": "spot nodes",
    "ModelDeployment status.replicas.spot": "spot nodes",
    "InferenceClass spec.pricing*": "placement by cost",
    "InferenceCluster spec.nodePools[].pricing*": "placement by cost",
    "InferenceCluster status.gpuPools[].pricing*": "placement by cost",
    "ModelDeployment spec.regions": "region rules",
    "ModelDeployment spec.serving.connector": "how the KV cache gets from prefill to decode",
    "ModelDeployment spec.serving.picker*": "scorers of the endpoint picker",
    "ModelDeployment spec.template.spec.serving.connector": "how the KV cache gets from prefill to decode",
    "ModelDeployment spec.template.spec.serving.picker*": "scorers of the endpoint picker",
    "ModelReplica spec.serving.connector": "how the KV cache gets from prefill to decode",
    "ModelReplica spec.serving.picker*": "scorers of the endpoint picker",
    "ModelDeployment spec.template.spec.regions": "region rules",
    "ModelCache spec.regions": "region rules",
    "ModelEndpoint spec.region": "region rules",
    "ModelEndpoint spec.model": "the name of a model at a provider",
    "ModelService spec.endpoints[].priority": "tiers of endpoints",
    "ModelService spec.endpoints[].maxOutstandingRequests": "tiers by saturation",
    "ModelService spec.endpoints[].maxQueuedRequests": "tiers by saturation",
    "ModelService spec.balancing*": "choice of an endpoint by load and affinity",
    "InferenceCluster spec.servingStack*": "the extent of the serving stack, and settings of its components",
    "InferenceCluster spec.cluster.existing.installerSecretRef*": "an identity that installs",
    "InferenceCluster spec.cluster.gke.deletionProtection": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.gke.filestore*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.gke.gpuDriver": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.gke.imageType": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.gke.networking*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.gke.releaseChannel": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.gke.systemPool*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.eks.networking*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.eks.systemPool*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.eks.amiType": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.eks.gpuAmiType": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.aks.fileShares*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.aks.gpuDriver": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.aks.networking*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.aks.systemPool*": "settings of the cloud, the same in both kinds",
    "AKSCluster spec.fileShares*": "the reference composes constants",
    "AKSCluster spec.gpuDriver": "the reference composes a constant",
    "AKSCluster spec.networking.podCidr": "the reference composes a constant",
    "AKSCluster spec.networking.serviceCidr": "the reference composes a constant",
    "AKSCluster spec.systemPool*": "the reference composes constants",
    "InferenceCluster spec.cluster.nebius.bootDiskType": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.nebius.fileSystem*": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.nebius.systemPool*": "settings of the cloud, the same in both kinds",
    "NebiusCluster spec.bootDiskType": "the reference composes a constant",
    "NebiusCluster spec.fileSystem*": "the reference composes constants",
    "NebiusCluster spec.systemPool*": "the reference composes constants",
    "InferenceCluster spec.cluster.vultr.highAvailability": "settings of the cloud, the same in both kinds",
    "InferenceCluster spec.cluster.vultr.systemPool*": "settings of the cloud, the same in both kinds",
    "VultrCluster spec.highAvailability": "the reference composes a constant",
    "VultrCluster spec.systemPool*": "the reference composes constants",
    "EKSCluster spec.networking.privateSubnetCidrs": "the reference computes them",
    "EKSCluster spec.networking.zones": "the reference computes them",
    "EKSCluster spec.amiType": "the reference composes a constant",
    "EKSCluster spec.gpuAmiType": "the reference composes a constant",
    "EKSCluster spec.systemPool*": "the reference composes constants",
    "GKECluster spec.deletionProtection": "the reference composes a constant",
    "GKECluster spec.filestore*": "the reference composes constants",
    "GKECluster spec.gpuDriver": "the reference composes a constant",
    "GKECluster spec.imageType": "the reference composes a constant",
    "GKECluster spec.releaseChannel": "the reference composes a constant",
    "GKECluster spec.systemPool*": "the reference composes constants",
    "*Cluster spec.nodePools[].taints*": "taints of the InferenceCluster's pool",
    "InferenceCluster spec.capacitySource": "capacity as it is observed",
    "InferenceCluster status.gpuPools[].usable*": "capacity as it is observed",
    "InferenceCluster spec.localObjects*": "names that pods may use of the cluster itself",
    "InferenceCluster spec.podKeys*": "labels and annotations that pods may have there",
    "InferenceCluster spec.nodePools[].accounting": "whether replicas share nodes",
    "InferenceCluster spec.nodePools[].taints*": "taints that an operator gave the nodes",
    "InferenceCluster spec.nodePools[].fabric.name": "pools that a gang may span",
    "ModelCache spec.huggingFace.files": "weights without code",
    "ModelCache spec.huggingFace.endpoint": "weights of a mirror",
    "ModelCache spec.http*": "weights of web servers",
    "ModelCache status.estimate*": "the size that volumes get if spec has none",
    "ModelCache spec.oci*": "weights of a registry",
    "ModelCache spec.huggingFace.mirrors": "servers with the same files, such as another cluster's cache",
    "ModelCache spec.ngc*": "weights of NVIDIA NGC",
    "ModelCache spec.persistentVolumeClaim*": "weights of a volume that is there",
    "ModelCache spec.s3*": "weights of a bucket",
    "InferenceCluster status.capabilities*": "what was found on the cluster",
    "InferenceCluster status.credential": "the credential of the kubeconfig, if it is known to expire",
    "InferenceCluster status.credential.expirationTime": "when it expires, as the cluster granted it",
    "InferenceCluster spec.poolTaints*": "cordon and drain of single pools",
    "* spec.podScheduler*": "another scheduler of pods",
    "InferenceCluster spec.drain*": "how many replicas a drain moves at a time",
    "InferenceCluster status.drain*": "progress of a drain",
    "ModelReplica status.engineFailures*": "failures of gangs, whose pods do not outlive them",
    "ModelReplica status.unhealthyDevices*": "health of devices, as pods report it",
    "InferenceCluster status.unreachableSince": "since when its API server has not answered",
    "InferenceCluster status.gpuPools[].accounting": "for the scheduler",
    "InferenceCluster status.gpuPools[].fabric": "for the scheduler",
    "InferenceGateway spec.allowedDestinations": "addresses that endpoints may lead to, by the platform team",
    "InferenceGateway spec.deniedDestinations": "addresses that endpoints must not lead to",
    "InferenceGateway spec.envoyGateway*": "another gateway that can be installed",
    "InferenceGateway status.backend": "what carries the traffic, which a local fleet chooses itself",
    "Model* spec*serving.routing": "an endpoint picker for mode Unified",
    "ModelDeployment spec.tolerations*": "v0.1.0 has no tolerations, and its shape may have them",
    "ModelDeployment status.selector": "for autoscalers",
    "ModelDeployment status.replicas.updated": "how far a change of the template is",
    "ModelReplica spec.backend": "what runs the engines, as their cluster chose",
    "ModelReplica spec.draining": "its endpoint is withdrawn before it goes",
    "ModelReplica status.clusters": "where objects may have to be deleted",
    "ModelCache status.clusters[].artifact": "what was staged, to stage a change",
    "*Cluster status.secrets[].namespace": "one shape of Secret for all clouds",
    "EKSCluster status.cache.fileSystem": "the StorageClass is part of the serving stack",
    "ServingStack spec.clusterName": "the reference has provider configurations in its place",
    "ServingStack spec.profile": "the extent of the stack",
    "ServingStack spec.components*": "versions and values of single components",
    "ServingStack spec.storageClass*": "the reference composes the StorageClass with the cluster",
    "ServingStack status.components*": "the state of each component",
    "ServingStack status.clusters": "where objects may have to be deleted",
}

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


_REPLICA = {"v0.1.0": "spec", "v0.3.1": "spec.template.spec"}
"""Where a deployment has its replica: the ``@`` of its rows."""


def _rows(module):
    """Yield each version's fields, as ``path, row, version``."""
    for line in (CONTRACT / f"{module}.txt").read_text(encoding="utf-8").splitlines()[1:]:
        path, type_, required, default, limits, versions = (cell.strip() for cell in line.split(" |"))
        row = Row(type_, required, default, limits)
        for version in VERSIONS:
            if versions in ("both", version):
                yield path, row, version


OURS_ALONE = {
    "DeviceQuota": "quotas of teams",
    "InferenceAutoscaler": "scaling by the gateway's counts",
    "ModelKey": "API keys",
}
"""Kinds that the reference implementation does not have."""


def _contract(kind):
    if kind.name in OURS_ALONE:
        return
    for path, row, version in _rows(kind.module):
        here = path.replace("@", _REPLICA[version])
        yield here, row, version
        if here.endswith("members[].template"):
            for inner, pod, since in _rows("pod_template"):
                if since == version:
                    yield here.removesuffix("template") + inner, pod, version


def _ours(kind):
    whole = build_schema(kind)["properties"]
    found: dict[str, Any] = {}
    for section in ("spec", "status"):
        found |= dict(_fields(section, whole[section]))
    return {path: row for path, row in found.items() if not path.startswith("status.conditions")}


def _fields(path, value):
    for name, inner in value.get("properties", {}).items():
        required = "required" if name in value.get("required", ()) else ""
        default = inner.get("default", "")
        yield (
            f"{path}.{name}",
            Row(
                _type(inner),
                required,
                f"[{', '.join(default)}]" if isinstance(default, list) else str(default),
                _limits(inner),
            ),
        )
        below, mark = inner, f"{path}.{name}"
        while "items" in below or "additionalProperties" in below:
            mark += "[]" if "items" in below else "{key}"
            below = below.get("items") or below["additionalProperties"]
        yield from _fields(mark, below)


def _type(value):
    if "items" in value:
        return f"[]{_type(value['items'])}"
    if "additionalProperties" in value:
        return f"map[string]{_type(value['additionalProperties'])}"
    return value.get("type", "word or object")


def _limits(value):
    limits = [f"one of {', '.join(value['enum'])}"] if "enum" in value else []
    for suffix, unit in (("imum", ""), ("Length", " chars"), ("Items", " items"), ("Properties", " keys")):
        least, most = value.get(f"min{suffix}"), value.get(f"max{suffix}")
        if least is None and most is None:
            continue
        if most is None:
            limits.append(f"≥{least}{unit}")
        elif least is None:
            limits.append(f"≤{most}{unit}")
        else:
            limits.append(f"exactly {least}{unit}" if least == most else f"{least}..{most}{unit}")
    if "x-kubernetes-list-map-keys" in value:
        limits.append(f"map-list keyed by {'+'.join(value['x-kubernetes-list-map-keys'])}")
    for part, name in (("items", "item"), ("additionalProperties", "value")):
        if part in value and value[part].get("type") == "string" and _limits(value[part]):
            limits.append(f"each {name} {_limits(value[part])}")
    if "pattern" in value:
        limits.append(fields.FORMS.get(value["pattern"], f"pattern {value['pattern']}"))
    return "; ".join(limits)


def _differences(kind):
    ours = _ours(kind)
    for path, row, _ in _contract(kind):
        for aspect in Row.__slots__:
            said = getattr(ours[path], aspect) if path in ours else "absent"
            if said != getattr(row, aspect):
                yield Difference(f"{kind.name} {path}", aspect, said)


def _means(pattern, name):
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None


def _explains(departure, difference):
    return (departure.aspect, departure.ours) == (difference.aspect, difference.ours) and _means(
        departure.fields, difference.field
    )


@every_kind
def test_every_field_of_the_reference_is_as_it_says_or_departs_for_a_reason(kind):
    unexplained = {
        difference
        for difference in _differences(kind)
        if not any(_explains(departure, difference) for departure in DEPARTURES)
    }
    assert unexplained == set()


def test_every_departure_is_one():
    differences = {difference for kind in KINDS for difference in _differences(kind)}
    idle = [
        departure
        for departure in DEPARTURES
        if not any(_explains(departure, difference) for difference in differences)
    ]
    assert idle == []


def test_every_field_that_only_we_have_is_listed():
    ours = {f"{kind.name} {path}" for kind in KINDS for path in _ours(kind)}
    theirs = {f"{kind.name} {path}" for kind in KINDS for path, _, _ in _contract(kind)}
    added = {field for field in ours - theirs if field.partition(" ")[0] not in OURS_ALONE}
    unlisted = {field for field in added if not any(_means(each, field) for each in ADDITIONS)}
    idle = {each for each in ADDITIONS if not any(_means(each, field) for field in added)}
    assert (unlisted, idle) == (set(), set())


INDEX = {
    "DeviceQuota": ("Cluster", "devicequotas", "dq", "COHORT .spec.cohort"),
    "InferenceAutoscaler": (
        "Namespaced",
        "inferenceautoscalers",
        "ia",
        (
            "DEPLOYMENT .spec.deploymentRef.name, MIN .spec.minReplicas, MAX .spec.maxReplicas, "
            "REPLICAS .status.replicas.desired"
        ),
    ),
    "InferenceGateway": (
        "Cluster",
        "inferencegateways",
        "ig",
        "GATEWAY .spec.backend, ADDRESS .status.address",
    ),
    "InferenceClass": ("Cluster", "inferenceclasses", "icl", ""),
    "InferenceCluster": (
        "Cluster",
        "inferenceclusters",
        "ic",
        "SOURCE .spec.cluster.source, GATEWAY .status.gateway.address",
    ),
    "ModelDeployment": ("Namespaced", "modeldeployments", "md", "REPLICAS .status.replicas.ready"),
    "ModelKey": ("Namespaced", "modelkeys", "mk", ""),
    "ModelReplica": ("Namespaced", "modelreplicas", "mr", "CLUSTER .spec.clusterName"),
    "ModelService": ("Namespaced", "modelservices", "ms", "ADDRESS .status.address"),
    "ModelEndpoint": ("Namespaced", "modelendpoints", "me", "URL .spec.url"),
    # The reference reads SOURCE from a field that does not exist, and has two columns READY.
    "ModelCache": (
        "Namespaced",
        "modelcaches",
        "mc",
        "SOURCE .spec.huggingFace.repo, STAGED .status.summary.ready",
    ),
    "GKECluster": ("Namespaced", "gkeclusters", "gke", "REGION .spec.region"),
    "EKSCluster": ("Namespaced", "eksclusters", "eks", "REGION .spec.region"),
    "AKSCluster": ("Namespaced", "aksclusters", "aks", "LOCATION .spec.location"),
    "NebiusCluster": ("Namespaced", "nebiusclusters", "mk8s", ""),
    "VultrCluster": ("Namespaced", "vultrclusters", "vke", "REGION .spec.region"),
    "ServingStack": ("Namespaced", "servingstacks", "ss", "GATEWAY .status.gateway.address"),
}
"""Scope, plural, short name and columns of each kind."""


def test_every_kind_is_listed_as_the_reference_lists_it():
    assert {
        kind.name: (
            "Namespaced" if kind.namespaced else "Cluster",
            kind.plural,
            kind.short,
            ", ".join(f"{column.name} {column.path}" for column in kind.own_columns),
        )
        for kind in KINDS
    } == INDEX


def test_the_kinds_that_provision_clusters_have_a_group_of_their_own():
    groups = {kind.name: kind.api_version for kind in KINDS}
    assert {name for name, group in groups.items() if group == "infrastructure.modelplane.ai/v1alpha1"} == {
        "AKSCluster",
        "EKSCluster",
        "GKECluster",
        "NebiusCluster",
        "ServingStack",
        "VultrCluster",
    }
    assert set(groups.values()) == {"modelplane.ai/v1alpha1", "infrastructure.modelplane.ai/v1alpha1"}


REASONS = {
    "InferenceGateway": {"ControllerReady": "ControllerHealthy Installing"},
    "InferenceClass": {"Accepted": "Available"},
    "InferenceCluster": {
        "ClusterReady": "ClusterRunning WaitingForClasses InvalidNodePool Provisioning",
        "BackendReady": "BackendHealthy WaitingForCluster Installing",
    },
    "ModelDeployment": {
        "ReplicasScheduled": "ReplicasCreated NoClusters InvalidNodeSelector InsufficientCapacity Scheduling",
        "ReplicasReady": "AllReplicasReady NoReplicasScheduled ModelStarting",
        "ModelCacheResolved": "ModelCacheResolved ModelCacheUnresolved ModelCacheNotFound",
    },
    "ModelReplica": {
        "ModelAccepted": "Accepted WaitingForCluster Deploying",
        "ModelReady": "Serving WaitingForModel ModelStarting",
    },
    "ModelService": {
        "EndpointsResolved": "Resolved NoEndpoints",
        "RoutingReady": "RouteConfigured Configuring WaitingForGateway",
    },
    "ModelEndpoint": {"RoutingReady": "BackendConfigured WaitingForBackend InvalidURL"},
    "ModelCache": {
        "ClustersMatched": "Matched NoClusters",
        "ArtifactReady": "Staged NoClusters AuthSecretMissing Failed Partial Hydrating",
    },
}
"""The first reason of each condition is that of True."""


def test_every_reason_of_the_reference_is_given_by_the_same_condition():
    expected = {
        (kind, type_, place == 0, reason)
        for kind, conditions in REASONS.items()
        for type_, reasons in conditions.items()
        for place, reason in enumerate(reasons.split())
    }
    documented = {(kind, str(reason.type), reason.holds, str(reason)) for kind, reason in ROWS}
    assert expected - documented == set()
