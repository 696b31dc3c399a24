from modelplane.kubelet.local_devices import NVIDIA_DRIVER, DiscoveredDevice

GPUS = tuple(
    DiscoveredDevice(
        NVIDIA_DRIVER,
        f"gpu-{index}",
        {"uuid": {"string": f"GPU-{index}"}, "architecture": {"string": "Hopper"}},
        {"memory": "81559Mi"},
    )
    for index in range(2)
)


def test_devices_of_one_kind_differ_in_name_and_uuid_only() -> None:
    assert GPUS[0].drop_identity() == GPUS[1].drop_identity()
    assert GPUS[0].drop_identity().attributes == {"architecture": {"string": "Hopper"}}
