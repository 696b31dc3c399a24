"""Another volume of the namespace: copied, and nothing but it."""

from pathlib import Path

import pytest

from unit.staging.conftest import Volume


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The volume to copy from, in the layout of a cache of the Hugging Face hub."""
    path = tmp_path / "source"
    (path / "blobs").mkdir(parents=True)
    (path / "snapshots" / "main").mkdir(parents=True)
    (path / "blobs" / "c0ffee").write_bytes(b"weights")
    (path / "snapshots" / "main" / "config.json").write_bytes(b"{}")
    (path / "snapshots" / "main" / "model.safetensors").symlink_to("../../blobs/c0ffee")
    return path


def test_a_folder_is_copied_and_links_within_the_volume_are_followed(volume: Volume, mounted: Path) -> None:
    assert volume.stage({"volume": {"path": "snapshots/main"}}) == (0, "")
    assert volume.files() == {"config.json": b"{}", "model.safetensors": b"weights"}
    assert not any(path.is_symlink() for path in volume.path.rglob("*"))
    assert volume.marker() == {"artifact": "a", "source": "volume"}
    assert (mounted / "blobs" / "c0ffee").exists()


@pytest.mark.parametrize(
    ("name", "target"), [("x", "/etc/passwd"), ("x", "../../.."), ("x", "missing"), ("x", "../main")]
)
def test_a_link_to_anything_but_a_file_of_the_volume_is_refused(
    volume: Volume, mounted: Path, name: str, target: str
) -> None:
    (mounted / "snapshots" / "main" / name).symlink_to(target)
    assert volume.stage({"volume": {"path": "snapshots/main"}}) == (65, "'x' is no file of the volume")
    assert volume.files() == {}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("none", "the volume has no folder 'none'"),
        ("..", "'..' is no name for a file of the volume"),
        ("snapshots/main/config.json", "the volume has no folder 'snapshots/main/config.json'"),
        ("empty", "the folder has 0 files, and must have 1 to 10000"),
    ],
)
def test_a_folder_that_cannot_be_copied_is_the_cause(
    volume: Volume, mounted: Path, path: str, told: str
) -> None:
    (mounted / "empty").mkdir()
    assert volume.stage({"volume": {"path": path}}) == (65, told)


@pytest.mark.usefixtures("mounted")
def test_a_volume_with_less_room_is_the_cause(volume: Volume) -> None:
    told = "the files are larger than sizeGiB, which is 0: raise it"
    assert volume.stage({"volume": {"path": ""}}, limit=5) == (65, told)


@pytest.mark.usefixtures("mounted")
def test_the_size_is_that_of_the_files(volume: Volume) -> None:
    assert volume.measure({"volume": {"path": "snapshots/main"}}) == (66, "9 bytes in 2 files")
