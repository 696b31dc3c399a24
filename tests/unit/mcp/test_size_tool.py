"""The tool that sizes a model, with a folder in the place of the hub."""

import json
from pathlib import Path

import pytest
import yaml
from mcp.server.mcpserver import MCPServer

from modelplane.checkpoints.folder import Folder
from modelplane.mcp import fleet_tools
from modelplane.user_error import UserError
from support.checkpoint_shapes import CHECKPOINTS, safetensors
from support.mcp_clients import call, refusal
from unit.mcp.conftest import FakeClient

FLEET = Path(__file__).parents[3] / "examples" / "every-field"
MODEL = "Qwen/Qwen3-8B"


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = CHECKPOINTS[MODEL]
    (tmp_path / "config.json").write_text(json.dumps(checkpoint.config))
    (tmp_path / "model.safetensors").write_bytes(safetensors(checkpoint.tensors()))
    monkeypatch.setattr(fleet_tools, "Hub", lambda _model: Folder(tmp_path))


async def test_a_model_is_compared_with_the_catalogue(served: MCPServer) -> None:
    told = await call(served, "size_model", model=MODEL, context=16384, concurrency=2)
    assert "8,190,735,360 parameters" in told
    assert "16,384 tokens = 2.25 GiB per sequence (whole blocks), x 2 = 4.50 GiB" in told
    assert "CLASS | DEVICES | NODES | SPLIT | GIB/DEVICE | SEQUENCES" in told
    assert "TP 1" in told


async def test_a_model_is_compared_with_the_pools_of_the_fleet(served: MCPServer, api: FakeClient) -> None:
    for kind in ("InferenceClass", "InferenceCluster"):
        api.shown.objects[kind] = [
            item
            for path in sorted(FLEET.glob("*.yaml"))
            for item in yaml.safe_load_all(path.read_text())
            if item["kind"] == kind
        ]
    told = await call(served, "size_model", model=MODEL, in_fleet=True)
    assert "CLUSTER | POOL | CLASS | DEVICES | NODES" in told
    assert "own-hall | h100 | " in told


REFUSALS = {
    "a context that it does not have": (
        {"context": 100_000},
        "the model supports at most 40,960 positions: lower context",
    ),
    "a folder": ({"model": "/etc/ssl"}, '"/etc/ssl" is not OWNER/NAME of the hub: correct it'),
    "a parent folder": ({"model": "../x"}, '"../x" is not OWNER/NAME of the hub: correct it'),
}


@pytest.mark.parametrize(("changed", "expected"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_size_is_refused(served: MCPServer, changed: dict[str, object], expected: str) -> None:
    assert await refusal(served, "size_model", **{"model": MODEL, **changed}) == f"Error: {expected}"


async def test_text_of_the_hub_is_cleaned(served: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_model: str) -> Folder:
        raise UserError("no such\x1b[2J\nrepository: correct it")

    monkeypatch.setattr(fleet_tools, "Hub", refuse)
    assert await refusal(served, "size_model", model=MODEL) == "Error: no such [2J repository: correct it"
