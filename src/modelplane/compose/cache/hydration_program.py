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

To make it anew, resolve both platforms with
``pip install --dry-run --ignore-installed --report - --only-binary=:all: --python-version 3.13``.
"""


PROGRAM = """
import errno, fnmatch, hashlib, importlib.util, json, os, shutil, signal, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

volume, requirements, hopeless = Path(sys.argv[1]), sys.argv[3], int(sys.argv[4])
marker, staging, former = volume / sys.argv[2], volume / ".modelplane-staging", volume / ".modelplane-former"
repo, revision, artifact = os.environ["REPO"], os.environ.get("REVISION"), os.environ["ARTIFACT"]
only = None
if os.environ.get("FILES") == "Safetensors":
    only = ["*.safetensors", "*.json", "*.txt", "*.md", "*.model", "*.jinja", "*.tiktoken"]


def give_up(why):
    print(why, file=sys.stderr)
    sys.exit(hopeless)


def staged():
    try:
        return json.loads(marker.read_text())["artifact"] == artifact
    except (OSError, ValueError, KeyError, TypeError):
        return False


def files(folder):
    skipped = {marker.name, staging.name, former.name, ".cache", "lost+found"}
    every = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return sorted(path for path in every if path.parts[0] not in skipped)


def move(source, target):
    for path in files(source):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        os.replace(source / path, target / path)


class Hashed:
    # A file that is hashed as it is written. What is written again counts again, so the size tells.
    def __init__(self, file):
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def write(self, content):
        self.hash.update(content)
        self.size += len(content)
        return self.file.write(content)

    def __getattr__(self, name):
        return getattr(self.file, name)


def hash_while_writing():
    # Only what the library downloads over plain HTTP: files of Xet, and of another library, are read.
    from huggingface_hub import file_download

    written, get = {}, getattr(file_download, "http_get", None)

    def http_get(url, temp_file, **options):
        hashed = temp_file if isinstance(temp_file, Hashed) else Hashed(temp_file)
        get(url, hashed, **options)
        at = os.fstat(hashed.file.fileno())
        written[at.st_dev, at.st_ino] = hashed.size, hashed.hash.hexdigest()

    if get:
        file_download.http_get = http_get
    return written


class Checks:
    # Files compared with the hub's checksums, large ones while others arrive. Only a file that is still the
    # one that was read is right: the library replaces files that an earlier attempt has left.
    def __init__(self, folder, entries):
        self.folder, self.entries, self.right, self.begun = folder, entries, {}, set()
        self.pool, self.ended = ThreadPoolExecutor(os.cpu_count()), threading.Event()
        self.written = hash_while_writing()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        large = {path for path, entry in self.entries.items() if entry.lfs}
        while not self.ended.wait(1):
            self.begin(path for path in large - self.begun if (self.folder / path).is_file())

    def begin(self, paths):
        for path in paths:
            self.begun.add(path)
            self.pool.submit(self.is_right, path)

    def is_right(self, path):
        with (self.folder / path).open("rb") as file:
            found = os.fstat(file.fileno())
            seen = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
            if self.right.get(path) == seen:
                return True
            entry = self.entries[path]
            size, digest = self.written.get((found.st_dev, found.st_ino), (-1, ""))
            if entry.lfs and size == found.st_size:
                matches = digest == entry.lfs.sha256
            elif entry.lfs:
                matches = hashlib.file_digest(file, "sha256").hexdigest() == entry.lfs.sha256
            else:
                content = file.read()
                matches = hashlib.sha1(b"blob %d\\0" % len(content) + content).hexdigest() == entry.blob_id
        if matches:
            self.right[path] = seen
        return matches

    def damaged(self, paths):
        self.ended.set()
        self.thread.join()
        self.begin(path for path in paths if path not in self.begun)
        self.pool.shutdown()
        return [path for path in paths if not self.is_right(path)]


