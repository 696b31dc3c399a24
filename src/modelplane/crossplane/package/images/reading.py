"""Opening of an image in either of its two formats."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelplane.crossplane.package.images.docker_archive import read_archive
from modelplane.crossplane.package.images.image_archive import DOCKER_MANIFEST, OCI_LAYOUT
from modelplane.crossplane.package.images.image_files import no_package, opened
from modelplane.crossplane.package.images.oci_layout import read_layout
from modelplane.crossplane.package.images.stored_image import StoredImage

_FORMS = {OCI_LAYOUT: read_layout, DOCKER_MANIFEST: read_archive}
"""The reader of each format, by the file that identifies it; the first match counts."""


@contextmanager
def stored_image(path: Path) -> Iterator[StoredImage]:
    """Open the image in a file or a folder."""
    with opened(path) as files:
        for name, read in _FORMS.items():
            found = files.find(name)
            if found is not None:
                found.close()
                yield read(files)
                return
        raise no_package(path)
