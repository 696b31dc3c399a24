"""InferenceGateway: the one gateway of the control plane, named ``default``."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.fields.requests.key_limits import (
    SERVICE_NAME,
    KeyLimits,
    RateLimitService,
    RateLimitType,
    ServicePattern,
)
from modelplane.api.fields.requests.pricing import Budget, Pricing
from modelplane.api.fields.requests.regions import MOST_REGIONS, Region
from modelplane.api.meta import SYSTEM_NAMESPACE, Model, ObjectMeta, Status
from modelplane.api.names import ModelName
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, VERSION, Rule, about

DEFAULT_NAME = "default"
"""The gateway that ModelServices are reached through."""


class Backend(StrEnum):
    """Implementation of the gateway."""

    ENVOY = "Envoy"
    TRAEFIK = "Traefik"
    ENVOY_GATEWAY = "EnvoyGateway"
    GATEWAY_API = "GatewayAPI"
    """The implementation of the Gateway on the control plane's cluster."""


class Authentication(StrEnum):
    """Method by which the gateway authenticates its clients."""

    API_KEY = "APIKey"
    NONE = "None"


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
            "Version of Traefik's Helm chart, 41.3.0 or later.", min_length=1, max_length=64, pattern=VERSION
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


class EnvoyGateway(Model):
    """Settings of the EnvoyGateway backend."""

    version: (
        Annotated[
            str,
            about(
                "Version of Envoy Gateway's Helm chart, v1.8 or later. Absent: that of serving stacks.",
                min_length=1,
                max_length=64,
                pattern=VERSION,
            ),
        ]
        | None
    ) = None


AddressRange = Annotated[
    str,
    about(
        "Address, or range of addresses as a CIDR.",
        min_length=2,
        max_length=64,
        pattern=r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
    ),
]


EVERY_NAMESPACE = "*"
"""Namespace of the grant for those that have none of their own."""

ClientNamespace = Annotated[
    str, about("A namespace, or * for every one.", min_length=1, max_length=63, pattern=rf"{DNS_LABEL}|^\*$")
]

MAX_KEYS = 100
"""Maximum of valid ModelKeys of a namespace, unless its grant has another."""


MOST_HOPS = 8
"""Maximum of proxies in front of the gateway."""


