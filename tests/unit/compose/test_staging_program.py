"""The program of the Job, run as it is, with a hub of our own in the place of the library."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.compose.cache.staging_program import PROGRAM, REQUIREMENTS

HUB = """
import fnmatch, hashlib, os, sys, time, types
from pathlib import Path

class Missing(OSError): ...
class Gated(Missing): ...
class NoRevision(Missing): ...
errors = types.SimpleNamespace(
    GatedRepoError=Gated, RevisionNotFoundError=NoRevision, RepositoryNotFoundError=Missing
)
HELD = dict(pair.split("=") for pair in os.environ["HELD"].split(","))

def http_get(url, temp_file, *, resume_size=0):
    temp_file.write(url.encode())
    if again := os.environ.get("AGAIN"):
        temp_file.seek(0)
        temp_file.truncate()
        temp_file.write(again.encode())

file_download = types.SimpleNamespace(http_get=http_get)

def snapshot_download(repo, revision, local_dir, allow_patterns):
    assert revision == "c0ffee"
    if os.environ.get("FAILURE_OF_VOLUME"):
        raise PermissionError(13, "Permission denied")
    for name, content in HELD.items():
        if not any(fnmatch.fnmatch(name, each) for each in allow_patterns or ["*"]):
            continue
        path = Path(local_dir) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            arrived = "dam" if os.environ.get("DAMAGED") == name else content
            file_download.http_get(url=arrived, temp_file=file)
    (Path(local_dir) / ".cache").mkdir(exist_ok=True)
    if replaced := os.environ.get("REPLACED"):
        checks, deadline = sys._getframe(1).f_locals["checks"], time.monotonic() + 60
        while replaced not in checks.right:
            assert time.monotonic() < deadline, "the file is not checked while others arrive"
            time.sleep(0.01)
        other = Path(local_dir) / "other"
        other.write_text("dam")
        other.replace(Path(local_dir) / replaced)

class HfApi:
    def model_info(self, repo, revision):
        failure = os.environ.get("FAILURE")
        if failure == "full":
            raise OSError(28, "No space left on device")
        if failure:
            known = {"gated": Gated, "revision": NoRevision, "missing": Missing, "away": OSError}
            raise known[failure](failure)
        return types.SimpleNamespace(sha="c0ffee")

    def list_repo_tree(self, repo, revision, recursive):
        yield types.SimpleNamespace(path="original", tree_id="a folder")
        for name, content in HELD.items():
            large = types.SimpleNamespace(sha256=hashlib.sha256(content.encode()).hexdigest())
            blob = hashlib.sha1(b"blob %d\\0" % len(content) + content.encode()).hexdigest()
            yield types.SimpleNamespace(path=name, blob_id=blob, lfs=large if "shard" in name else None)
"""


class Volume:
    """A volume, and the program run on it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "volume"
        self.path.mkdir()
        (folder / "huggingface_hub.py").write_text(HUB)
        self._library = folder

    def stage(self, artifact: str, held: dict[str, str], **environment: str) -> tuple[int, str]:
        """Return how the program exited, and its last line."""
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(self.path), ".marker", "hub==1", "65"],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(self._library),
                "REPO": "team/model",
                "ARTIFACT": artifact,
                "HELD": ",".join(f"{name}={content}" for name, content in held.items()),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stderr.strip().rpartition("\n")[2]

    def files(self) -> dict[str, str]:
        """Return what an engine would find."""
        shown = (path for path in self.path.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.path)): path.read_text()
            for path in shown
            if not path.relative_to(self.path).parts[0].startswith(".")
        }

    def marker(self) -> str:
        marker = self.path / ".marker"
        return str(json.loads(marker.read_text())["artifact"]) if marker.exists() else ""


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


def test_the_weights_are_put_in_place_and_the_marker_says_which(volume: Volume) -> None:
    assert volume.stage("a", {"config.json": "1", "original/x.bin": "2"}) == (0, "")
    assert volume.files() == {"config.json": "1", "original/x.bin": "2"}
    assert volume.marker() == "a"


def test_safetensors_alone_leave_out_code_and_pickles(volume: Volume) -> None:
    held = {"config.json": "1", "a/x.safetensors": "2", "x.bin": "3", "modeling.py": "4", "x.pt": "5"}
    assert volume.stage("a", held, FILES="Safetensors") == (0, "")
    assert volume.files() == {"config.json": "1", "a/x.safetensors": "2"}
    assert volume.stage("b", held, FILES="All") == (0, "")
    assert volume.files() == held


def test_a_repository_without_safetensors_is_told(volume: Volume) -> None:
    said = "team/model has no *.safetensors files: set files to All"
    assert volume.stage("a", {"config.json": "1", "x.bin": "2"}, FILES="Safetensors") == (65, said)
    assert volume.files() == {}


def test_a_volume_that_cannot_be_written_is_told(volume: Volume) -> None:
    said = f"user {os.getuid()} cannot write to the volume: its StorageClass must apply fsGroup"
    assert volume.stage("a", {"config.json": "1"}, FAILURE_OF_VOLUME="x") == (65, said)


