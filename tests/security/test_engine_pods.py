"""Pods of engines: no token, no privileges, no devices past their claims, nothing that a cluster adds."""

from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.fields.pods.pod_keys import ACCEPTED_KEYS, REFUSED_VARIABLES, TEAMS_DOMAIN
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.replica.backends.workload import with_spec_hash
from support.goldens import GOLDENS
from support.replicas import cluster, composed, engine, gang, member, replica

KEY = "model-serving-qwen"


def workload(said: Composition, key: str = KEY) -> dict[str, Any]:
    [found] = (child.manifest for child in said.children if isinstance(child, Desired) and child.key == key)
    return dict(found)


def templates(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    spec = manifest["spec"]
    if "template" in spec:
        return [spec["template"]]
    return [spec["leaderWorkerTemplate"][name] for name in ("leaderTemplate", "workerTemplate")]


@pytest.mark.parametrize(("owner", "key"), [(replica(), KEY), (replica(gang()), "model-gang-qwen")])
def test_an_engine_has_no_token_and_gains_no_privileges(owner: Any, key: str) -> None:
    for template in templates(workload(composed(owner), key)):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
        assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}


def former(manifest: dict[str, Any], *, hardened: bool = False) -> dict[str, Any]:
    """Return a workload as version 0.3.0 wrote it, or 0.2.0: without the fields that came later."""
    written = {**manifest, "metadata": {key: manifest["metadata"][key] for key in ("name", "namespace")}}
    for template in templates(written):
        container = template["spec"]["containers"][0]
        container["args"] = [each for each in container.get("args", ()) if "--shutdown-timeout" not in each]
        if not container["args"]:
            del container["args"]
        if "exec" in container["lifecycle"]["preStop"]:
            container["lifecycle"]["preStop"] = {"sleep": {"seconds": 60}}
        if not hardened:
            del template["spec"]["automountServiceAccountToken"], template["spec"]["securityContext"]
            del container["securityContext"]
    return dict(with_spec_hash(written))


@pytest.mark.parametrize("hardened", [True, False], ids=["0.3.0", "0.2.0"])
@pytest.mark.parametrize(
    ("shape", "key"), [(engine, KEY), (gang, "model-gang-qwen")], ids=["one pod", "a gang"]
)
def test_pods_of_an_earlier_version_are_not_replaced_for_it(shape: Any, key: str, hardened: bool) -> None:
    there = former(workload(composed(replica(shape())), key), hardened=hardened)
    assert workload(composed(replica(shape()), {key: there}), key) == there
    scaled = workload(composed(replica(shape(copies=3)), {key: there}), key)
    assert templates(scaled) == templates(there), "more copies replace no pod"
    assert scaled["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("case", "key", "written_hash"),
    [
        pytest.param("standalone", KEY, "7cd9dae5f4", id="0.2.0"),
        pytest.param("standalone", KEY, "ae3c266201", id="0.3.0"),
        pytest.param(
            "kserve-gang-with-cache", "model-kserve-qwen3-coder.2", "516e4a5bf8", id="0.8.0, KServe"
        ),
        pytest.param("prefill-decode-by-sglang", "model-serving-prefill", "8908b94343", id="0.8.0, SGLang"),
        pytest.param("prefill-decode-by-sglang", "model-serving-decode", "dc5b56952f", id="0.8.0, decode"),
        pytest.param("gang-with-cache", "model-gang-qwen3-coder", "6dfcccf379", id="0.8.0, a gang"),
    ],
)
def test_a_workload_of_an_earlier_version_is_recognized(case: str, key: str, written_hash: str) -> None:
    wire = GOLDENS.input(f"model_replica/{case}")
    metadata = {"name": "qwen", "annotations": {labels.SPEC_HASH: written_hash}}
    written = {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1}}
    said = composed(decode_as(ModelReplica, wire["owner"]), {key: written}, **wire["required"])
    assert workload(said, key)["metadata"]["annotations"] == {labels.SPEC_HASH: written_hash}


