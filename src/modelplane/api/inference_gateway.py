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
    """Authentication of the gateway's clients."""

    API_KEY = "APIKey"
    NONE = "None"


class LoadBalancer(StrEnum):
    """Load balancer to install if the platform doesn't provide one."""

    METALLB = "MetalLB"


class MetalLB(Model):
    """Settings of MetalLB."""

    address_pool: Annotated[
        str,
        about(
            "Addresses to assign, as FIRST-LAST or a CIDR.",
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
            "Version of the Traefik Helm chart, at least 41.3.0.",
            min_length=1,
            max_length=64,
            pattern=VERSION,
        ),
    ]
    load_balancer: (
        Annotated[
            LoadBalancer,
            about("Load balancer to install. Not needed if the platform assigns addresses."),
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
                "Version of the Envoy Gateway Helm chart, at least v1.8. Default: as in serving stacks.",
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
        "IP address, or address range as a CIDR.",
        min_length=2,
        max_length=64,
        pattern=r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
    ),
]

EVERY_NAMESPACE = "*"
"""Namespace of the grant for those that have none of their own."""

ClientNamespace = Annotated[
    str,
    about("A namespace, or * for all namespaces.", min_length=1, max_length=63, pattern=rf"{DNS_LABEL}|^\*$"),
]

MAX_KEYS = 100
"""Maximum of valid ModelKeys of a namespace, unless its grant has another."""

MOST_HOPS = 8
"""Maximum of proxies in front of the gateway."""


