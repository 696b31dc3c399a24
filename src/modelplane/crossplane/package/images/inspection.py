"""Content of a package file, with every digest verified."""

import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from modelplane.crossplane.package.building import PACKAGE_FILE
from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.image_files import Files, damaged, well_formed
from modelplane.crossplane.package.images.oci import VERSION, XPKG, XPKG_BASE, Descriptor, Json
from modelplane.crossplane.package.images.reading import stored_image
from modelplane.crossplane.package.images.stored_image import StoredImage
from modelplane.crossplane.package.metadata import API_VERSION, Dependency, PackageKind

_LARGEST = 200 << 20
"""Size limit of ``package.yaml`` in Crossplane."""

_META = f"{API_VERSION.partition('/')[0]}/"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The description of a package file."""

    kind: PackageKind
    name: str
    version: str
    """Platform of its image; empty if unknown."""
    tag: str
    digest: str
    """Digest of its manifest; empty for a plain Docker archive."""
    crossplane: str
    """The compatible versions of Crossplane."""
    dependencies: tuple[Dependency, ...]
    objects: tuple[tuple[str, str], ...]
    """Kind and name of each object."""
    platform: str
    config: Json
    layers: tuple[Descriptor, ...]

    @property
    def runs(self) -> bool:
        """Return True if it also contains a program, which has a platform."""
        return bool(self.config.get("Entrypoint"))

    def json(self) -> Json:
        """Return it as a document."""
        return {
            "kind": str(self.kind),
            "name": self.name,
            "version": self.version,
            "tag": self.tag,
            "digest": self.digest,
            "crossplane": self.crossplane,
            "dependencies": [dependency.document() for dependency in self.dependencies],
            "objects": [{"kind": kind, "name": name} for kind, name in self.objects],
            "platform": self.platform,
            "config": self.config,
            "layers": [layer.json() for layer in self.layers],
        }


def inspect(path: Path) -> Inspection:
    """Return the content of a package file; the error names what is wrong with it."""
    with stored_image(path) as stored:
        stored.verify()
        about, objects = _documents(path, _package_file(stored))
        image = stored.image
        with well_formed(stored.files, PACKAGE_FILE):
            spec = about.get("spec") or {}
            return Inspection(
                kind=PackageKind(about["kind"]),
                name=about["metadata"]["name"],
                version=str((image.config.get("Labels") or {}).get(VERSION, "")),
                tag=stored.tag,
                digest=stored.manifest,
                crossplane=str((spec.get("crossplane") or {}).get("version", "")),
                dependencies=tuple(_dependency(item) for item in spec.get("dependsOn") or ()),
                objects=tuple((entry["kind"], entry["metadata"]["name"]) for entry in objects),
                platform=str(image.platform),
                config=image.config,
                layers=tuple(layer.blob for layer in image.layers),
            )


def _package_file(stored: StoredImage) -> bytes:
    """Return ``package.yaml`` of the annotated layer, or of the uppermost layer that has one."""
    layers = stored.image.layers
    annotated = [n for n, layer in enumerate(layers) if layer.blob.annotations.get(XPKG) == XPKG_BASE]
    for number in annotated or reversed(range(len(layers))):
        try:
            with stored.tar(number) as content, tarfile.open(fileobj=content, mode="r|") as archive:
                for member in archive:
                    if member.isfile() and PurePosixPath(member.name) == PurePosixPath(PACKAGE_FILE):
                        return _content(stored.files, archive, member)
        except tarfile.ReadError as error:
            raise damaged(stored.files.path, f"layer {number + 1} is no tar: {error}") from error
    raise PackageError(
        f'"{stored.files.path}" is an image and not a package: no layer has {PACKAGE_FILE}: '
        "make one of it with `modelplane package build --runtime-image`"
    )


def _content(files: Files, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    if file is None or member.size > _LARGEST:
        raise damaged(
            files.path, f"{PACKAGE_FILE} is larger than the {_LARGEST >> 20} MiB that Crossplane reads"
        )
    return file.read()


def _documents(path: Path, content: bytes) -> tuple[Json, list[Json]]:
    """Return a package's metadata, and its objects."""
    try:
        documents = [item for item in yaml.load_all(content, Loader=_LOADER) if item]
    except yaml.YAMLError as error:
        raise damaged(path, f"{PACKAGE_FILE} is not YAML: {' '.join(str(error).split())}") from error
    if not all(isinstance(document, dict) for document in documents):
        raise damaged(path, f"{PACKAGE_FILE} has a document that is no object")
    about = [document for document in documents if str(document.get("apiVersion", "")).startswith(_META)]
    if len(about) != 1:
        raise damaged(path, f"{PACKAGE_FILE} has {len(about)} objects of {_META[:-1]}, and has to have one")
    return about[0], [document for document in documents if document is not about[0]]


def _dependency(plain: Json) -> Dependency:
    # Packages made for Crossplane before 1.20 name the kind by the field.
    for kind in PackageKind:
        if str(kind).lower() in plain:
            return Dependency(kind, plain[str(kind).lower()], plain.get("version", ""))
    return Dependency(PackageKind(plain["kind"]), plain["package"], plain.get("version", ""))