def test_weights_that_are_there_are_not_downloaded_again(volume: Volume) -> None:
    volume.stage("a", {"config.json": "1"})
    assert volume.stage("a", {"config.json": "1"}, FAILURE="away") == (0, "")


def test_another_source_leaves_nothing_of_the_first(volume: Volume) -> None:
    volume.stage("a", {"config.json": "1", "shard": "old", "old/x": "2"})
    with (volume.path / "shard").open() as engine:
        assert volume.stage("b", {"config.json": "3", "shard": "new", "old": "file"}) == (0, "")
        assert volume.files() == {"config.json": "3", "shard": "new", "old": "file"}
        assert (volume.marker(), engine.read()) == ("b", "old")


def test_the_first_weights_stay_until_the_second_are_whole(volume: Volume) -> None:
    volume.stage("a", {"config.json": "1"})
    assert volume.stage("b", {"config.json": "2"}, DAMAGED="config.json") == (1, "1 files damaged, 0 missing")
    assert (volume.files(), volume.marker()) == ({"config.json": "1"}, "a")
    assert volume.stage("b", {"config.json": "2"}) == (0, "")


def test_a_file_that_is_replaced_after_its_check_is_checked_again(volume: Volume) -> None:
    """It was checked while others arrived: the library may replace what an earlier attempt has left."""
    held = {"config.json": "1", "shard-1": "2"}
    assert volume.stage("a", held, REPLACED="shard-1") == (1, "1 files damaged, 0 missing")
    assert (volume.files(), volume.marker()) == ({}, "")
    assert volume.stage("a", held) == (0, "")


def test_a_file_that_the_library_began_again_is_read(volume: Volume) -> None:
    """It is hashed while it is written, and so its hash is not that of what it has."""
    assert volume.stage("a", {"shard-1": "two"}, AGAIN="dam") == (1, "1 files damaged, 0 missing")
    assert volume.stage("a", {"shard-1": "two"}, AGAIN="two") == (0, "")
    assert volume.files() == {"shard-1": "two"}


def test_files_of_an_interrupted_attempt_that_the_commit_does_not_have_are_left_out(volume: Volume) -> None:
    left = volume.path / ".modelplane-staging" / "a" / "old" / "model.py"
    left.parent.mkdir(parents=True)
    left.write_text("3")
    assert volume.stage("a", {"config.json": "1"}) == (0, "")
    assert volume.files() == {"config.json": "1"}


def test_what_a_program_that_died_left_behind_is_no_hindrance(volume: Volume) -> None:
    for leftover in (
        ".modelplane-staging/other/x",
        ".modelplane-former/config.json",
        "half-moved",
        ".marker.new",
    ):
        (volume.path / leftover).parent.mkdir(parents=True, exist_ok=True)
        (volume.path / leftover).write_text("")
    assert volume.stage("a", {"config.json": "1"}) == (0, "")
    assert volume.files() == {"config.json": "1"}


@pytest.mark.parametrize(
    ("failure", "ended"),
    [
        pytest.param(
            "gated",
            (65, "team/model is gated: the token must belong to an account that was granted access"),
            id="a gated repository",
        ),
        pytest.param("revision", (65, "team/model has no revision v9"), id="no such revision"),
        pytest.param(
            "missing", (65, "there is no team/model, or the token does not reach it"), id="no such repository"
        ),
        pytest.param(
            "full",
            (
                65,
                "the volume is full: raise sizeGiB; new weights need room beside the old ones",
            ),
            id="a full volume",
        ),
        pytest.param(
            "away", (1, "cannot stage team/model: away"), id="a hub that is away is worth another try"
        ),
    ],
)
def test_only_what_another_try_may_change_is_tried_again(
    volume: Volume, failure: str, ended: tuple[int, str]
) -> None:
    assert volume.stage("a", {"config.json": "1"}, FAILURE=failure, REVISION="v9") == ended


def test_pip_gets_hashes_of_wheels_and_no_token(tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text("")
    stub = (
        "import sys, subprocess, importlib.util, os\n"
        "importlib.util.find_spec = lambda name: None\n"
        "def run(command, check, env):\n"
        "    print(command, 'HF_TOKEN' in env, 'REPO' in env)\n"
        "    sys.exit(0)\n"
        "subprocess.run = run\n"
    )
    environment = {"REPO": "r", "ARTIFACT": "a", "HF_TOKEN": "secret", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", stub + PROGRAM, str(tmp_path), ".marker", REQUIREMENTS, "65"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'--require-hashes'" in done.stdout
    assert "'--only-binary=:all:'" in done.stdout
    assert done.stdout.endswith("False True\n")
    pinned = REQUIREMENTS.replace("\\\n", "").strip().splitlines()
    assert all("==" in line and "--hash=sha256:" in line for line in pinned)
    assert pinned[0].startswith("huggingface_hub==")
