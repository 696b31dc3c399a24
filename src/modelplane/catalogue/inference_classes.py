"""The InferenceClass of a machine: of its entry and its card's (`machines.yaml`, `cards.yaml`)."""

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.fields.cluster.devices import Claim, Device, DeviceAttribute, DeviceCapacity
from modelplane.api.inference_class import (
    Accelerator,
    AKSRecipe,
    EKSRecipe,
    GKERecipe,
    InferenceClass,
    InferenceClassSpec,
    NebiusRecipe,
    Provisioning,
    VultrRecipe,
)
from modelplane.api.meta import ObjectMeta
from modelplane.catalogue.descriptions import count_nvlink_gpus, describe_machine, list_unverified
from modelplane.catalogue.entries import Card, Catalogue, Machine


def build_class(catalogue: Catalogue, machine: Machine) -> InferenceClass:
    """Return the class of a machine."""
    doubts = list_unverified(catalogue, machine)
    return InferenceClass(
        metadata=ObjectMeta(
            name=machine.name, annotations={labels.UNVERIFIED: ", ".join(doubts)} if doubts else {}
        ),
        spec=InferenceClassSpec(
            description=describe_machine(catalogue, machine),
            provisioning=_provisioning(machine),
            devices=_devices(catalogue, machine),
        ),
    )


def _provisioning(machine: Machine) -> Provisioning | None:
    """Return the recipe of a machine's cloud; None for nodes that exist already."""
    cloud = machine.cloud
    if cloud is None or machine.type is None or machine.accelerator is None:
        return None
    disk = machine.disk_size_gb
    gpus = Accelerator(type=machine.accelerator, count=machine.count)
    match cloud:
        case Cloud.GKE:
            gke = GKERecipe(machine_type=machine.type, disk_size_gb=disk, accelerator=gpus)
            return Provisioning(provider=cloud, gke=gke)
        case Cloud.EKS:
            eks = EKSRecipe(instance_type=machine.type, disk_size_gb=disk, accelerator=gpus)
            return Provisioning(provider=cloud, eks=eks)
        case Cloud.AKS:
            aks = AKSRecipe(vm_size=machine.type, disk_size_gb=disk, accelerator=gpus)
            return Provisioning(provider=cloud, aks=aks)
        case Cloud.NEBIUS:
            nebius = NebiusRecipe(
                platform=machine.type,
                preset=machine.preset or "",
                disk_size_gb=disk,
                drivers_preset=machine.drivers_preset,
                accelerator=gpus,
            )
            return Provisioning(provider=cloud, nebius=nebius)
        case Cloud.VULTR:
            return Provisioning(provider=cloud, vultr=VultrRecipe(plan=machine.type, accelerator=gpus))


def _devices(catalogue: Catalogue, machine: Machine) -> tuple[Device, ...]:
    card, partition = catalogue.find_card(machine), catalogue.find_partition(machine)
    if card.vendor == "AMD":
        texts = {"type": "amdgpu", "productName": card.product, **card.attributes}
        gpu = Device(
            name="gpu",
            driver="gpu.amd.com",
            device_class_name="gpu.amd.com",
            count=machine.count,
            attributes={
                name: DeviceAttribute(string=text) for name, text in texts.items() if text is not None
            },
            capacity=_capacity(card.memory_mi)
            | {name: DeviceCapacity(value=text) for name, text in card.capacity.items()},
        )
    elif partition is not None:
        gpu = Device(
            name=f"mig-{partition.profile.replace('.', '-')}",
            driver="gpu.nvidia.com",
            device_class_name="mig.nvidia.com",
            count=machine.count * partition.per_card,
            attributes=_nvidia_attributes("mig", card)
            | {"profile": DeviceAttribute(string=partition.profile)},
            capacity=_capacity(partition.memory_mi),
        )
    else:
        gpu = Device(
            name="gpu",
            driver="gpu.nvidia.com",
            device_class_name="gpu.nvidia.com",
            count=machine.count,
            attributes=_nvidia_attributes("gpu", card),
            capacity=_capacity(card.memory_mi),
        )
    devices = [gpu]
    # Drivers publish neither the NVLink domain nor the card for InfiniBand, which only affect placement.
    if (size := count_nvlink_gpus(catalogue, machine)) >= 2:
        devices.append(
            Device(
                name="nvlink",
                claim=Claim.SYNTHETIC,
                driver="nvlink.nvidia.com",
                attributes={"domainSize": DeviceAttribute(integer=size)},
            )
        )
    if machine.efa is not None:
        devices.append(
            Device(
                name="efa", driver="dra.net", device_class_name="efa.networking.k8s.aws", count=machine.efa
            )
        )
    if machine.infiniband is not None:
        devices.append(
            Device(
                name="nic",
                claim=Claim.SYNTHETIC,
                driver="nic.nvidia.com",
                count=machine.infiniband.count,
                attributes={
                    "linkType": DeviceAttribute(string="infiniband"),
                    "linkSpeedGbps": DeviceAttribute(integer=machine.infiniband.speed_gbps),
                },
            )
        )
    return tuple(devices)


def _nvidia_attributes(type_: str, card: Card) -> dict[str, DeviceAttribute]:
    texts = {"type": type_, "productName": card.product, "architecture": card.architecture}
    attributes = {name: DeviceAttribute(string=text) for name, text in texts.items() if text is not None}
    if card.capability is not None:
        attributes["cudaComputeCapability"] = DeviceAttribute(version=card.capability)
    return attributes


def _capacity(memory_mi: int) -> dict[str, DeviceCapacity]:
    return {"memory": DeviceCapacity(value=f"{memory_mi}Mi")}
