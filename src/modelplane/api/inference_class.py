"""InferenceClass: a type of node, as the platform team publishes it.

Schedulers match its devices. Its provisioning, which describes how a cloud makes such a node, is never
matched.
"""

from typing import Annotated

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cloud_settings import DiskSizeGb
from modelplane.api.fields.cluster.devices import Device, DevicePricing
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import LABEL_VALUE, Rule, about

AcceleratorType = Annotated[
    str,
    about(
        f"Name of the GPU in the cloud, and value of the label {labels.GPU} on the nodes.",
        min_length=1,
        max_length=63,
        pattern=LABEL_VALUE,
    ),
]


class Accelerator(Model):
    """The GPU of a node, as the cloud names it."""

    type: AcceleratorType
    count: Annotated[int, about("Number of GPUs of one node.", ge=1, le=16)]


class GKERecipe(Model):
    """Nodes on Google Kubernetes Engine."""

    machine_type: Annotated[
        str, about("Compute Engine machine type, such as g2-standard-8.", min_length=1, max_length=63)
    ]
    disk_size_gb: DiskSizeGb = 100
    accelerator: Annotated[Accelerator, about("The GPUs attached to each node.")]


class EKSRecipe(Model):
    """Nodes on Amazon Elastic Kubernetes Service."""

    instance_type: Annotated[
        str, about("EC2 instance type, which determines the GPU.", min_length=1, max_length=63)
    ]
    disk_size_gb: DiskSizeGb = 100
    accelerator: Annotated[Accelerator, about("The GPUs of the instance type.")]


class AKSRecipe(Model):
    """Nodes on Azure Kubernetes Service."""

    vm_size: Annotated[str, about("Azure VM size, which determines the GPU.", min_length=1, max_length=63)]
    disk_size_gb: DiskSizeGb = 100
    accelerator: Annotated[Accelerator, about("The GPUs of the VM size.")]


Platform = Annotated[str, about("Compute platform, such as gpu-h100-sxm.", min_length=1, max_length=63)]
Preset = Annotated[
    str, about("Shape within the platform, such as 8gpu-128vcpu-1600gb.", min_length=1, max_length=63)
]
DriversPreset = Annotated[
    str, about("NVIDIA driver set that Nebius installs on the nodes.", min_length=1, max_length=63)
]


class NebiusRecipe(Model):
    """Nodes on Nebius Managed Kubernetes."""

    platform: Platform
    preset: Preset
    disk_size_gb: DiskSizeGb = 100
    drivers_preset: DriversPreset = "cuda13.0"
    accelerator: Annotated[Accelerator, about("The GPUs of the preset.")]


class VultrRecipe(Model):
    """Nodes on Vultr Kubernetes Engine."""

    plan: Annotated[str, about("Vultr plan, such as vcg-l40s-16c-180g-48vram.", min_length=1, max_length=63)]
    accelerator: Annotated[Accelerator, about("The GPUs of the plan.")]


class Provisioning(Model):
    """Settings with which a cloud provisions nodes of this class."""

    __rules__ = tuple(
        Rule(
            f"self.provider != '{provider}' || has(self.{provider.lower()})",
            f"{provider.lower()} is required when provider is {provider}",
        )
        for provider in Cloud
    )

    provider: Annotated[Cloud, about("The cloud. The field with the same name contains the recipe.")]
    gke: Annotated[GKERecipe, about("Recipe for GKE.")] | None = None
    eks: Annotated[EKSRecipe, about("Recipe for EKS.")] | None = None
    aks: Annotated[AKSRecipe, about("Recipe for AKS.")] | None = None
    nebius: Annotated[NebiusRecipe, about("Recipe for Nebius.")] | None = None
    vultr: Annotated[VultrRecipe, about("Recipe for Vultr.")] | None = None


class InferenceClassSpec(Model):
    """The devices of a node of this class, and how to provision the node."""

    __rules__ = (
        Rule(
            "!has(self.pricing) || self.pricing.devices.all(p, self.devices.exists(d, d.name == p.name))",
            "pricing names a device that is not under devices: correct the name, or remove the price",
        ),
    )

    description: Annotated[str, about("Description of the class, for people.", max_length=1024)] | None = None
    provisioning: (
        Annotated[
            Provisioning,
            about("How to provision nodes of this class. Not needed for existing pools."),
        ]
        | None
    ) = None
    devices: Annotated[
        tuple[Device, ...],
        about(
            "Devices of one node, one entry per type of device.",
            min_length=1,
            max_length=16,
            keys=("name",),
        ),
    ]
    pricing: (
        Annotated[
            DevicePricing,
            about("Prices of the devices, for plans and for placement by cost. Default: unknown."),
        ]
        | None
    ) = None


class InferenceClass(Model):
    """A type of node for node pools. The scheduler matches deployments against the devices of the class."""

    metadata: ObjectMeta
    spec: Annotated[
        InferenceClassSpec, about("The devices of a node of this class, and how to provision the node.")
    ]
    status: Annotated[Status, about("Status of the class.")] = Status()
