"""TLS of a listener, independent of the proxy."""

from dataclasses import dataclass, field

from modelplane.api.inference_gateway import TLSVersion


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its private key."""

    name: str
    """Unique in a listener; the name of its Secret."""
    chain: str
    """The certificate and those of its issuers, in PEM."""
    key: str = field(repr=False)
    """The private key, in PEM."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of a listener, which then serves nothing else."""

    certificates: tuple[Certificate, ...]
    """The first is for clients that ask for a host of none. Without any, no connection is served."""
    minimum_version: TLSVersion = TLSVersion.V1_2
