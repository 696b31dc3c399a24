"""Pod policy: labels, annotations and variables that pods of teams do not have on a cluster.

Webhooks, container runtimes and networks of a cluster act on labels and annotations of pods: they add
containers, credentials, networks and devices. Schedulers of pods read queues and priorities from them, which
are the platform team's (`spec.podScheduler`). Variables of a container runtime select devices, past the
claims by which the scheduler counts them.
"""

from collections.abc import Iterator
from typing import Final

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.model_replica import ModelReplica
from modelplane.api.pod_scheduler import PodScheduler
from modelplane.api.rejected import Rejected

REFUSED_PREFIXES: Final = (
    # Security profiles and container runtimes.
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
    "io.containers.",
    "io.katacontainers.",
    "io.kubernetes.cri",
    "io.podman.",
    "run.oci.",
    # Devices.
    "cdi.k8s.io/",
    "hami.io/",
    "nvidia.com/",
    # Networks.
    "cni.projectcalico.org/",
    "k8s.ovn.org/",
    "k8s.v1.cni.cncf.io/",
    "ovn.kubernetes.io/",
    "v1.multus-cni.io/",
    # Containers that a webhook adds.
    "admission.datadoghq.com/",
    "config.linkerd.io/",
    "consul.hashicorp.com/",
    "dapr.io/",
    "inject.istio.io/",
    "instrumentation.opentelemetry.io/",
    "linkerd.io/",
    "proxy.istio.io/",
    "sidecar.istio.io/",
    "sidecar.opentelemetry.io/",
    "traffic.sidecar.istio.io/",
    "vault.hashicorp.com/",
    # Credentials of clouds.
    "aadpodidbinding",
    "azure.workload.identity/",
    "eks.amazonaws.com/",
    "iam.amazonaws.com/",
    "iam.gke.io/",
    # Queues, priorities and groups of schedulers of pods.
    "kai.scheduler/",
    "koordinator.sh/",
    "kueue.x-k8s.io/",
    "pod-group.scheduling.sigs.k8s.io",
    "quota.scheduling.koordinator.sh/",
    "run.ai/",
    "runai",
    "scheduling.k8s.io/",
    "scheduling.koordinator.sh/",
    "scheduling.run.ai/",
    "scheduling.volcano.sh/",
    "scheduling.x-k8s.io/",
    "volcano.sh/",
    "yunikorn.apache.org/",
    # Nodes that could not be drained or removed, and labels of Kubernetes' own controllers.
    "apps.kubernetes.io/",
    "batch.kubernetes.io/",
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "leaderworkerset.sigs.k8s.io/",
    "node.kubernetes.io/",
    "scheduler.alpha.kubernetes.io/",
    "statefulset.kubernetes.io/",
)
"""Prefixes of the keys of labels and annotations that no cluster accepts, unless it says so."""

OF_POD_SCHEDULERS: Final = ("applicationId", "pod-group-name", "priorityClassName", "project", "queue")
"""Keys without a domain that schedulers read too. They are refused only where there is a podScheduler."""

REFUSED_VARIABLES: Final = frozenset(
    {
        "AMD_VISIBLE_DEVICES",
        "ASCEND_RUNTIME_OPTIONS",
        "ASCEND_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "MTHREADS_VISIBLE_DEVICES",
        "NVIDIA_GDRCOPY",
        "NVIDIA_GDS",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_MOFED",
        "NVIDIA_NVSWITCH",
        "NVIDIA_VISIBLE_DEVICES",
    }
)
"""Variables by which container runtimes give a container devices."""


def rejected(replica: ModelReplica, cluster: InferenceCluster) -> Rejected | None:
    """Return the first label, annotation or variable that is refused; None if all are accepted."""
    return next(_rejections(replica, cluster), None)


def _scheduler(replica: ModelReplica, cluster: InferenceCluster) -> list[PodScheduler]:
    """Return the scheduler of a replica's pods, and the one that new replicas get."""
    return [each for each in (replica.spec.pod_scheduler, cluster.spec.pod_scheduler) if each]


def _of_scheduler(replica: ModelReplica, cluster: InferenceCluster) -> Iterator[str]:
    """Yield the prefixes of the keys that the platform team sets: a scheduler reads others beside them."""
    for scheduler in _scheduler(replica, cluster):
        for key in (*scheduler.labels, *scheduler.annotations):
            domain, slash, _ = key.partition("/")
            yield f"{domain}/" if slash else key


def _rejections(replica: ModelReplica, cluster: InferenceCluster) -> Iterator[Rejected]:
    keys = cluster.spec.pod_keys
    prefixes = sorted({*REFUSED_PREFIXES, *keys.refuse, *_of_scheduler(replica, cluster)} - {*keys.accept})
    exact = {*OF_POD_SCHEDULERS} - {*keys.accept} if _scheduler(replica, cluster) else set()
    for engine in replica.spec.engines:
        for member in engine.members:
            metadata = member.template.metadata
            named = [("label", key) for key in metadata.labels]
            named += [("annotation", key) for key in metadata.annotations]
            for what, key in sorted(named):
                known = key if key in exact else ""
                if prefix := known or next((each for each in prefixes if key.startswith(each)), ""):
                    yield Rejected(
                        f'{what} "{key}" of the pods of engine "{engine.name}" is not accepted by '
                        f'InferenceCluster "{cluster.metadata.name}": remove it, or let the platform team '
                        f'list "{prefix}" in spec.podKeys.accept there'
                    )
            for variable in member.template.spec.variables:
                if variable.name in REFUSED_VARIABLES:
                    yield Rejected(
                        f'variable "{variable.name}" of engine "{engine.name}" would select devices past its '
                        "claims: remove it, and request devices in nodeSelector"
                    )