def test_an_edit_gives_pods_of_an_earlier_version_the_fields() -> None:
    there = former(workload(composed(replica())))
    edited = replica(engine("qwen", member(args=["--other"])))
    [template] = templates(workload(composed(edited, {KEY: there})))
    assert template["spec"]["automountServiceAccountToken"] is False


def labelled(**metadata: dict[str, str]) -> Any:
    shape = member()
    shape["template"]["metadata"] = metadata
    return replica(engine("qwen", shape))


def refused(said: Composition) -> tuple[str, str]:
    condition = next(each for each in said.conditions if each.type == "ModelAccepted")
    assert not condition.holds
    return condition.reason, condition.message


ACTED_UPON = {
    "a device of the node": "devices.nri.io/container.engine",
    "a device by its name": "cdi.k8s.io/gpus",
    "a share of a GPU": "gpu-fraction",
    "memory of a GPU": "ALIYUN_COM_GPU_MEM_IDX",
    "a role of a cloud": "k8s.aliyun.com/eci-ram-role-name",
    "an identity of a cloud": "aadpodidbinding",
    "another role of a cloud": "iam.amazonaws.com/role",
    "a container of a mesh": "kuma.io/sidecar-injection",
    "a container of another mesh": "sidecar.istio.io/inject",
    "a network": "cni.cilium.io/mac-address",
    "another network": "k8s.v1.cni.cncf.io/networks",
    "a runtime's limits": "io.kubernetes.cri-o.Devices",
    "a runtime's limits, without a prefix": "cpu-quota.crio.io",
    "a security profile": "container.apparmor.security.beta.kubernetes.io/engine",
    "a node that cannot be drained": "karpenter.sh/do-not-disrupt",
    "an accepted key with more": "prometheus.io/scrape-slow",
    "an accepted key as a prefix": "app.kubernetes.io/name.example.org",
    "a plain key with more": "team.kuma.io/sidecar-injection",
    "the domain of teams as the end": "kuma.teams.modelplane.ai/x",
    "a domain under that of documentation": "kuma.example.com/x",
}
"""Keys that add-ons of clusters act on, and keys that resemble accepted ones."""


@pytest.mark.parametrize("key", ACTED_UPON.values(), ids=ACTED_UPON)
@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_a_key_off_the_list_is_none_of_a_pod(key: str, what: str) -> None:
    there = workload(composed(replica()))
    said = composed(labelled(**{what: {key: "y"}}), {KEY: there})
    message = (
        f'InferenceCluster "east" does not accept {what.removesuffix("s")} "{key}" of the pods of engine '
        '"qwen": remove them, or ask the platform team to add them to spec.podKeys.accept there'
    )
    assert refused(said) == ("PodNotAccepted", message)
    assert said.children == (Keep(KEY),), "what runs stays"


