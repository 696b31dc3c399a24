"""The function's runtime image, built from the running Python without a container engine.

Three layers, by how often they change: Python with system libraries, dependencies, and Modelplane. There is
no shell in the image, and nothing is written at run time: Crossplane runs it as a user of its own.
"""

import ssl
from itertools import chain
from pathlib import Path

from modelplane.crossplane.package.images.blobs import Blobs
from modelplane.crossplane.package.images.image_entries import ANYONE_MAY_WRITE, Entry, File, Folder
from modelplane.crossplane.package.images.oci import Image, Json, this_platform
from modelplane.crossplane.package.python import distributions, interpreter
from modelplane.crossplane.package.python.libraries import libraries

PREFIX = "usr/local"
LIBRARIES = f"{PREFIX}/lib"
PACKAGES = "app"
USER = 65532
PORT = 9443
COMMAND = "function"

_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_KNOWN_CERTIFICATES = (f"/{_CERTIFICATES}", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def from_this_python(blobs: Blobs) -> Image:
    """Return an image of the running Python and of the function's dependencies."""
    platform = this_platform()
    python = interpreter.running()
    own, *needed = distributions.required()
    base = list(python.files(PREFIX))
    packages = list(
        chain.from_iterable(distributions.files(distribution, PACKAGES) for distribution in needed)
    )
    modelplane = list(distributions.files(own, PACKAGES))
    shared = libraries([*base, *packages, *modelplane], LIBRARIES)
    layers = ([*base, *shared, *_system()], packages, modelplane)
    config = _config(python.executable_in(f"/{PREFIX}"))
    return Image(platform, config, tuple(blobs.add_entries(layer) for layer in layers))


def _config(executable: str) -> Json:
    environment = {
        "HOME": "/tmp",  # noqa: S108 - the one world-writable folder of the image
        "LD_LIBRARY_PATH": f"/{LIBRARIES}",
        "PATH": f"/{PREFIX}/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"/{PACKAGES}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "SSL_CERT_FILE": f"/{_CERTIFICATES}",
    }
    return {
        "Cmd": [COMMAND],
        "Entrypoint": [executable, "-m", "modelplane.cli.main"],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "ExposedPorts": {f"{PORT}/tcp": {}},
        "User": f"{USER}:{USER}",
        "WorkingDir": "/",
    }


def _system() -> list[Entry]:
    """Return the few files that the C library and TLS read."""
    accounts = f"root:x:0:0:root:/:/nologin\nmodelplane:x:{USER}:{USER}:Modelplane:/tmp:/nologin\n"
    entries: list[Entry] = [
        File("etc/group", f"root:x:0:\nmodelplane:x:{USER}:\n".encode()),
        File("etc/nsswitch.conf", b"hosts: files dns\n"),
        File("etc/passwd", accounts.encode()),
        Folder("tmp", ANYONE_MAY_WRITE),
    ]
    known = (ssl.get_default_verify_paths().cafile, *_KNOWN_CERTIFICATES)
    certificates = [Path(path) for path in known if path and Path(path).is_file()]
    return entries + [File(_CERTIFICATES, path.resolve()) for path in certificates[:1]]
