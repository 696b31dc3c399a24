"""OCI image layouts: ``index.json`` names a manifest, which names a config and layers."""

import io
import re
from typing import Any

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.image_archive import BLOBS, INDEX
from modelplane.crossplane.package.images.image_files import Files, damaged, parsed, read, well_formed
from modelplane.crossplane.package.images.oci import (
    LAYERS,
    REF_NAME,
    Descriptor,
    Image,
    Json,
    Layer,
    MediaType,
    Platform,
    this_platform,
)
from modelplane.crossplane.package.images.stored_image import StoredImage, check

_DEEPEST = 4
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_DOCKER = "application/vnd.docker."
_MEDIA_TYPES: dict[str, str] = {
    f"{_DOCKER}distribution.manifest.list.v2+json": MediaType.INDEX,
    f"{_DOCKER}distribution.manifest.v2+json": MediaType.MANIFEST,
    f"{_DOCKER}container.image.v1+json": MediaType.CONFIG,
    f"{_DOCKER}image.rootfs.diff.tar": MediaType.TAR,
    f"{_DOCKER}image.rootfs.diff.tar.gzip": MediaType.TAR_GZIP,
}
"""Docker's names for the same formats."""


def read_layout(files: Files) -> StoredImage:
    """Return the one image of a layout, or the one for this machine."""
    descriptor, tag = _chosen(files, parsed(files, INDEX, read(files, INDEX)))
    manifest = _document(files, descriptor)
    with well_formed(files, f"manifest {descriptor.digest}"):
        config_descriptor = _descriptor(manifest["config"])
        blobs = tuple(_descriptor(layer) for layer in manifest["layers"])
    config = _document(files, config_descriptor)
    image = image_of(files, config, blobs)
    names = tuple(_name(blob) for blob in blobs)
    return StoredImage(files, image, names, descriptor.digest, tag)


def image_of(files: Files, config: Any, blobs: tuple[Descriptor, ...]) -> Image:
    """Return the image of a config and its layers."""
    with well_formed(files, "the image's config"):
        diff_ids = tuple(str(item) for item in config["rootfs"]["diff_ids"])
        platform = Platform(config["architecture"], config["os"], config.get("variant", ""))
        started: Json = config.get("config") or {}
    if len(diff_ids) != len(blobs):
        raise damaged(
            files.path, f"its config speaks of {len(diff_ids)} layers and its manifest of {len(blobs)}"
        )
    unknown = sorted({blob.media_type for blob in blobs} - set(LAYERS))
    if unknown:
        raise PackageError(f'cannot read "{files.path}": a layer is {unknown[0]}, which is no tar')
    return Image(platform, started, tuple(map(Layer, blobs, diff_ids)))


def _chosen(files: Files, index: Any, depth: int = 1) -> tuple[Descriptor, str]:
    with well_formed(files, INDEX):
        # Attestations are listed as images without a platform.
        entries = [
            manifest for manifest in index["manifests"] if manifest.get("platform", {}).get("os") != "unknown"
        ]
        fitting = [item for item in entries if _fits(item.get("platform", {}))]
        alone = entries if len(entries) == 1 else fitting
        entry = alone[0] if len(alone) == 1 and depth <= _DEEPEST else None
        platforms = [_shown(item.get("platform", {})) for item in entries]
    if entry is None:
        raise PackageError(
            f'cannot tell which image of "{files.path}" is meant: it has {len(entries)} of them, for '
            f"{', '.join(sorted(platforms)) or 'nothing'}: keep one, or one for {this_platform()}"
        )
    with well_formed(files, INDEX):
        descriptor = _descriptor(entry)
        tag = str(entry.get("annotations", {}).get(REF_NAME, ""))
    if descriptor.media_type == MediaType.INDEX:
        return _chosen(files, _document(files, descriptor), depth + 1)
    return descriptor, tag


def _fits(platform: Json) -> bool:
    here = this_platform()
    return (platform.get("os"), platform.get("architecture")) == (here.os, here.architecture)


def _shown(platform: Json) -> str:
    return f"{platform.get('os', 'any system')}/{platform.get('architecture', 'any machine')}"


def _descriptor(plain: Json) -> Descriptor:
    digest, media_type = plain["digest"], plain["mediaType"]
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no digest by SHA-256")
    annotations = {str(key): str(value) for key, value in (plain.get("annotations") or {}).items()}
    return Descriptor(str(_MEDIA_TYPES.get(media_type, media_type)), digest, int(plain["size"]), annotations)


def _name(blob: Descriptor) -> str:
    return f"{BLOBS}/{blob.digest.removeprefix('sha256:')}"


def _document(files: Files, descriptor: Descriptor) -> Any:
    content = read(files, _name(descriptor))
    check(files, _name(descriptor), descriptor, io.BytesIO(content))
    return parsed(files, _name(descriptor), content)
