"""Docker archives: ``manifest.json`` names the files of a config and of layers."""

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.image_archive import DOCKER_MANIFEST
from modelplane.crossplane.package.images.image_files import Files, parsed, read, required, well_formed
from modelplane.crossplane.package.images.oci import XPKG, Descriptor, Json, MediaType, xpkg_label
from modelplane.crossplane.package.images.oci_layout import image_of
from modelplane.crossplane.package.images.stored_image import StoredImage, measured

_MAGIC = {b"\x1f\x8b": MediaType.TAR_GZIP, b"\x28\xb5": MediaType.TAR_ZSTD}


def read_archive(files: Files) -> StoredImage:
    """Return the one image of an archive; its layers' annotations come from labels of its config."""
    content = parsed(files, DOCKER_MANIFEST, read(files, DOCKER_MANIFEST))
    with well_formed(files, DOCKER_MANIFEST):
        if len(content) != 1:
            raise PackageError(f'"{files.path}" has {len(content)} images: keep the one that is meant')
        [entry] = content
        names = tuple(str(name) for name in entry["Layers"])
        config_name = str(entry["Config"])
        tags = [str(tag) for tag in entry.get("RepoTags") or ()]
    config = parsed(files, config_name, read(files, config_name))
    with well_formed(files, config_name):
        labels: Json = (config.get("config") or {}).get("Labels") or {}
    image = image_of(files, config, tuple(_blob(files, name, labels) for name in names))
    return StoredImage(files, image, names, tag=tags[0].rpartition(":")[2] if tags else "")


def _blob(files: Files, name: str, labels: Json) -> Descriptor:
    with required(files, name) as file:
        magic = file.read(2)
    with required(files, name) as file:
        digest, size = measured(file)
    annotation = labels.get(xpkg_label(digest))
    return Descriptor(
        _MAGIC.get(magic, MediaType.TAR), digest, size, {XPKG: str(annotation)} if annotation else {}
    )