class KeyGrant(KeyLimits):
    """Combined limits of all ModelKeys in a namespace."""

    namespace: Annotated[
        str,
        about(
            "Namespace, or * for every namespace without its own grant. With *, each namespace "
            "has these limits separately.",
            min_length=1,
            max_length=63,
            pattern=rf"{DNS_LABEL}|^\*$",
        ),
    ]
    services: Annotated[
        tuple[ServicePattern, ...],
        about(
            "ModelServices that keys of the namespace can use. Default: the ModelServices in the namespace.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ] = ()
    regions: Annotated[
        tuple[Region, ...],
        about(
            "Regions that can serve requests with these keys. Default: every region.",
            min_length=1,
            max_length=MOST_REGIONS,
            unique=True,
        ),
    ] = ()
    rate_limit_types: Annotated[
        tuple[RateLimitType, ...],
        about(
            "Values that the keys can use in spec.rateLimitType. With only Global, every key uses Global, "
            "and the rate limit service also enforces the limits of the namespace. Default: both.",
            min_length=1,
            max_length=2,
            unique=True,
        ),
    ] = ()
    max_keys: Annotated[
        int,
        about("Maximum number of valid ModelKeys in the namespace: the oldest ones.", ge=1, le=100_000),
    ] = MAX_KEYS
    budget: (
        Annotated[
            Budget,
            about("Daily and monthly budget of all keys in the namespace, in UTC. Default: no limit."),
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
            f"Name of a Secret of type kubernetes.io/tls in namespace {SYSTEM_NAMESPACE}, such as "
            "a Secret that cert-manager creates.",
            min_length=1,
            max_length=200,
            pattern=DNS_SUBDOMAIN,
        ),
    ]


class GatewayTLS(Model):
    """TLS settings of the gateway."""

    certificate_refs: Annotated[
        tuple[CertificateRef, ...],
        about(
            "Certificates. The gateway presents the one for the requested host, otherwise the first.",
            min_length=1,
            max_length=16,
            keys=("name",),
        ),
    ]
    minimum_version: Annotated[TLSVersion, about("Oldest TLS version of clients.")] = TLSVersion.V1_2


class ModelAlias(Model):
    """Another name of a ModelService, for clients in certain namespaces."""

    name: ModelName
    service: Annotated[
        str,
        about(
            "The ModelService, as NAMESPACE/SERVICE. Keys also need permission to use this service.",
            min_length=3,
            max_length=127,
            pattern=SERVICE_NAME,
        ),
    ]
    namespaces: Annotated[
        tuple[ClientNamespace, ...],
        about(
            "Namespaces with ModelKeys that can use this name. On a gateway without "
            "authentication, only names for * work.",
            min_length=1,
            max_length=64,
            unique=True,
        ),
    ]


class InferenceGatewaySpec(Model):
    """Implementation and settings of the gateway."""

    __rules__ = (
        Rule(
            "self.backend != 'Traefik' || has(self.traefik)",
            "traefik is required when backend is Traefik: give it a version",
        ),
    )

    backend: Annotated[
        Backend,
        about(
            "Implementation of the gateway. Envoy: a proxy that Modelplane configures. Traefik, "
            "EnvoyGateway: installed from Helm charts on the cluster of the control plane. GatewayAPI: the "
            "implementation behind Gateway modelplane in namespace modelplane-system. status.backend and a "
            "condition show if a different gateway carries the traffic."
        ),
    ]
    traefik: Annotated[Traefik, about("Settings of the Traefik backend.")] | None = None
    envoy_gateway: Annotated[EnvoyGateway, about("Settings of the EnvoyGateway backend.")] | None = None
    allowed_destinations: Annotated[
        tuple[AddressRange, ...],
        about(
            "Addresses that ModelEndpoints can use although they are refused by default: "
            "private, loopback, link-local, multicast, and reserved addresses, metadata services "
            "of clouds, and deniedDestinations.",
            max_length=64,
            atomic=True,
        ),
    ] = ()
    denied_destinations: Annotated[
        tuple[AddressRange, ...],
        about(
            "Additional addresses that ModelEndpoints can't use, such as public addresses of pods on the "
            "gateway's cluster. With Envoy, the addresses are also refused after a name is resolved.",
            max_length=64,
            atomic=True,
        ),
    ] = ()
    authentication: (
        Annotated[
            Authentication,
            about(
                "How clients authenticate. APIKey: each request needs the key of a ModelKey; without "
                "the gateway module, no request is served. None: every request is served. Default: "
                "the same as None, with a condition that reports the open gateway."
            ),
        ]
        | None
    ) = None
    key_grants: Annotated[
        tuple[KeyGrant, ...],
        about(
            "Combined limits of all ModelKeys in a namespace. Keys without a grant are not valid.",
            max_length=1000,
            keys=("namespace",),
        ),
    ] = ()
    num_trusted_hops: Annotated[
        int,
        about(
            "Number of trusted proxies in front of the gateway, such as load balancers. Their "
            "X-Forwarded-For entries and X-Forwarded-Proto are used: with 1, the client address "
            "is the last entry; with 0, it is the address of the connection.",
            ge=0,
            le=MOST_HOPS,
        ),
    ] = 0
    pricing: Annotated[Pricing, about("Prices of tokens, for budgets in money.")] | None = None
    rate_limit_service: (
        Annotated[
            RateLimitService,
            about(
                "Rate limit service for keys with spec.rateLimitType Global. Default: each gateway "
                "enforces an equal part of the limits."
            ),
        ]
        | None
    ) = None
    tls: (
        Annotated[
            GatewayTLS,
            about(
                "TLS settings of the gateway, for backend Envoy. Clients must then use https. "
                "Default: plain HTTP."
            ),
        ]
        | None
    ) = None
    aliases: Annotated[
        tuple[ModelAlias, ...],
        about(
            "Additional names of ModelServices at the URL for all models, for clients in any namespace.",
            max_length=1000,
            keys=("name", "service"),
        ),
    ] = ()


class InferenceGatewayStatus(Status):
    """Address of the gateway, and the URL for all models."""

    address: (
        Annotated[
            str,
            about("Host name or IP address, with the port unless it is 80, or 443 with TLS."),
        ]
        | None
    ) = None
    url: (
        Annotated[
            str,
            about(
                "Base URL for all models, for clients of the OpenAI API. Absent without an address, "
                "and without the gateway module."
            ),
        ]
        | None
    ) = None
    cluster_gateways: Annotated[
        tuple[str, ...],
        about(
            "Addresses of the gateways of clusters. Only ModelEndpoints of ModelReplicas can use them.",
            atomic=True,
        ),
    ] = ()
    backend: (
        Annotated[
            Backend,
            about(
                "Implementation that routes requests to endpoints. With Modelplane's controllers: "
                "Envoy, even behind another gateway. Under Crossplane: Envoy, the installed Traefik "
                "or EnvoyGateway, or GatewayAPI."
            ),
        ]
        | None
    ) = None


class InferenceGateway(Model):
    """The gateway that routes to every ModelService. Name it default."""

    metadata: ObjectMeta
    spec: Annotated[InferenceGatewaySpec, about("Implementation and settings of the gateway.")]
    status: Annotated[InferenceGatewayStatus, about("Address of the gateway.")] = InferenceGatewayStatus()