def test_all_that_is_refused_is_named() -> None:
    shape = member(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    shape["template"]["metadata"] = {
        "labels": {"team": "x", "kuma.io/mesh": "x"},
        "annotations": {"devices.nri.io/a": "x", "cni.cilium.io/b": "x"},
    }
    other = member()
    other["template"]["metadata"] = {"annotations": {"kuma.io/c": "x"}}
    message = refused(composed(replica(engine("qwen", shape), engine("other", other))))[1]
    for named in (
        'annotation "cni.cilium.io/b", annotation "devices.nri.io/a", label "kuma.io/mesh" of the pods',
        'variable "NVIDIA_VISIBLE_DEVICES" of engine "qwen"',
        'annotation "kuma.io/c" of the pods of engine "other"',
    ):
        assert named in message


@pytest.mark.parametrize("key", [*ACCEPTED_KEYS, f"{TEAMS_DOMAIN}cost", "example.com/cost"])
@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_a_key_on_the_list_arrives(key: str, what: str) -> None:
    [template] = templates(workload(composed(labelled(**{what: {key: "y"}}))))
    assert template["metadata"][what][key] == "y"


QUEUES = (
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/priority-class",
    "kueue.x-k8s.io/pod-group-name",
    "kai.scheduler/queue",
    "kai.scheduler/node-pool",
    "runai/queue",
    "runai-queue",
    "run.ai/top-owner-metadata",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/preemptable",
    "scheduling.x-k8s.io/pod-group",
    "yunikorn.apache.org/queue",
    "quota.scheduling.koordinator.sh/name",
    "scheduling.k8s.io/group-name",
)


@pytest.mark.parametrize("key", QUEUES)
@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_no_author_of_a_template_chooses_a_queue_or_its_priority(key: str, what: str) -> None:
    there = workload(composed(replica()))
    said = composed(labelled(**{what: {key: "the-platforms"}}), {KEY: there})
    assert refused(said)[0] == "PodNotAccepted"
    assert said.children == (Keep(KEY),), "what runs stays"


def scheduled(**scheduler: Any) -> tuple[dict[str, Any]]:
    own = cluster()
    own["spec"]["podScheduler"] = scheduler
    return (own,)


@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_no_author_sets_a_key_beside_those_of_the_clusters_scheduler(what: str) -> None:
    there = scheduled(name="own-scheduler", labels={"example.com/queue": "serving"})
    own = labelled(**{what: {"example.com/priority": "highest"}})
    assert "example.com/priority" in refused(composed(own, None, cluster=there))[1]
    assert workload(composed(own)), "without that scheduler, the key means nothing"
    there[0]["spec"]["podKeys"] = {"accept": ["example.com/priority"]}
    assert workload(composed(own, None, cluster=there)), "the platform team accepts it"


@pytest.mark.parametrize(
    "key", ["applicationId", "pod-group-name", "priorityClassName", "project", "queue", "queue-depth"]
)
def test_no_author_sets_the_plain_keys_of_a_scheduler(key: str) -> None:
    own = labelled(labels={key: "highest"})
    assert key in refused(composed(own))[1]
    accepting = cluster()
    accepting["spec"]["podKeys"] = {"accept": [key]}
    assert workload(composed(own, None, cluster=(accepting,)))


def test_a_replica_that_keeps_its_scheduler_keeps_its_queue() -> None:
    shape = member()
    shape["template"]["metadata"] = {"labels": {"example.com/priority": "highest"}}
    kept = replica(engine("qwen", shape), podScheduler={"labels": {"example.com/queue": "serving"}})
    assert "example.com/priority" in refused(composed(kept))[1]


def test_a_platform_team_refuses_more_prefixes_and_accepts_some() -> None:
    own = cluster()
    own["spec"]["podKeys"] = {
        "refuse": ["example.com/mesh"],
        "accept": ["k8s.v1.cni.cncf.io/", "example.com/"],
    }
    networks = labelled(annotations={"k8s.v1.cni.cncf.io/networks": "rdma"})
    assert workload(composed(networks, None, cluster=(own,)))
    meshed = labelled(annotations={"example.com/mesh-inject": "true"})
    assert "example.com/mesh-inject" in refused(composed(meshed, None, cluster=(own,)))[1]


def test_labels_and_annotations_of_users_are_passed_on() -> None:
    own = labelled(
        labels={"app": "qwen", "teams.modelplane.ai/x": "y"}, annotations={"example.com/cost": "42"}
    )
    [template] = templates(workload(composed(own)))
    assert template["metadata"]["labels"].keys() >= {"app", "teams.modelplane.ai/x", labels.WORKLOAD}
    assert template["metadata"]["annotations"] == {"example.com/cost": "42"}


@pytest.mark.parametrize("name", sorted(REFUSED_VARIABLES))
def test_no_variable_selects_devices_past_the_claims(name: str) -> None:
    said = composed(replica(engine("qwen", member(env=[{"name": name, "value": "all"}]))))
    message = (
        f'variable "{name}" of engine "qwen" would select devices outside the claims: remove it, and '
        "request devices in nodeSelector"
    )
    assert refused(said) == ("PodNotAccepted", message)


def test_an_engine_chooses_among_its_own_devices() -> None:
    own = replica(engine("qwen", member(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}])))
    assert workload(composed(own))