def download():
    from huggingface_hub import HfApi, snapshot_download

    # Which commit it is now: asked first, because a hub that is away must not look like a finished download.
    commit = HfApi().model_info(repo, revision=revision).sha
    folder = staging / artifact
    leftover = [other for other in staging.iterdir() if other != folder] if staging.is_dir() else []
    for other in (former, *leftover):
        shutil.rmtree(other, ignore_errors=True)
    listed = HfApi().list_repo_tree(repo, revision=commit, recursive=True)
    entries = {
        entry.path: entry
        for entry in listed
        if hasattr(entry, "blob_id") and any(fnmatch.fnmatch(entry.path, each) for each in only or ["*"])
    }
    if only and not any(fnmatch.fnmatch(path, only[0]) for path in entries):
        give_up(f"{repo} has no {only[0]} files: set files to All")
    if "MIRRORS" in os.environ:
        take_from_mirrors(entries)
    checks = Checks(folder, entries)
    snapshot_download(repo, revision=commit, local_dir=folder, allow_patterns=only)
    there = {str(path) for path in files(folder)}
    for path in there - entries.keys():
        (folder / path).unlink()
    damaged = checks.damaged(sorted(there & entries.keys()))
    for path in damaged:
        (folder / path).unlink()
    missing = entries.keys() - there
    if damaged or missing:
        sys.exit(f"{len(damaged)} files damaged, {len(missing)} missing")
    return folder, commit


def put_in_place(folder, commit):
    marker.unlink(missing_ok=True)
    emptied = {parent for path in files(volume) for parent in path.parents if parent.parts}
    move(volume, former)
    for parent in sorted(emptied, reverse=True):
        if not any((volume / parent).iterdir()):
            (volume / parent).rmdir()
    move(folder, volume)
    shutil.rmtree(staging)
    written = marker.with_name(marker.name + ".new")
    written.write_text(json.dumps({"artifact": artifact, "repo": repo, "commit": commit}))
    os.replace(written, marker)


# The first process of a container ignores what it does not handle.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
if not staged():
    if importlib.util.find_spec("huggingface_hub") is None:
        exactly = Path("/tmp/requirements.txt")
        exactly.write_text(requirements)
        pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        pip += ["--target", "/tmp/hub", "--no-deps", "--only-binary=:all:"]
        pip += ["--require-hashes", "--requirement", str(exactly)]
        variables = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
        subprocess.run(pip, check=True, env=variables)
        sys.path.insert(0, "/tmp/hub")
    from huggingface_hub import errors

    try:
        put_in_place(*download())
    except errors.GatedRepoError:
        give_up(f"{repo} is gated: the token must belong to an account that was granted access")
    except errors.RevisionNotFoundError:
        give_up(f"{repo} has no revision {revision}")
    except errors.RepositoryNotFoundError:
        give_up(f"there is no {repo}, or the token does not reach it")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            give_up("the volume is full: raise sizeGiB; new weights need room beside the old ones")
        if isinstance(error, PermissionError):
            give_up(f"user {os.getuid()} cannot write to the volume: its StorageClass must apply fsGroup")
        # In one line: the last one is all that a condition repeats.
        sys.exit(f"cannot stage {repo}: {' '.join(str(error).split())}")
"""


_SOURCES = ("hub_source", "http_source", "s3_source", "ngc_source", "oci_source", "volume_source")
_OWN_IMPORT = re.compile(r"^from modelplane\.staging\.\w+ import (?:\([^)]*\)|[^(\n]*)\n", re.MULTILINE)


def _text(module: str) -> str:
    text = (pkgutil.get_data("modelplane.staging", f"{module}.py") or b"").decode()
    return _OWN_IMPORT.sub("", text)


_TAKE = """
import sys


def refuse(event, arguments):
    try:
        guard(event, arguments)
    except Hopeless as error:
        sys.stderr.write(f"{error}\\n")
        sys.stderr.flush()
        os._exit(int(sys.argv[4]))


def take_from_mirrors(entries):
    # The library downloads what is missing afterwards, and each file is compared as all others are.
    large = [
        File(Path(path), entry.size, None, lambda _, wanted=entry.lfs.sha256: Checksum("sha256", wanted))
        for path, entry in entries.items()
        if entry.lfs
    ]
    limit = sum(file.size for file in large)
    Stage(volume, artifact, limit, json.loads(os.environ["MIRRORS"])).take(large)


sys.addaudithook(refuse)
"""

MIRROR_PROGRAM = "\n\n".join([*map(_text, ("web", "checksums", "stage")), _TAKE, PROGRAM])
"""The program with mirrors, or for a mirror of the hub: it connects to no address of the machine either."""

SOURCES_PROGRAM = "\n\n".join(map(_text, ("web", "checksums", "stage", *_SOURCES, "main")))
"""The program for every source but the Hugging Face hub (see ``main`` of ``modelplane.staging``)."""
