"""The twelve published models, sized by the command: from folders, and from a hub that is slow and fails."""

import itertools
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelplane.checkpoints import hub as client
from modelplane.cli.main import main
from support import hub as loopback
from support.checkpoint_folders import write
from support.checkpoint_shapes import CHECKPOINTS
from support.output_schemas import parsed

GB = 10**9


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, checkpoint in CHECKPOINTS.items():
        write(folder / name, checkpoint)
    return folder


@pytest.fixture
def hub(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[loopback.Hub]:
    # The content of large files is of no interest.
    monkeypatch.setattr(loopback, "_sha256", lambda path: sha256(str(path).encode()).hexdigest())
    monkeypatch.setattr(client, "DELAYS_S", (0.0, 0.0, 0.0))
    with loopback.serve() as found:
        for name in CHECKPOINTS:
            found.add(name, {path.name: path for path in (folders / name).iterdir()})
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found


def sized(model: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["size", model, "--context-length", "4096", "-o", "json"])
    assert done.exit_code in {0, 2}, done.output
    found: dict[str, Any] = parsed("size", done.stdout)
    return found | {"model": ""}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_hub_that_is_slow_and_fails_gives_what_a_folder_gives(
    name: str, hub: loopback.Hub, folders: Path
) -> None:
    published = CHECKPOINTS[name]
    from_folder = sized(str(folders / name))
    assert from_folder["parameters"] == published.total
    assert from_folder["checkpointBytes"] / GB == pytest.approx(published.gigabytes, rel=0.01)
    hub.fails = [503, 429, 0]
    assert sized(name) == from_folder
    content = [each for each in hub.asked if each.path.startswith("/content/")]
    # Two refusals and a connection that is cut; each is tried again.
    shards = sum(path.suffix == ".safetensors" for path in (folders / name).iterdir())
    assert (hub.fails, len(content) >= shards + 3) == ([], True)
    assert sum(each.range.startswith("bytes=") for each in content) >= shards


def test_an_index_is_asked_for_again(hub: loopback.Hub) -> None:
    hub.fails_whole = [500, 504]
    assert sized("Qwen/Qwen3-30B-A3B")["parameters"] == CHECKPOINTS["Qwen/Qwen3-30B-A3B"].total
    assert hub.fails_whole == []


def test_a_hub_that_goes_on_failing_is_said(hub: loopback.Hub) -> None:
    hub.fails = list(itertools.repeat(503, 99))
    done = CliRunner().invoke(main, ["size", "Qwen/Qwen3-0.6B"])
    assert (done.exit_code, "503" in done.output, "try again later" in done.output) == (1, True, True)
    assert len(hub.fails) == 99 - 1 - len(client.DELAYS_S)


def test_a_verdict_of_the_hub_is_not_asked_for_again(hub: loopback.Hub) -> None:
    hub.fails = [403, 403]
    done = CliRunner().invoke(main, ["size", "Qwen/Qwen3-0.6B"])
    assert (done.exit_code, len(hub.fails)) == (1, 1)
