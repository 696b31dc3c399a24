from typing import Any

import pytest

from modelplane.kubelet.pods import views
from modelplane.kubelet.pods.views import Role

MEMORY = {"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
MOUNT = [{"name": "shared", "mountPath": "/shared"}]
POD: dict[str, Any] = {
    "metadata": {"name": "qwen"},
    "spec": {
        "terminationGracePeriodSeconds": 7,
        "initContainers": [
            {"name": "fetch"},
            {"name": "proxy", "restartPolicy": "Always", "volumeMounts": MOUNT},
        ],
        "containers": [{"name": "engine", "volumeMounts": MOUNT}, {"name": "ship"}],
        "volumes": [MEMORY, {"name": "own", "emptyDir": {"medium": "Memory"}}],
    },
}


def test_a_pod_of_one_container_is_what_it_was() -> None:
    pod = {"spec": {"containers": [{"name": "engine"}]}}
    assert views.select_container(pod, "engine") is pod


@pytest.mark.parametrize("name", ["fetch", "proxy", "engine", "ship"])
def test_a_runtime_sees_one_container_and_the_rest_of_the_pod(name: str) -> None:
    spec = views.select_container(POD, name)["spec"]
    assert [each["name"] for each in spec["containers"]] == [name]
    assert "initContainers" not in spec
    assert spec["terminationGracePeriodSeconds"] == 7


def test_memory_that_several_containers_mount_is_a_folder_that_all_see() -> None:
    volumes = {
        each["name"]: each["emptyDir"] for each in views.select_container(POD, "engine")["spec"]["volumes"]
    }
    assert volumes == {"shared": {"medium": "", "sizeLimit": "1Gi"}, "own": {"medium": "Memory"}}


def test_containers_are_in_the_order_in_which_they_start() -> None:
    assert [(each.name, each.role) for each in views.build_views(POD)] == [
        ("fetch", Role.INIT),
        ("proxy", Role.SIDECAR),
        ("engine", Role.MAIN),
        ("ship", Role.MAIN),
    ]
