"""An image as one file that every tool reads.

It is a tar of an OCI image layout (``oci-layout``, ``index.json``, ``blobs/sha256/``), as skopeo, oras and
containerd read it. A ``manifest.json`` over the same blobs makes it a Docker archive too, for ``docker load``
and ``crossplane xpkg push``. No layer of a Docker archive has annotations; Crossplane's CLI makes them from
labels of the config (``AnnotateLayers`` in its ``internal/xpkg/layers.go``), so the image has both.
"""

from pathlib import Path

from modelplane.crossplane.package.images.blobs import Blobs, canonical_json
from modelplane.crossplane.package.images.image_entries import Entry, File, arranged, write_tar
from modelplane.crossplane.package.images.oci import REF_NAME, Descriptor, Image, Json, MediaType

BLOBS = "blobs/sha256"
OCI_LAYOUT = "oci-layout"
INDEX = "index.json"
DOCKER_MANIFEST = "manifest.json"

LAYOUT_VERSION = {"imageLayoutVersion": "1.0.0"}


def write(path: Path, image: Image, blobs: Blobs, address: str, tag: str) -> str:
    """Write an image and its blobs to a file; return the digest of its manifest."""
    config = blobs.add_json(_config(image), MediaType.CONFIG)
    layers = [layer.blob for layer in image.layers]
    name = f"{address}:{tag}"
    manifest = blobs.add_json(_manifest(config, layers), MediaType.MANIFEST)
    index = {
        "schemaVersion": 2,
        "mediaType": str(MediaType.INDEX),
        "manifests": [
            # Podman loads the image under this name.
            manifest.json() | {"platform": image.platform.json(), "annotations": {REF_NAME: name}},
        ],
    }
    docker = [
        {
            "Config": _inside(config),
            "RepoTags": [name],
            "Layers": [_inside(layer) for layer in layers],
        }
    ]
    contents = [(OCI_LAYOUT, LAYOUT_VERSION), (INDEX, index), (DOCKER_MANIFEST, docker)]
    first = [File(name, canonical_json(content)) for name, content in contents]
    rest = [
        File(_inside(descriptor), blobs.path(descriptor.digest)) for descriptor in (config, manifest, *layers)
    ]
    # The indexes come first, so that even a truncated file can be identified.
    _replace(path, [*first, *arranged(rest)])
    return manifest.digest


def _inside(blob: Descriptor) -> str:
    return f"{BLOBS}/{blob.digest.removeprefix('sha256:')}"


def _config(image: Image) -> Json:
    rootfs = {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]}
    return image.platform.json() | {"config": image.config, "rootfs": rootfs}


def _manifest(config: Descriptor, layers: list[Descriptor]) -> Json:
    return {
        "schemaVersion": 2,
        "mediaType": str(MediaType.MANIFEST),
        "config": config.json(),
        "layers": [layer.json() for layer in layers],
    }


def _replace(path: Path, entries: list[Entry]) -> None:
    """Write to a temporary file first, so that the file is always complete or unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    incoming = path.with_name(f".{path.name}.incoming")
    try:
        with incoming.open("wb") as out:
            write_tar(out, entries)
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)
