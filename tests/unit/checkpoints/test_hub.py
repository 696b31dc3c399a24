"""Checkpoints on a hub, read by the hub's own library over loopback."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.checkpoints.checkpoint import read
from modelplane.checkpoints.hub import Hub
from modelplane.sizing.loaded_weights import Tensor
from modelplane.user_error import UserError
from support import hub as loopback
from support.checkpoint_shapes import safetensors

REPO = "team/model"
SHARDS = {
    f"model-{each}.safetensors": [
        Tensor(f"model.layers.{each}.{part}.weight", "BF16", (64, 64)) for part in range(99)
    ]
    for each in range(3)
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[loopback.Hub]:
    (tmp_path / "config.json").write_text("{}")
    places = {tensor.name: file for file, tensors in SHARDS.items() for tensor in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    for file, tensors in SHARDS.items():
        with (tmp_path / file).open("wb") as opened:
            opened.write(safetensors(tensors))
            opened.truncate(200_000_000)
    with loopback.serve() as found:
        found.add(REPO, {path.name: path for path in tmp_path.iterdir()})
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        yield found


def refusal(repo: str = REPO, revision: str = "") -> str:
    with pytest.raises(UserError) as refused:
        read(Hub(repo, revision))
    return str(refused.value)


@pytest.fixture
def _hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name large files by their paths: their content is of no interest, and large."""
    monkeypatch.setattr(loopback, "_sha256", lambda path: path.name.encode().hex().ljust(64, "0")[-64:])


@pytest.mark.usefixtures("_hashed")
def test_headers_are_read_by_range(hub: loopback.Hub) -> None:
    assert read(Hub(REPO)).tensors == tuple(tensor for file in SHARDS.values() for tensor in file)
    content = [asked for asked in hub.asked if asked.path.startswith("/content/")]
    assert content
    assert {asked.range for asked in content} == {"bytes=0-100000"}


@pytest.mark.parametrize(
    ("repo", "revision", "problem"),
    [
        pytest.param("team/other", "", "correct OWNER/NAME", id="no such repository"),
        pytest.param(REPO, "no-such", "name a branch", id="no such revision"),
        pytest.param("team/../../x", "", "write OWNER/NAME", id="a path"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_a_repository_that_cannot_be_read_is_refused(repo: str, revision: str, problem: str) -> None:
    assert problem in refusal(repo, revision)


@pytest.mark.usefixtures("_hashed")
def test_a_gated_repository_asks_for_a_token(hub: loopback.Hub) -> None:
    hub.add(REPO, hub.repos[REPO].files, token="secret")
    assert "set HF_TOKEN or run `hf auth login`" in refusal()


@pytest.mark.parametrize("token", ["", "secret"])
@pytest.mark.usefixtures("_hashed")
def test_a_gated_repository_is_known_to_need_a_token(
    hub: loopback.Hub, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    hub.add(REPO, hub.repos[REPO].files, token=token)
    monkeypatch.setenv("HF_TOKEN", token)
    assert read(Hub(REPO)).needs_token == bool(token)


def test_a_hub_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "set HF_ENDPOINT to a mirror, or size a folder" in refusal()
