"""Mirrors: files come from another server if it has what the source states, and from the source if not."""

import hashlib
from typing import Any

import pytest

from support.weights_server import OVERLOADED, Fault, WeightsServer
from unit.staging.conftest import Volume

CONTENT = bytes(range(256)) * 20_000
FILES = {"config.json": b"{}", "weights/model-1.safetensors": CONTENT}


def source(server: WeightsServer, *mirrors: str) -> dict[str, Any]:
    """Return files of a web server."""
    entries = [
        {"path": path, "url": server.add(f"/{path}", content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in FILES.items()
    ]
    return {"http": {"files": entries, "mirrors": list(mirrors)}}


def sibling(server: WeightsServer) -> str:
    """Serve the cache of another cluster, and return its address."""
    for path, content in FILES.items():
        server.add(f"/models/qwen/{path}", content)
    return f"{server.url}/models/qwen/"


def asked_for_weights(server: WeightsServer) -> list[str]:
    return [asked.path for asked in server.asked if "model-1" in asked.path]


def test_files_come_from_the_mirror_without_the_source_and_its_credentials(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    wanted = source(server, sibling(other_server))
    server.files.clear()
    assert volume.stage(wanted, secret={"TOKEN": "secret"}) == (0, "")
    assert volume.files() == FILES
    assert server.asked == []
    assert {asked.authorization for asked in other_server.asked} == {""}


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(404)], id="it lacks the file"),
        pytest.param([Fault(403)], id="it refuses"),
        pytest.param([OVERLOADED], id="429"),
        pytest.param([Fault(flipped=True)], id="corrupted"),
        pytest.param([Fault(cut_after=3_000_000)], id="truncated"),
        pytest.param([Fault(302, {"Location": "file:///etc/passwd"})], id="a redirect to a file"),
    ],
)
def test_the_source_has_what_the_mirror_does_not(
    volume: Volume, server: WeightsServer, other_server: WeightsServer, faults: list[Fault]
) -> None:
    wanted = source(server, sibling(other_server))
    other_server.faults["/models/qwen/weights/model-1.safetensors"].extend(faults)
    assert volume.stage(wanted) == (0, "")
    assert volume.files() == FILES
    assert asked_for_weights(server) == ["/weights/model-1.safetensors"]
    assert len(asked_for_weights(other_server)) == 1, "a mirror that fails is not asked again"


def test_another_revision_on_the_mirror_is_never_staged(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    wanted = source(server, sibling(other_server))
    other_server.add("/models/qwen/weights/model-1.safetensors", CONTENT + b"more")
    assert volume.stage(wanted) == (0, "")
    assert volume.files() == FILES


def test_the_second_mirror_has_what_the_first_does_not(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    wanted = source(server, "http://127.0.0.1:1/", sibling(other_server))
    assert volume.stage(wanted) == (0, "")
    assert asked_for_weights(server) == []


def test_a_download_that_breaks_off_goes_on_from_the_source(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    wanted = source(server, sibling(other_server))
    other_server.faults["/models/qwen/weights/model-1.safetensors"].append(Fault(cut_after=3_000_000))
    assert volume.stage(wanted) == (0, "")
    assert "bytes=3000000-" in {asked.range for asked in server.asked}


def test_a_mirror_is_not_the_machine_itself(volume: Volume, server: WeightsServer) -> None:
    wanted = source(server, f"{server.url}/models/qwen")
    wanted["http"]["files"] = wanted["http"]["files"][:1]
    code, said = volume.stage(wanted, local=False)
    assert (code, server.asked) == (65, [])
    assert said.endswith("is the machine's own or its cloud's: name another host")


def test_layers_of_an_artifact_come_from_a_mirror_and_archives_do_not(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    kind = "application/vnd.modelpack.weight.v1.raw"
    server.push("team/model", [(kind, path, content) for path, content in FILES.items()])
    reference = f"{server.url.removeprefix('http://')}/team/model:v1"
    described = {"reference": reference, "plainHTTP": True, "mirrors": [sibling(other_server)]}
    assert volume.stage({"oci": described}) == (0, "")
    assert volume.files() == FILES
    assert [asked.path for asked in server.asked] == ["/v2/team/model/manifests/v1"]
