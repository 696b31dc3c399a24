"""Health of devices in the status of pods, and the devices that a report is about."""

from typing import Any

import pytest

from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cluster.capacity_facts import ClaimFacts
from modelplane.compose.cluster.observed_capacity import unhealthy
from modelplane.compose.replica import pod_problems
from support.replicas import composed, engine, manifest, replica

DRIVER = "gpu.nvidia.com"


def pod(name: str, *health: tuple[str, str], field: str = "containerStatuses", **status: Any) -> Any:
    resources = [{"resourceID": each, "health": said} for each, said in health]
    container = {"name": "engine", "allocatedResourcesStatus": [{"name": "claim:a", "resources": resources}]}
    return {"metadata": {"name": name}, "status": {"phase": "Running", field: [container], **status}}


BAD, GOOD, SILENT = ("n1/bad", "Unhealthy"), ("n1/good", "Healthy"), ("n1/silent", "Unknown")

REPORTED = [
    pytest.param([pod("p", BAD, GOOD)], [("p", "n1/bad")], "DeviceUnhealthy", id="one of two"),
    pytest.param(
        [pod("p", BAD, field="initContainerStatuses")], [("p", "n1/bad")], "DeviceUnhealthy", id="a sidecar"
    ),
    pytest.param([pod("p", GOOD, SILENT)], [], "Healthy", id="unknown is not unhealthy"),
    pytest.param([pod("p", SILENT)], [], "Healthy", id="only unknown: a driver that is away"),
    pytest.param([pod("p", ("x", "Broken"))], [], "Healthy", id="a word that is not known is unknown"),
    pytest.param([pod("p")], [], "", id="no driver reports"),
    pytest.param([pod("p", BAD, phase="Failed")], [], "", id="a pod that ended keeps its last report"),
    pytest.param(
        [{**pod("p", BAD), "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}}],
        [],
        "",
        id="a pod that leaves is replaced",
    ),
    pytest.param(
        [pod("b", BAD), pod("a", ("n2/bad", "Unhealthy"))],
        [("a", "n2/bad"), ("b", "n1/bad")],
        "DeviceUnhealthy",
        id="in order of pods, so that the text stays",
    ),
    pytest.param(
        [pod("p", BAD, ("n1/bad", "Healthy"))],
        [("p", "n1/bad")],
        "DeviceUnhealthy",
        id="two containers with one device: the worse report counts",
    ),
    pytest.param(
        [
            pod(
                "p",
                containerStatuses=[
                    7,
                    {"allocatedResourcesStatus": [{"resources": [{"health": "Unhealthy"}]}]},
                ],
            )
        ],
        [],
        "",
        id="malformed",
    ),
]


@pytest.mark.parametrize(("pods", "expected", "reason"), REPORTED)
def test_only_unhealthy_counts(pods: list[Any], expected: list[tuple[str, str]], reason: str) -> None:
    found = pod_problems.device_status(pods).get("unhealthyDevices", ())
    assert [(each["pod"], each["device"]) for each in found] == expected
    assert [each.reason for each in pod_problems.device_conditions(pods)] == ([reason] if reason else [])


def test_a_replica_serves_on_and_says_which_device_is_unhealthy() -> None:
    said = composed(replica(), **{"pods-qwen": (pod("p", BAD),)})
    [condition] = [each for each in said.conditions if each.type == "DevicesHealthy"]
    assert condition.message == (
        '1 device reported as unhealthy: "n1/bad" of pod "p". The replica is kept. Repair the device, or '
        "taint "
        "it and delete the pod"
    )
    assert said.status["unhealthyDevices"] == [{"pod": "p", "device": "n1/bad"}]
    healthy = composed(replica(), **{"pods-qwen": (pod("p", GOOD),)})
    assert [child.key for child in healthy.children] == [child.key for child in said.children]
    assert (said.ready, "unhealthyDevices" in healthy.status) == (healthy.ready, False)


def test_many_devices_are_bounded() -> None:
    pods = [pod("p", *((f"n1/gpu-{at:02}", "Unhealthy") for at in range(40)))]
    assert len(pod_problems.device_status(pods)["unhealthyDevices"]) == 32
    [condition] = pod_problems.device_conditions(pods)
    assert "40 devices reported as unhealthy" in condition.message
    assert condition.message.count("gpu-") == 4


def test_what_was_said_stays_while_pods_are_not_looked_at() -> None:
    """A draining replica is composed without its cluster."""
    owner = manifest(engine(), draining=True)
    said = {"type": "DevicesHealthy", "status": "False", "reason": "DeviceUnhealthy", "message": "bad"}
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    known = [{"pod": "p", "device": "n1/bad"}]
    owner["status"] = {"conditions": [said | times], "clusters": ["east"], "unhealthyDevices": known}
    decided = composed(decode_as(ModelReplica, owner))
    assert decided.status["unhealthyDevices"] == known
    assert ("DevicesHealthy", "bad") in [(each.type, each.message) for each in decided.conditions]


HELD = (
    ClaimFacts("team", "p", ((DRIVER, "n1", "gpu-0"), (DRIVER, "n1", "gpu-1"), ("net", "n1", "nic-0"))),
    ClaimFacts("team", "q", ((DRIVER, "n1", "gpu-2"),)),
    ClaimFacts("other", "p", ((DRIVER, "n1", "gpu-3"),)),
)

NAMED = [
    pytest.param(["gpu.nvidia.com/n1/gpu-1"], {"gpu-1"}, id="driver, pool and name"),
    pytest.param(["k8s.gpu.nvidia.com/device=gpu-1"], {"gpu-1"}, id="a device of CDI"),
    pytest.param(["k8s.gpu.nvidia.com/claim=0b1f-gpu-1"], {"gpu-1"}, id="a claim of CDI"),
    pytest.param(["k8s.gpu.nvidia.com/device=7f3a"], {"gpu-0"}, id="another ID: a device of that vendor"),
    pytest.param(["x/y=1", "k8s.gpu.nvidia.com/device=gpu-0"], {"gpu-0", "gpu-1"}, id="names go first"),
    pytest.param(["a", "b", "c", "d"], {"gpu-0", "gpu-1", "nic-0"}, id="no more than the pod holds"),
    pytest.param(["gpu.nvidia.com/n1/gpu-3"], {"gpu-0"}, id="never a device of another pod"),
]


@pytest.mark.parametrize(("ids", "expected"), NAMED)
def test_a_report_is_about_a_device_that_its_pod_holds(ids: list[str], expected: set[str]) -> None:
    found = unhealthy({("team", "p"): ids}, HELD)
    assert {name for _, _, name in found} == expected


def test_a_report_of_a_pod_without_claims_is_about_none() -> None:
    assert unhealthy({("team", "gone"): ["gpu.nvidia.com/n1/gpu-1"]}, HELD) == frozenset()
