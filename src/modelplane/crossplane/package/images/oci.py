"""Parts of a container image (OCI image specification 1.1).

An image is a manifest, which lists a config and layers by digest. Only the fields that a package needs are
modeled.
"""

import platform
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from modelplane.crossplane.package.errors import PackageError

Json = dict[str, Any]


class MediaType(StrEnum):
    """Media type of a blob."""

    INDEX = "application/vnd.oci.image.index.v1+json"
    MANIFEST = "application/vnd.oci.image.manifest.v1+json"
    CONFIG = "application/vnd.oci.image.config.v1+json"
    TAR = "application/vnd.oci.image.layer.v1.tar"
    TAR_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
    TAR_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"


LAYERS = (MediaType.TAR, MediaType.TAR_GZIP, MediaType.TAR_ZSTD)

REF_NAME = "org.opencontainers.image.ref.name"
TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"

XPKG = "io.crossplane.xpkg"
"""The annotation of a layer that Crossplane reads."""

XPKG_BASE = "base"
"""Its value for the layer with ``package.yaml``."""


def xpkg_label(digest: str) -> str:
    """Return the label of the config from which ``crossplane xpkg push`` restores a layer's annotation."""
    return f"{XPKG}:{digest}"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A reference to a blob."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = field(default_factory=dict)

    def json(self) -> Json:
        """Return it in its wire form."""
        plain: Json = {"mediaType": str(self.media_type), "digest": self.digest, "size": self.size}
        return plain | ({"annotations": self.annotations} if self.annotations else {})


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer: its blob, and the digest of its uncompressed content."""

    blob: Descriptor
    diff_id: str


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform of an image, in the specification's terms."""

    architecture: str
    os: str = "linux"
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def json(self) -> Json:
        """Return it in its wire form."""
        plain = {"architecture": self.architecture, "os": self.os}
        return plain | ({"variant": self.variant} if self.variant else {})


_ARCHITECTURES = {
    "x86_64": Platform("amd64"),
    "aarch64": Platform("arm64", variant="v8"),
    "ppc64le": Platform("ppc64le"),
    "riscv64": Platform("riscv64"),
    "s390x": Platform("s390x"),
}


def this_platform() -> Platform:
    """Return the platform of this machine, for a Linux image."""
    machine = platform.machine()
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        raise PackageError(
            f'cannot make an image for a machine of type "{machine}": it is none of '
            f"{', '.join(_ARCHITECTURES)}: give --runtime-image, an image made elsewhere"
        ) from None


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its layers, lowest first, and its start configuration."""

    platform: Platform
    config: Json
    """The ``config`` of the specification: ``Entrypoint``, ``Env``, ``User``, ``Labels`` and so on."""
    layers: tuple[Layer, ...]
