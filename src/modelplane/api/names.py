"""Names of the objects that Modelplane makes, and namespaces that are reserved for system components.

A name is a readable part and five hex digits that make it unique. It has at most 63 characters, which is the
limit of a DNS label. A name never changes once given: the hash covers names only.

The children of a tenant's object go to the namespace of the same name on each inference cluster. In the
reserved namespaces they would be among the cluster's own components.
"""

from functools import lru_cache
from typing import Annotated, Final

from modelplane.api.meta import CERTIFICATE_NAMESPACE, GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected
from modelplane.api.schema.fields import about

RESERVED_PREFIX: Final = "kube-"
"""Prefix that Kubernetes keeps for itself (Kubernetes documentation, "Namespaces")."""

RESERVED: Final = (
    SYSTEM_NAMESPACE,
    GATEWAY_NAMESPACE,
    CERTIFICATE_NAMESPACE,
    "crossplane-system",
    "envoy-ai-gateway-system",
    "envoy-gateway-system",
    "lws-system",
)
"""Namespaces of Modelplane and of the components that it needs."""


def check_reserved(namespace: str) -> Rejected | None:
    """Return why a namespace is reserved, with the remedy; None if it is not."""
    if not namespace.startswith(RESERVED_PREFIX) and namespace not in RESERVED:
        return None
    return Rejected(
        subject=f'namespace "{namespace}"',
        detail="is reserved for system components",
        remedy="use a namespace of your own",
    )


def has_route(namespace: str, address: str | None) -> bool:
    """Return True if a ModelService has a route: in a reserved namespace only if it had an address before."""
    return bool(address) or not check_reserved(namespace)


ModelName = Annotated[
    str,
    about(
        "Name of a model. It can contain letters, digits, '.', '-', '_', and ':'.",
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][-A-Za-z0-9._:]*$",
    ),
]

MAX_LENGTH = 63
"""Characters of a DNS label (RFC 1123)."""

DIGITS = 5


def child_name(*parts: str, limit: int = MAX_LENGTH) -> str:
    """Return the name of a thing that belongs to the things named by the parts.

    ``limit`` is the number of characters that a cloud allows, where that is fewer.
    """
    joined = "-".join(parts)
    return _hashed(joined, joined, DIGITS, limit)


def name_replica(deployment: str, cluster: str, index: int, digits: int = DIGITS) -> str:
    """Return the name of a deployment's replica on a cluster.

    Only the deployment can be read in it; cluster and index are in the hash. Where two replicas of
    one deployment would have the same name, the later one takes one digit more.
    """
    return _hashed(deployment, f"{deployment}-{cluster}-{index}", digits)


def name_backend(endpoint: str) -> str:
    """Return the name of the Service of an endpoint.

    A Service's name has no dots and does not begin with a digit (RFC 1035); an endpoint's may.
    """
    return _hashed(f"endpoint-{endpoint.replace('.', '-')}", f"endpoint-{endpoint}", DIGITS)


def name_front(service: str) -> str:
    """Return the name of the Service that leads from the routes of a ModelService to the gateway itself."""
    return _hashed(f"front-{service.replace('.', '-')}", f"front-{service}", DIGITS)


def name_composed(owner: str, key: str) -> str:
    """Return the name of the object for one of an owner's children on other clusters."""
    return _hashed(f"{owner}-{key}".lower().replace(".", "-"), f"{owner}/{key}", DIGITS)


@lru_cache(4096)  # the names of a replica are asked for many times in a row
def _hashed(readable: str, identity: str, digits: int, limit: int = MAX_LENGTH) -> str:
    from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL, and few commands name anything

    suffix = sha256(identity.encode()).hexdigest()[:digits]
    return f"{readable[: limit - 1 - digits].rstrip('-.')}-{suffix}"
