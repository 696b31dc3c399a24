import pytest

from modelplane.kubelet import local_devices
from modelplane.kubelet.local_devices import CPU_DRIVER, NVIDIA_DRIVER, DiscoveredDevice
from modelplane.kubelet.runtime.container_environment import list_device_variables
from support.rejections import message_of

CPU = DiscoveredDevice(CPU_DRIVER, "cpu-0", {"type": {"string": "cpu"}}, {"memory": "1024Mi"})
GPUS = tuple(
    DiscoveredDevice(
        NVIDIA_DRIVER,
        f"gpu-{index}",
        {"uuid": {"string": f"GPU-{index}"}, "architecture": {"string": "Hopper"}},
        {"memory": "81559Mi"},
    )
    for index in range(2)
)


def test_a_machine_without_a_gpu_has_its_cpu() -> None:
    cpu = local_devices.describe_cpu()
    assert (cpu.driver, cpu.name) == ("cpu.modelplane.ai", "cpu-0")
    assert set(cpu.attributes) == {"type", "model", "architecture", "cores"}
    assert cpu.attributes["cores"] == {"int": local_devices.count_cores()}
    assert cpu.capacity == {"memory": f"{local_devices.measure_memory() // 2**20}Mi"}


def test_an_engine_sees_its_own_gpus_only() -> None:
    assert list_device_variables(GPUS, GPUS[1:])["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert list_device_variables(GPUS, ()) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    assert list_device_variables((CPU,), (CPU,)) == {}


def test_devices_are_published_in_one_slice_per_driver() -> None:
    node = {"metadata": {"name": "local", "uid": "n-1"}}
    assert local_devices.build_slice(node, CPU_DRIVER, [CPU], 4) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": "local-cpu-modelplane-ai",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "local", "uid": "n-1"}],
        },
        "spec": {
            "driver": "cpu.modelplane.ai",
            "nodeName": "local",
            "pool": {"name": "local", "generation": 4, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "cpu-0",
                    "attributes": {"type": {"string": "cpu"}},
                    "capacity": {"memory": {"value": "1024Mi"}},
                }
            ],
        },
    }


POD = {"metadata": {"name": "qwen", "uid": "p-1"}, "spec": {}, "status": {}}


def claim(uid: str, *names: str) -> dict[str, object]:
    results = [{"driver": NVIDIA_DRIVER, "device": name, "pool": "local", "request": "gpu"} for name in names]
    return {
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "qwen", "uid": uid}],
        }
    }


def test_the_devices_of_a_claim() -> None:
    assert local_devices.list_allocated("c", claim("p-1", "gpu-1", "gpu-0"), POD, GPUS) == (
        GPUS[1],
        GPUS[0],
    )


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(None, 'ResourceClaim "c" does not exist: create it, or delete the pod', id="no claim"),
        pytest.param(
            {},
            'ResourceClaim "c" is not allocated: leave the binding to kube-scheduler',
            id="nothing allocated",
        ),
        pytest.param(
            claim("p-2", "gpu-0"),
            'ResourceClaim "c" is not reserved for this pod: another pod uses it',
            id="reserved for another pod",
        ),
        pytest.param(
            claim("p-1", "gpu-7"),
            'ResourceClaim "c" refers to device "gpu-7", which this machine no longer has: delete the pod',
            id="a device that is gone",
        ),
    ],
)
def test_a_claim_that_is_not_the_pods_says_why(found: dict[str, object] | None, message: str) -> None:
    assert message_of(local_devices.list_allocated("c", found, POD, GPUS)) == message


def test_a_claim_is_found_by_name_or_through_its_template() -> None:
    pod = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "qwen-gpu-x"}]}}
    assert local_devices.find_claim_name({"name": "gpu", "resourceClaimName": "mine"}, pod) == "mine"
    assert (
        local_devices.find_claim_name({"name": "gpu", "resourceClaimTemplateName": "t"}, pod) == "qwen-gpu-x"
    )
    refused = local_devices.find_claim_name({"name": "nic", "resourceClaimTemplateName": "t"}, pod)
    assert message_of(refused) == 'claim "nic" has not been made from its template yet'
