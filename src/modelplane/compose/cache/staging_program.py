"""The programs of a ModelCache's Job, for any Python that its image has.

The first is for the Hugging Face hub. It imports nothing of ours and is constant: values that differ between
caches are in the environment (``REPO``, ``REVISION``, ``FILES``, ``ARTIFACT``, ``HF_TOKEN``). Its arguments
are the volume, the name of the marker file in it, the requirements to install if the library is missing, and
the exit code for failures that a retry cannot fix. pip does not get the token, and installs only wheels with
the hashes of the requirements.

A download that was interrupted goes on where it ended: the hub's library finds its parts in the folder of the
artifact in the volume, which only another artifact removes.

The marker is JSON and names the artifact in the volume. It is removed before the first file of another
artifact is put in place, and written after the last. Replaced files are moved aside, not removed, so that
engines can read the ones that they have open; the next change removes them.

A change of its text makes another Job of each cache that is not staged. So the other sources have a program
of their own: the modules of ``modelplane.staging``, joined to one text.
"""

import pkgutil
import re

REQUIREMENTS = """
huggingface_hub==2.4.0 \
    --hash=sha256:42ecfd93ede47bdd333daebbf66a32d7bfe2e18752754fe4d2d4f98a0179d801
click==8.5.1 \
    --hash=sha256:8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37
filelock==4.2.11 \
    --hash=sha256:020e229e4bb9d410fc799c07ddf45fa217cba970278f40b30751d94f309b69e2
fsspec==2026.9.0 \
    --hash=sha256:8dd6e646e99ea382bd85f97a45e6b526a442d79423a7dc673f1e2756d05fcb5f
hf-xet==1.8.0 \
    --hash=sha256:29dab7c904cd1914a0439c6e1306c12c7497c8bd32290fbe563ebf51ca4b6d6d \
    --hash=sha256:8800e3444770f2c630b361bc6d5c6ebb770b7830646cf632fbb79d0e5bbc9e7f
httpx2==2.16.2 \
    --hash=sha256:f05c13aade4c45dbf1c9060647a1058f0acad62398fad96e741269edb33d46f5
httpcore2==2.16.2 \
    --hash=sha256:16051ae2a42f776007543f32de9349a317b23d2cbb4e1456b4bac0e88b87419a
packaging==26.3 \
    --hash=sha256:d7193f7c8e4e93f444fde0262bf90af30e16fa0ad0ad44cb553c87339b23cd1c
PyYAML==6.0.3 \
    --hash=sha256:0f29edc409a6392443abf94b9cf89ce99889a1dd5376d94316ae5145dfedd5d6 \
    --hash=sha256:ee2922902c45ae8ccada2c5b501ab86c36525b883eff4255313a253a3160861c
tqdm==4.70.1 \
    --hash=sha256:c293e525e6fef9c20e8728fd4612df02a0aa31bb5fe91ecd93e123b1b7bffa73
typing_extensions==4.16.0 \
    --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8
anyio==4.16.0 \
    --hash=sha256:c66ae634e0b8228396b801741beb3294326d4b6102f7bba4041c0dfb58c29026
idna==3.20 \
    --hash=sha256:ab7ae7122974553370f0bdb919e1a960b2cd1bc1ef0276416d896db81c14582c
truststore==0.10.5 \
    --hash=sha256:9aaaedaefaf06d8b206278cf8b5012bc897f485a874503501e12d776df78951c
h11==0.16.0 \
    --hash=sha256:63cf8bbe7522de3bf65932fda1d9c2772064ffb3dae62d55932da54b31cb6c86
"""
"""Requirements of the program for the hub, for Python 3.13 on Linux, x86_64 and aarch64.

To update them, resolve both platforms with
``pip install --dry-run --ignore-installed --report - --only-binary=:all: --python-version 3.13``.
"""

_SOURCES = ("hub_source", "http_source", "s3_source", "ngc_source", "oci_source", "volume_source")
_OWN_IMPORT = re.compile(r"^from modelplane\.staging\.\w+ import (?:\([^)]*\)|[^(\n]*)\n", re.MULTILINE)


def _read(package: str, file: str) -> str:
    return (pkgutil.get_data(package, file) or b"").decode()


def _read_staging(module: str) -> str:
    return _OWN_IMPORT.sub("", _read("modelplane.staging", f"{module}.py"))


# The line at the beginning is part of the text, which must not change.
PROGRAM = "\n" + _read(__package__, "hub_program.py.txt")
"""The program for the Hugging Face hub."""

_MIRRORS = "\n" + _read(__package__, "hub_mirrors.py.txt")

MIRROR_PROGRAM = "\n\n".join([*map(_read_staging, ("web", "checksums", "stage")), _MIRRORS, PROGRAM])
"""The program with mirrors, or for a mirror of the hub: it connects to no address of the machine either."""

SOURCES_PROGRAM = "\n\n".join(map(_read_staging, ("web", "checksums", "stage", *_SOURCES, "main")))
"""The program for every source but the Hugging Face hub (see ``main`` of ``modelplane.staging``)."""