class KeyGrant(KeyLimits):
    """Limits of the ModelKeys of a namespace together."""

    namespace: Annotated[
        str,
        about(
            "Namespace, or * for each one without a grant of its own, which has these limits for itself.",
            min_length=1,
            max_length=63,
            pattern=rf"{DNS_LABEL}|^\*$",
        ),
    ]
    services: Annotated[
        tuple[ServicePattern, ...],
        about(
            "ModelServices that keys of the namespace may use. Absent: those of the namespace itself.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ] = ()
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions to which requests with these keys may go. Absent: every region.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()
    rate_limit_types: Annotated[
        tuple[RateLimitType, ...],
        about(
            "Values that spec.rateLimitType of the keys may have. With Global alone, every key has it, and "
            "the rate limit service counts the limits of the namespace too. Absent: both.",
            min_length=1,
            max_length=2,
            unique=True,
        ),
    ] = ()
    max_keys: Annotated[
        int, about("Maximum of valid ModelKeys of the namespace: the oldest ones.", ge=1, le=100_000)
    ] = MAX_KEYS
    budget: (
        Annotated[
            Budget,
            about("What all keys of the namespace may use in a day and a month of UTC. Absent: no limit."),
        ]
        | None
    ) = None


class TLSVersion(StrEnum):
    """Version of TLS."""

    V1_2 = "1.2"
    V1_3 = "1.3"


class CertificateRef(Model):
    """The Secret that holds a certificate."""

    name: Annotated[
        str,
        about(
            f"Name of a Secret of type kubernetes.io/tls in namespace {SYSTEM_NAMESPACE}, such as one that "
            "cert-manager writes.",
            min_length=1,
            max_length=200,
            pattern=DNS_SUBDOMAIN,
        ),
    ]


class GatewayTLS(Model):
    """TLS of the gateway."""

    certificate_refs: Annotated[
        tuple[CertificateRef, ...],
        about(
            "Certificates. A client gets the one for the host that it asks for, else the first.",
            min_length=1,
            max_length=16,
            keys=("name",),
        ),
    ]
    minimum_version: Annotated[TLSVersion, about("Oldest version that clients may use.")] = TLSVersion.V1_2


class ModelAlias(Model):
    """Another name of a ModelService, for clients of the namespaces that it names."""

    name: ModelName
    service: Annotated[
        str,
        about(
            "The ModelService, as NAMESPACE/SERVICE. A key must be allowed to use it.",
            min_length=3,
            max_length=127,
            pattern=SERVICE_NAME,
        ),
    ]
    namespaces: Annotated[
        tuple[ClientNamespace, ...],
        about(
            "Namespaces for whose ModelKeys the name counts. A gateway that asks for no key knows only "
            "names for *.",
            min_length=1,
            max_length=64,
            unique=True,
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
            "Envoy: a proxy that Modelplane configures itself. Traefik, EnvoyGateway: installed on the "
            "control plane's cluster from their Helm charts. GatewayAPI: the implementation of the Gateway "
            "modelplane in namespace modelplane-system. If another gateway than this one carries the "
            "traffic, status.backend and a condition say so."
        ),
    ]
    traefik: Annotated[Traefik, about("Settings of the Traefik backend.")] | None = None
    envoy_gateway: Annotated[EnvoyGateway, about("Settings of the EnvoyGateway backend.")] | None = None
    allowed_destinations: Annotated[
        tuple[AddressRange, ...],
        about(
            "Addresses that ModelEndpoints may lead to although they are refused otherwise: private, "
            "loopback, link-local, multicast, reserved, metadata services of clouds, and "
            "deniedDestinations.",
            max_length=64,
            atomic=True,
        ),
    ] = ()
    denied_destinations: Annotated[
        tuple[AddressRange, ...],
        about(
            "Further addresses that ModelEndpoints must not lead to, such as public addresses of the pods "
            "of the gateway's cluster. With Envoy, also refused after a name has been resolved.",
            max_length=64,
            atomic=True,
        ),
    ] = ()
    authentication: (
        Annotated[
            Authentication,
            about(
                "APIKey: a request needs the key of a ModelKey, and without the gateway module none is "
                "served. None: every request is served. Absent: as with None, and a condition says so."
            ),
        ]
        | None
    ) = None
    key_grants: Annotated[
        tuple[KeyGrant, ...],
        about(
            "Limits of all ModelKeys of a namespace together. Keys of a namespace without a grant are "
            "not valid.",
            max_length=1000,
            keys=("namespace",),
        ),
    ] = ()
    num_trusted_hops: Annotated[
        int,
        about(
            "Proxies in front of the gateway, such as load balancers, whose entries in X-Forwarded-For and "
            "whose X-Forwarded-Proto count: with 1, the client's address is the last entry. With 0, it is "
            "the address of the connection.",
            ge=0,
            le=MOST_HOPS,
        ),
    ] = 0
    pricing: Annotated[Pricing, about("Prices of tokens, for budgets in money.")] | None = None
    rate_limit_service: (
        Annotated[
            RateLimitService,
            about(
                "Rate limit service for keys whose spec.rateLimitType is Global. Absent: each gateway "
                "enforces its part of their limits."
            ),
        ]
        | None
    ) = None
    tls: (
        Annotated[
            GatewayTLS,
            about(
                "TLS of the gateway, with backend Envoy. Its clients then use https, and plain HTTP is "
                "refused. Absent: plain HTTP."
            ),
        ]
        | None
    ) = None
    aliases: Annotated[
        tuple[ModelAlias, ...],
        about(
            "Further names of ModelServices at the URL for all models, for clients of any namespace.",
            max_length=1000,
            keys=("name", "service"),
        ),
    ] = ()


class InferenceGatewayStatus(Status):
    """Address of the gateway, and the URL for all models."""

    address: (
        Annotated[
            str,
            about("Host or IP address, with a port unless it is 80, or 443 with TLS. Absent until assigned."),
        ]
        | None
    ) = None
    url: (
        Annotated[
            str,
            about(
                "Base URL for all models, as clients of the OpenAI API expect it. Absent without an address, "
                "and without the gateway module."
            ),
        ]
        | None
    ) = None
    cluster_gateways: Annotated[
        tuple[str, ...],
        about(
            "Addresses of the gateways of the InferenceClusters, which only the ModelEndpoints of "
            "ModelReplicas may lead to.",
            atomic=True,
        ),
    ] = ()
    backend: (
        Annotated[
            Backend,
            about(
                "Implementation that routes requests to endpoints. With Modelplane's controllers: Envoy, "
                "also behind another gateway. Under Crossplane: Envoy, the installed Traefik or "
                "EnvoyGateway, or "
                "GatewayAPI."
            ),
        ]
        | None
    ) = None


class InferenceGateway(Model):
    """The gateway that routes to every ModelService. Name it default."""

    metadata: ObjectMeta
    spec: Annotated[InferenceGatewaySpec, about("Implementation of the gateway, and its settings.")]
    status: Annotated[InferenceGatewayStatus, about("Address of the gateway.")] = InferenceGatewayStatus()
