"""InferenceGateway: the one gateway of the control plane, named ``default``."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.fields import VERSION, Rule, about
from modelplane.api.meta import Model, ObjectMeta, Status

DEFAULT_NAME = "default"
"""The gateway that ModelServices are reached through."""


class Backend(StrEnum):
    """Implementation of the gateway."""

    ENVOY = "Envoy"
    TRAEFIK = "Traefik"
    GATEWAY_API = "GatewayAPI"
    """The implementation of the Gateway on the control plane's cluster."""


class LoadBalancer(StrEnum):
    """Load balancer to install if the platform has none."""

    METALLB = "MetalLB"


class MetalLB(Model):
    """Settings of MetalLB."""

    address_pool: Annotated[
        str,
        about(
            "Addresses to assign: first-last, or a CIDR.",
            min_length=1,
            max_length=128,
            pattern=r"^[0-9a-fA-F.:]+(-[0-9a-fA-F.:]+|/[0-9]{1,3})$",
        ),
    ]


class Traefik(Model):
    """Settings of the Traefik backend."""

    __rules__ = (
        Rule(
            "!has(self.loadBalancer) || self.loadBalancer != 'MetalLB' || has(self.metallb)",
            "metallb is required when loadBalancer is MetalLB: give it an addressPool",
        ),
    )

    version: Annotated[
        str,
        about(
            "Version of Traefik's Helm chart, such as 40.2.0.", min_length=1, max_length=64, pattern=VERSION
        ),
    ]
    load_balancer: (
        Annotated[
            LoadBalancer,
            about("Load balancer to install. Absent if the platform assigns addresses itself."),
        ]
        | None
    ) = None
    metallb: Annotated[MetalLB, about("Settings of MetalLB.")] | None = None


AddressRange = Annotated[
    str,
    about(
        "Address, or range of addresses as a CIDR.",
        min_length=2,
        max_length=64,
        pattern=r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
    ),
]


class InferenceGatewaySpec(Model):
    """Implementation of the gateway, and its settings."""

    __rules__ = (
        Rule(
            "self.backend != 'Traefik' || has(self.traefik)",
            "traefik is required when backend is Traefik: give it a version",
        ),
    )

    backend: Annotated[
        Backend,
        about(
            "Envoy: a proxy that Modelplane configures itself. GatewayAPI: under Crossplane, whatever serves "
            "the Gateway modelplane of namespace modelplane-system. Traefik: accepted, and not installed by "
            "this version. Where another than the chosen one carries the traffic, status.backend and a "
            "condition say so."
        ),
    ]
    traefik: Annotated[Traefik, about("Settings of the Traefik backend.")] | None = None
    allowed_destinations: Annotated[
        tuple[AddressRange, ...],
        about(
            "Addresses that ModelEndpoints may lead to although they are refused otherwise: loopback, "
            "link-local, multicast, reserved, metadata services of clouds, and deniedDestinations.",
            max_length=64,
            atomic=True,
        ),
    ] = ()
    denied_destinations: Annotated[
        tuple[AddressRange, ...],
        about(
            "Further addresses that ModelEndpoints must not lead to, such as the ranges of the pods and "
            "Services of the gateway's cluster. With Envoy, also refused after a name has been resolved.",
            max_length=64,
            atomic=True,
        ),
    ] = ()


class InferenceGatewayStatus(Status):
    """Address of the gateway."""

    address: (
        Annotated[str, about("Host or IP address, with a port unless it is 80. Absent until assigned.")]
        | None
    ) = None
    backend: (
        Annotated[
            Backend,
            about(
                "What carries the traffic: Envoy with Modelplane's controllers, GatewayAPI under Crossplane, "
                "whatever spec.backend says."
            ),
        ]
        | None
    ) = None


class InferenceGateway(Model):
    """The gateway that routes to every ModelService. Name it default."""

    metadata: ObjectMeta
    spec: Annotated[InferenceGatewaySpec, about("Implementation of the gateway, and its settings.")]
    status: Annotated[InferenceGatewayStatus, about("Address of the gateway.")] = InferenceGatewayStatus()
