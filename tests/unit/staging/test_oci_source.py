"""Artifacts of a registry that refuses, corrupts and packs what it should not: staged, or the cause."""

import base64
import io
import json
import tarfile
from typing import Any

import pytest

from support.weights_server import OVERLOADED, Fault, WeightsServer
from unit.staging.conftest import Volume

RAW = "application/vnd.cncf.model.weight.v1.raw"
TAR = "application/vnd.oci.image.layer.v1.tar+gzip"


def source(server: WeightsServer, version: str = ":v1") -> dict[str, Any]:
    host = server.url.removeprefix("http://")
    return {"oci": {"reference": f"{host}/team/model{version}", "plainHTTP": True}}


def packed(*members: tarfile.TarInfo, content: bytes = b"packed") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for member in members:
            if member.isreg():
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return written.getvalue()


def link(name: str, target: str, type_: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = type_, target
    return made


def test_files_and_archives_are_staged_and_the_marker_has_the_digest(
    volume: Volume, server: WeightsServer
) -> None:
    archive = packed(tarfile.TarInfo("./tokenizer/merges.txt"), tarfile.TarInfo("config.json"))
    digest = server.push("team/model", [(RAW, "a/model.safetensors", b"weights"), (TAR, "", archive)])
    assert volume.stage(source(server)) == (0, "")
    assert volume.files() == {
        "a/model.safetensors": b"weights",
        "tokenizer/merges.txt": b"packed",
        "config.json": b"packed",
    }
    assert volume.marker() == {"artifact": "a", "source": "oci", "digest": digest}


def test_a_digest_pins_the_artifact(volume: Volume, server: WeightsServer) -> None:
    digest = server.push("team/model", [(RAW, "x", b"1")])
    server.push("team/model", [(RAW, "x", b"2")])
    assert volume.stage(source(server, f":v1@{digest}")) == (0, "")
    assert volume.files() == {"x": b"1"}
    path = f"/v2/team/model/manifests/{digest}"
    server.add(path, server.files[path] + b" ")
    code, said = volume.stage(source(server, f"@{digest}"), artifact="b")
    assert (code, said.partition(" sha256")[0]) == (
        1,
        "cannot stage the weights: the manifest has the digest",
    )


def test_an_account_gets_a_token_from_the_registry(volume: Volume, server: WeightsServer) -> None:
    server.push("team/model", [(RAW, "x", b"1")])
    server.token, server.account, server.realm = "pull", "robot:secret", f"{server.url}/token"
    told = f"{server.url}/token refuses access (401): correct the Secret"
    assert volume.stage(source(server)) == (65, told)
    host = server.url.removeprefix("http://")
    account = {"auth": base64.b64encode(b"robot:secret").decode()}
    config = json.dumps({"auths": {host: account}})
    assert volume.stage(source(server), secret={"DOCKER_CONFIG": config}) == (0, "")
    assert volume.files() == {"x": b"1"}
    elsewhere = json.dumps({"auths": {"ghcr.io": account}})
    told = f"the Secret has no account for {host}"
    assert volume.stage(source(server), artifact="b", secret={"DOCKER_CONFIG": elsewhere}) == (65, told)


def test_an_account_is_not_sent_to_another_server_in_clear_text(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    server.push("team/model", [(RAW, "x", b"1")])
    server.token, server.realm = "pull", f"{other_server.url}/token"
    config = json.dumps({"auths": {server.url.removeprefix("http://"): {"auth": "eDp5"}}})
    told = "the registry sends credentials to a server without HTTPS, which is not followed"
    assert volume.stage(source(server), secret={"DOCKER_CONFIG": config}) == (65, told)
    assert other_server.asked == []


def test_a_blob_may_come_from_another_host_without_the_token(
    volume: Volume, server: WeightsServer, other_server: WeightsServer
) -> None:
    server.push("team/model", [(RAW, "x", b"1")])
    [blob] = [path for path in server.files if "/blobs/" in path]
    server.faults[blob].append(Fault(307, {"Location": other_server.add("/storage", b"1")}))
    assert volume.stage(source(server)) == (0, "")
    assert [asked.authorization for asked in other_server.asked] == [""]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(OVERLOADED, id="429"),
        pytest.param(Fault(flipped=True), id="corrupted"),
        pytest.param(Fault(cut_after=1), id="truncated"),
        pytest.param(Fault(cut_after=1, stalls=True), id="a stall"),
    ],
)
def test_what_passes_is_overcome(impatient: Volume, server: WeightsServer, fault: Fault) -> None:
    server.push("team/model", [(RAW, "x", b"weights")])
    [blob] = [path for path in server.files if "/blobs/" in path]
    server.faults[blob].append(fault)
    server.faults["/v2/team/model/manifests/v1"].append(OVERLOADED)
    assert impatient.stage(source(server)) == (0, "")
    assert impatient.files() == {"x": b"weights"}


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        pytest.param([(RAW, "../x", b"1")], "'../x' is no name for a file of the volume", id="a title"),
        pytest.param(
            [(TAR, "", packed(tarfile.TarInfo("../x")))],
            "'../x' is no name for a file of the volume",
            id="a member",
        ),
        pytest.param(
            [(TAR, "", packed(tarfile.TarInfo("/etc/x")))],
            "'/etc/x' is no name for a file of the volume",
            id="an absolute member",
        ),
        pytest.param(
            [(TAR, "", packed(link("x", "/etc/passwd")))],
            "an archive of the artifact has 'x', no file",
            id="a symbolic link",
        ),
        pytest.param(
            [(TAR, "", packed(link("x", "/etc/passwd", tarfile.LNKTYPE)))],
            "an archive of the artifact has 'x', no file",
            id="a hard link",
        ),
        pytest.param(
            [(TAR, "", packed(tarfile.TarInfo("bomb"), content=bytes(20 << 20)))],
            "the files are larger than sizeGiB, which is 0: raise it",
            id="an archive that grows",
        ),
        pytest.param(
            [(TAR, "", b"no archive")],
            "an archive of the artifact cannot be read: file could not be opened successfully",
            id="no archive",
        ),
        pytest.param(
            [(RAW, "", b"1")],
            f"layer 0 of type '{RAW}' is neither a file with a title nor a tar archive",
            id="no title",
        ),
        pytest.param(
            [(RAW, "x", b"1"), (RAW, "x", b"2")], "two files of the source have the name 'x'", id="twice"
        ),
    ],
)
def test_a_hostile_artifact_is_refused(
    volume: Volume, server: WeightsServer, layers: list[tuple[str, str, bytes]], told: str
) -> None:
    server.push("team/model", layers)
    code, said = volume.stage(source(server), limit=10 << 20)
    assert (code, said.partition(":\n")[0][: len(told)]) == (65, told)
    assert volume.files() == {}
    assert not (volume.path.parent / "x").exists()


