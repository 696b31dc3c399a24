"""Package files: a layer with ``package.yaml``, and for the function its runtime below it.

An image is a package if one layer has ``package.yaml`` at its root and an annotation that says so; Crossplane
then reads no other layer (its "xpkg Specification", in ``contributing/specifications/xpkg.md``).
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from modelplane.crossplane.package import oci
from modelplane.crossplane.package.metadata import PackageKind, Registry, Version, stream
from modelplane.crossplane.package.oci import (
    TITLE,
    VERSION,
    XPKG,
    XPKG_BASE,
    Blobs,
    File,
    Image,
    MediaType,
    Platform,
    xpkg_label,
)
from modelplane.crossplane.package.oci_layout import open_image
from modelplane.crossplane.package.package_contents import Contents
from modelplane.crossplane.package.runtime import COMMAND, PORT, from_this_python
from modelplane.user_error import UserError

PACKAGE_FILE = "package.yaml"
SUFFIX = ".xpkg"

Runtime = Callable[[Blobs], Image]

_NO_RUNTIME = Image(Platform("amd64"), {}, ())
"""Platform of a Configuration, which has no program. Crossplane takes linux/amd64 of several images."""


@dataclass(frozen=True, slots=True)
class Built:
    """A package that was written."""

    name: str
    address: str
    digest: str
    path: Path
    size: int


def build(
    contents: Contents,
    registry: Registry,
    version: Version,
    folder: Path,
    runtime: Runtime = from_this_python,
) -> Built:
    """Write one package into a folder; the runtime is the function's."""
    address = registry.address(contents.repository)
    path = folder / f"modelplane-{contents.repository}-{version.number}{SUFFIX}"
    with tempfile.TemporaryDirectory(prefix="modelplane-package-") as scratch:
        blobs = Blobs(Path(scratch))
        below = runtime(blobs) if contents.kind is PackageKind.FUNCTION else _NO_RUNTIME
        package = blobs.add_entries([File(PACKAGE_FILE, stream(contents.documents).encode())])
        blob = replace(package.blob, annotations={XPKG: XPKG_BASE})
        labels = (below.config.get("Labels") or {}) | {
            TITLE: contents.name,
            VERSION: version.number,
            xpkg_label(blob.digest): XPKG_BASE,
        }
        image = replace(
            below,
            config=below.config | {"Labels": labels},
            layers=(*below.layers, replace(package, blob=blob)),
        )
        digest = oci.write(path, image, blobs, address, version.tag)
    return Built(contents.name, address, digest, path, path.stat().st_size)


def runtime_from(path: Path) -> Runtime:
    """Return a runtime from the OCI image layout of a container engine."""

    def copy(blobs: Blobs) -> Image:
        with open_image(path) as stored:
            stored.verify()
            if not stored.image.config.get("Entrypoint"):
                raise UserError(
                    f'"{path}" cannot be the function\'s runtime: no entrypoint takes the word "{COMMAND}": '
                    "give an image that starts `modelplane`"
                )
            layers = []
            for number, layer in enumerate(stored.image.layers):
                with stored.layer(number) as file:
                    if layer.blob.media_type == MediaType.TAR:
                        layers.append(blobs.add_tar(file))
                    else:
                        layers.append(replace(layer, blob=blobs.add_stream(file, layer.blob.media_type)))
            config = stored.image.config | {"Cmd": [COMMAND], "ExposedPorts": {f"{PORT}/tcp": {}}}
            return replace(stored.image, config=config, layers=tuple(layers))

    return copy
