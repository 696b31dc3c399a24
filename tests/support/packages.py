"""A small image in place of a Python with everything, for packages of tests."""

from modelplane.crossplane.package.metadata import Version
from modelplane.crossplane.package.oci import Blobs, File, Image, Platform

VERSION = Version("1.2.3")


def small_runtime(blobs: Blobs) -> Image:
    """Return an image of one layer."""
    layer = blobs.add_entries([File("app/run", b"#!\n", executable=True)])
    config = {"Entrypoint": ["/app/run"], "Cmd": ["function"], "User": "65532"}
    return Image(Platform("amd64"), config, (layer,))