@pytest.mark.parametrize(
    ("manifest", "code", "told"),
    [
        (b"no JSON", 1, "cannot stage the weights: the manifest is no JSON object"),
        (
            b'{"manifests": []}',
            65,
            "the reference names no single artifact: name one manifest, by its digest if need be",
        ),
        (b'{"layers": [1]}', 65, "the source describes itself wrongly: AttributeError"),
        (b'{"layers": [{"annotations": {"org.opencontainers.image.title": "x"}}]}', 65, "the digest 'None'"),
        (b"[" * (9 << 20), 65, "the description of the source has more than 8 MiB"),
    ],
    ids=["no JSON", "an index", "no layers", "no digest", "huge"],
)
def test_a_manifest_that_is_none_is_the_cause(
    volume: Volume, server: WeightsServer, manifest: bytes, code: int, told: str
) -> None:
    server.add("/v2/team/model/manifests/v1", manifest)
    ended, said = volume.stage(source(server))
    assert (ended, said[: len(told)]) == (code, told)


def test_the_size_counts_an_archive_twice(volume: Volume, server: WeightsServer) -> None:
    archive = packed(tarfile.TarInfo("x"))
    server.push("team/model", [(RAW, "y", b"weights"), (TAR, "", archive)])
    assert volume.measure(source(server)) == (66, f"{7 + 2 * len(archive)} bytes in 2 files")
