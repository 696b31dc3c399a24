"""The programs of a ModelCache's Job, for any Python that its image has.

The first is for the Hugging Face hub. It imports nothing of ours and is constant: values that differ between
caches are in the environment (``REPO``, ``REVISION``, ``FILES``, ``ARTIFACT``, ``HF_TOKEN``). Its arguments
are the volume, the name of the marker file in it, the requirements to install if the library is missing, and
the exit code for failures that a retry cannot fix. pip does not get the token, and installs only wheels with
the hashes of the requirements.

The marker is JSON and names the artifact in the volume. It is removed before the first file of another
artifact is put in place, and written after the last. Replaced files are moved aside, not removed, so that
engines can read the ones that they have open; the next change removes them.

A change of its text makes another Job of each cache that is not staged. So the other sources have a program
of their own: the modules of ``modelplane.staging``, joined to one text.
"""

import pkgutil
import re

PROGRAM = """
import errno, fnmatch, importlib.util, json, os, shutil, signal, subprocess, sys
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


def download():
    from huggingface_hub import HfApi, snapshot_download

    # Which commit it is now: asked first, because a hub that is away must not look like a finished download.
    commit = HfApi().model_info(repo, revision=revision).sha
    folder = staging / artifact
    leftover = [other for other in staging.iterdir() if other != folder] if staging.is_dir() else []
    for other in (former, *leftover):
        shutil.rmtree(other, ignore_errors=True)
    snapshot_download(repo, revision=commit, local_dir=folder, allow_patterns=only)
    if only and not any(folder.rglob(only[0])):
        give_up(f"{repo} has no {only[0]} files: set files to All")
    result = HfApi().verify_repo_checksums(repo, revision=commit, local_dir=folder)
    for wrong in result.mismatches:
        (folder / wrong["path"]).unlink()
    wanted = only or ["*"]
    missing = [path for path in result.missing_paths if any(fnmatch.fnmatch(path, each) for each in wanted)]
    if result.mismatches or missing:
        sys.exit(f"{len(result.mismatches)} files damaged, {len(missing)} missing")
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


_SOURCES = ("hub_source", "http_source", "s3_source", "oci_source", "volume_source")
_OWN_IMPORT = re.compile(r"^from modelplane\.staging\.\w+ import (?:\([^)]*\)|[^(\n]*)\n", re.MULTILINE)


def _text(module: str) -> str:
    text = (pkgutil.get_data("modelplane.staging", f"{module}.py") or b"").decode()
    return _OWN_IMPORT.sub("", text)


MIRROR_PROGRAM = f"""{_text("web")}

import sys


def refuse(event, arguments):
    try:
        guard(event, arguments)
    except Hopeless as error:
        sys.stderr.write(f"{{error}}\\n")
        sys.stderr.flush()
        os._exit(int(sys.argv[4]))


sys.addaudithook(refuse)
{PROGRAM}"""
"""The program for a mirror of the hub, which connects to no address of the machine either."""

SOURCES_PROGRAM = "\n\n".join(map(_text, ("web", "checksums", "stage", *_SOURCES, "main")))
"""The program for every source but the Hugging Face hub (see ``main`` of ``modelplane.staging``)."""
