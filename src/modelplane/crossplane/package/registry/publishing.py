"""Push of package files to a registry: blobs first, then manifests, and the tag last."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.blobs import CHUNK, canonical_json, digest_of
from modelplane.crossplane.package.images.image_archive import BLOBS
from modelplane.crossplane.package.images.image_files import Files, parsed, read, required, well_formed
from modelplane.crossplane.package.images.oci import Descriptor, MediaType
from modelplane.crossplane.package.images.reading import stored_image
from modelplane.crossplane.package.images.stored_image import StoredImage
from modelplane.crossplane.package.package_addresses import Target
from modelplane.crossplane.package.registry.repository import Repository


@dataclass(frozen=True, slots=True)
class Pushed:
    """A package in a registry."""

    tag: str
    digest: str
    uploaded: int
    """Bytes that the registry lacked."""
    is_new: bool
    """False if the tag had this content before."""


Report = Callable[[Descriptor, bool], None]
"""Told of each blob, and whether it had to be uploaded."""


def push(
    paths: Sequence[Path], target: Target, repository: Repository, report: Report, *, replace: bool = False
) -> Pushed:
    """Push one package, or an index of one for each platform. Raises ``PackageError``."""
    with ExitStack() as stack:
        images = [_checked(stack.enter_context(stored_image(path))) for path in paths]
        manifests = [_Manifest.of(image) for image in images]
        tag = target.tag or _tag(images)
        media_type, content = _tagged(images, manifests)
        digest = digest_of(content)
        found = repository.manifest(tag)
        if found == content:
            return Pushed(tag, digest, 0, is_new=False)
        if found is not None and not replace:
            raise PackageError(
                f"{target.address}:{tag} exists with other content ({digest_of(found)}): push another "
                "version, or repeat the command with --replace"
            )
        uploaded = sum(manifest.upload(repository, report) for manifest in manifests)
        for each in manifests if media_type == MediaType.INDEX else ():
            repository.put(each.blob.digest, each.blob.media_type, each.content)
        repository.put(tag, media_type, content)
        return Pushed(tag, digest, uploaded, is_new=True)


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The manifest of an image, and the blobs that it names."""

    files: Files
    blob: Descriptor
    content: bytes
    blobs: tuple[Descriptor, ...]

    @classmethod
    def of(cls, image: StoredImage) -> "_Manifest":
        name = _name(image.manifest)
        content = read(image.files, name)
        document = parsed(image.files, name, content)
        with well_formed(image.files, name):
            media_type = str(document.get("mediaType") or MediaType.MANIFEST)
            blobs = tuple(
                Descriptor(str(item["mediaType"]), str(item["digest"]), int(item["size"]))
                for item in (*document["layers"], document["config"])
            )
        return cls(image.files, Descriptor(media_type, image.manifest, len(content)), content, blobs)

    def upload(self, repository: Repository, report: Report) -> int:
        """Upload the blobs that the repository lacks; return their bytes."""
        uploaded = 0
        for blob in self.blobs:
            is_missing = not repository.has(blob.digest)
            if is_missing:
                repository.upload(blob, partial(_chunks, self.files, blob))
                uploaded += blob.size
            report(blob, is_missing)
        return uploaded


def _checked(image: StoredImage) -> StoredImage:
    image.verify()
    if not image.manifest:
        raise PackageError(
            f'"{image.files.path}" is a Docker archive, which has no manifest to push: build it with '
            "`modelplane package build`, or push it with the tool that wrote it"
        )
    return image


def _tag(images: Iterable[StoredImage]) -> str:
    found = sorted({image.tag for image in images})
    if len(found) != 1 or not found[0]:
        raise PackageError(
            f"the files have {', '.join(text for text in found if text) or 'no tag'}: name the tag to push, "
            "as in REGISTRY/PATH:TAG"
        )
    return found[0]


def _tagged(images: Sequence[StoredImage], manifests: Sequence[_Manifest]) -> tuple[str, bytes]:
    """Return what the tag names: the manifest of one image, or an index of several."""
    if len(manifests) == 1:
        return manifests[0].blob.media_type, manifests[0].content
    platforms = [str(stored.image.platform) for stored in images]
    if len(set(platforms)) != len(platforms):
        raise PackageError(
            f"the files are for {', '.join(platforms)}: name one file for each platform, of one package"
        )
    entries = [
        manifest.blob.json() | {"platform": image.image.platform.json()}
        for image, manifest in zip(images, manifests, strict=True)
    ]
    index = {"schemaVersion": 2, "mediaType": str(MediaType.INDEX), "manifests": entries}
    return MediaType.INDEX, canonical_json(index)


def _chunks(files: Files, blob: Descriptor) -> Iterator[bytes]:
    with required(files, _name(blob.digest)) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _name(digest: str) -> str:
    return f"{BLOBS}/{digest.removeprefix('sha256:')}"
