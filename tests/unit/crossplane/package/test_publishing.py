"""Packages are pushed to a registry on loopback, as the specification of distribution says."""

import base64
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.blobs import Blobs
from modelplane.crossplane.package.images.image_entries import File
from modelplane.crossplane.package.images.oci import Image, Platform
from modelplane.crossplane.package.package_addresses import Registry, Target
from modelplane.crossplane.package.package_contents import function
from modelplane.crossplane.package.registry import accounts
from modelplane.crossplane.package.registry.accounts import Account
from modelplane.crossplane.package.registry.publishing import Pushed, push
from modelplane.crossplane.package.registry.registry_connection import DELAYS_S, Connection
from modelplane.crossplane.package.registry.repository import Repository
from support import registry as loopback
from support.certificates import authority, server_context
from support.packages import VERSION

PASSWORD = "pass-word-of-the-account"
ACCOUNT = Account("team", PASSWORD)


@pytest.fixture
def registry() -> Iterator[loopback.Registry]:
    with loopback.serve() as found:
        yield found


class Pusher:
    """Pushes packages, and keeps the pauses that it made."""

    def __init__(self, registry: loopback.Registry) -> None:
        self._registry = registry
        self.pauses: list[float] = []
        self.told: list[bool] = []

    def push(
        self, *paths: Path, account: Account | None = None, tag: str = "", origin: str = "", **options: bool
    ) -> Pushed:
        target = Target.parse(f"{self._registry.address}/ai/function{tag}")
        with httpx2.Client(trust_env=bool(origin)) as client:
            connection = Connection(client, target, account, origin=origin, pause=self.pauses.append)
            return push(
                paths, target, Repository(connection), lambda _, new: self.told.append(new), **options
            )

    def refusal(self, *paths: Path, **options: Any) -> str:
        with pytest.raises(PackageError) as refused:
            self.push(*paths, **options)
        return str(refused.value).replace(self._registry.address, "REGISTRY")


@pytest.fixture
def pusher(registry: loopback.Registry) -> Pusher:
    return Pusher(registry)


def package(folder: Path, architecture: str, content: bytes = b"program") -> Path:
    def runtime(blobs: Blobs) -> Image:
        layer = blobs.add_entries([File("app/run", content + architecture.encode())])
        return Image(Platform(architecture), {"Entrypoint": ["/app/run"]}, (layer,))

    return build(function(), Registry(), VERSION, folder / architecture, runtime).path


def test_a_package_is_pushed_under_its_own_tag(
    registry: loopback.Registry, pusher: Pusher, function_package: Path, manifest: Any, blob: Any
) -> None:
    pushed = pusher.push(function_package)
    document = manifest(function_package)
    media_type, content = registry.manifests["v1.2.3"]
    assert (media_type, json.loads(content)) == (document["mediaType"], document)
    named = [document["config"], *document["layers"]]
    assert registry.blobs == {each["digest"]: blob(function_package, each) for each in named}
    assert pushed == Pushed(
        "v1.2.3", loopback.digest_of(content), sum(each["size"] for each in named), is_new=True
    )
    # The tag comes last, so that it never names what is not there.
    assert registry.asked[-2:] == [f"{method} /v2/ai/function/manifests/v1.2.3" for method in ("PUT", "GET")]


def test_a_second_push_uploads_nothing(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    first = pusher.push(function_package)
    registry.asked.clear()
    assert pusher.push(function_package) == Pushed("v1.2.3", first.digest, 0, is_new=False)
    assert registry.asked == ["GET /v2/ai/function/manifests/v1.2.3"]


def test_another_tag_uploads_no_blob(pusher: Pusher, function_package: Path) -> None:
    first = pusher.push(function_package)
    assert pusher.push(function_package, tag=":stable") == Pushed("stable", first.digest, 0, is_new=True)
    assert pusher.told == [True] * 3 + [False] * 3


def test_a_tag_is_moved_only_if_this_is_asked_for(
    registry: loopback.Registry, pusher: Pusher, tmp_path: Path
) -> None:
    old, new = package(tmp_path / "old", "amd64"), package(tmp_path / "new", "amd64", b"newer")
    digest = pusher.push(old).digest
    before = dict(registry.manifests)
    assert pusher.refusal(new) == (
        f"REGISTRY/ai/function:v1.2.3 exists with other content ({digest}): push another version, or repeat "
        "the command with --replace"
    )
    assert registry.manifests == before
    assert pusher.push(new, replace=True).digest != digest


def test_files_for_several_platforms_become_one_index(
    registry: loopback.Registry, pusher: Pusher, tmp_path: Path
) -> None:
    paths = [package(tmp_path, each) for each in ("amd64", "arm64")]
    pushed = pusher.push(*paths)
    media_type, content = registry.manifests["v1.2.3"]
    index = json.loads(content)
    assert media_type == index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    assert pushed.digest == loopback.digest_of(content)
    assert {each["digest"] for each in index["manifests"]} < set(registry.manifests)


def test_files_for_one_platform_are_no_index(pusher: Pusher, tmp_path: Path) -> None:
    one, other = package(tmp_path / "1", "amd64"), package(tmp_path / "2", "amd64")
    assert pusher.refusal(one, other) == (
        "the files are for linux/amd64, linux/amd64: name one file for each platform, of one package"
    )


def test_a_docker_archive_is_refused(pusher: Pusher, function_package: Path, rewritten: Any) -> None:
    docker = rewritten(function_package, {"oci-layout": None, "index.json": None})
    assert "is a Docker archive, which has no manifest to push" in pusher.refusal(docker)


def test_a_damaged_file_is_not_pushed(
    registry: loopback.Registry, pusher: Pusher, function_package: Path, rewritten: Any, manifest: Any
) -> None:
    [layer, *_] = manifest(function_package)["layers"]
    name = f"blobs/sha256/{layer['digest'].removeprefix('sha256:')}"
    assert "is damaged" in pusher.refusal(rewritten(function_package, {name: b"other"}))
    assert registry.asked == []


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_a_registry_gets_the_account_only_after_it_has_asked(
    registry: loopback.Registry, pusher: Pusher, function_package: Path, scheme: str
) -> None:
    registry.account, registry.scheme = ("team", PASSWORD), scheme
    pusher.push(function_package, account=ACCOUNT)
    used = {ACCOUNT.basic} if scheme == "Basic" else {ACCOUNT.basic, f"Bearer {registry.token}"}
    assert registry.authorizations == used
    asked = [each for each in registry.asked if each != "GET /token"]
    assert asked[:2] == ["GET /v2/ai/function/manifests/v1.2.3"] * 2


def test_a_token_that_expires_during_a_push_is_renewed(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    registry.account, registry.scheme, registry.lasts = ("team", PASSWORD), "Bearer", 4
    pusher.push(function_package, account=ACCOUNT)
    assert registry.asked.count("GET /token") > 1
    assert "v1.2.3" in registry.manifests


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
@pytest.mark.parametrize(
    ("account", "problem"),
    [
        pytest.param(None, "it wants an account to push to ai/function: run `docker login", id="none"),
        pytest.param(Account("team", "wrong-password"), 'it does not accept the account "team"', id="wrong"),
    ],
)
def test_a_push_without_a_right_account_is_refused(
    registry: loopback.Registry,
    pusher: Pusher,
    function_package: Path,
    scheme: str,
    account: Account | None,
    problem: str,
) -> None:
    registry.account, registry.scheme = ("team", PASSWORD), scheme
    assert problem in pusher.refusal(function_package, account=account)
    assert (pusher.pauses, registry.blobs) == ([], {})


def test_no_message_has_a_secret_even_if_the_registry_repeats_it(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    registry.account, registry.scheme = ("team", "other"), "Basic"
    registry.message = f"not {PASSWORD} nor {ACCOUNT.basic} \x1b[31m"
    refusal = pusher.refusal(function_package, account=ACCOUNT)
    assert "(CODE: not [hidden] nor Basic [hidden] [31m)" in refusal
    assert PASSWORD not in repr(ACCOUNT)


def test_credentials_are_not_sent_in_the_clear_to_another_server(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    registry.account, registry.scheme, registry.realm = ("team", PASSWORD), "Bearer", "http://127.0.0.2:9"
    assert pusher.refusal(function_package, account=ACCOUNT) == (
        "REGISTRY asks for credentials to be sent to http://127.0.0.2, which is not HTTPS: no "
        "credentials were sent"
    )
    assert registry.authorizations == set()


def test_an_upload_is_not_sent_in_the_clear_to_another_server(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    registry.uploads_to = "http://127.0.0.2:9"
    assert "which is neither HTTPS nor the registry" in pusher.refusal(function_package)


@pytest.mark.parametrize(
    ("key", "statuses", "pauses"),
    [
        pytest.param("GET manifests", [503, 500], DELAYS_S[:2], id="an overloaded registry"),
        pytest.param("HEAD blobs", [429], DELAYS_S[:1], id="too many requests"),
        pytest.param("PUT uploads", [0, 0], DELAYS_S[:2], id="an upload that is cut"),
        pytest.param("PUT uploads", [502, 0, 504, 503], DELAYS_S, id="as many failures as are endured"),
        pytest.param("PUT manifests", [500], DELAYS_S[:1], id="a manifest"),
    ],
)
def test_what_fails_without_a_verdict_is_tried_again(
    registry: loopback.Registry,
    pusher: Pusher,
    function_package: Path,
    key: str,
    statuses: list[int],
    pauses: tuple[float, ...],
) -> None:
    registry.faults[key] = [*statuses]
    pusher.push(function_package)
    assert (tuple(pusher.pauses), registry.faults[key]) == (pauses, [])
    assert len(registry.blobs) == 3


@pytest.mark.parametrize(
    ("key", "status", "problem", "tries"),
    [
        pytest.param("PUT uploads", 500, "status 500 (CODE: said) (5 tries): try again later", 5, id="down"),
        pytest.param("POST uploads", 404, "no repository ai/function: create it", 1, id="no repository"),
        pytest.param("POST uploads", 403, "a client without an account may not do this", 1, id="forbidden"),
        pytest.param("PUT uploads", 413, "413 (CODE: said) to the upload of sha256:", 1, id="too large"),
        pytest.param("PUT manifests", 400, "status 400 (CODE: said) to the manifest v1.2.3", 1, id="invalid"),
        pytest.param("HEAD blobs", 405, "REGISTRY answered with status 405", 1, id="no registry"),
    ],
)
def test_a_verdict_is_final(
    registry: loopback.Registry,
    pusher: Pusher,
    function_package: Path,
    key: str,
    status: int,
    problem: str,
    tries: int,
) -> None:
    registry.faults[key] = [status] * 9
    assert problem in pusher.refusal(function_package)
    assert 9 - len(registry.faults[key]) == tries
    assert "v1.2.3" not in registry.manifests


def test_a_registry_that_is_not_there_is_said(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    registry.address = "127.0.0.1:9"
    assert "no answer of 127.0.0.1: " in pusher.refusal(function_package)
    assert pusher.pauses == list(DELAYS_S)


def test_a_manifest_that_is_stored_otherwise_is_found(
    registry: loopback.Registry, pusher: Pusher, function_package: Path
) -> None:
    registry.swaps = True
    assert "REGISTRY has another manifest for v1.2.3" in pusher.refusal(function_package)


def test_a_certificate_is_verified(
    tmp_path: Path, function_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = authority(tmp_path)
    with loopback.serve(server_context(tmp_path, "localhost")) as registry:
        pusher, origin = Pusher(registry), f"https://localhost:{registry.address.partition(':')[2]}"
        assert "name the file of your certificate authority in SSL_CERT_FILE" in pusher.refusal(
            function_package, origin=origin
        )
        assert (registry.asked, pusher.pauses) == ([], [])
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        registry.url = origin
        registry.account, registry.scheme = ("team", PASSWORD), "Bearer"
        assert pusher.push(function_package, origin=origin, account=ACCOUNT).is_new


@pytest.mark.parametrize(
    ("host", "url"),
    [
        pytest.param("127.0.0.1:5000", "http://127.0.0.1:5000", id="loopback"),
        pytest.param("localhost:5000", "http://localhost:5000", id="its name"),
        pytest.param("registry.example.org", "https://registry.example.org", id="another machine"),
        pytest.param("127.0.0.1.example.org", "https://127.0.0.1.example.org", id="a name like an address"),
        pytest.param("docker.io", "https://registry-1.docker.io", id="Docker Hub"),
    ],
)
def test_only_loopback_is_reached_without_tls(host: str, url: str) -> None:
    with httpx2.Client() as client:
        found = Connection(client, Target.parse(f"{host}/a/b"), None).url("blobs/x")
    assert str(found) == f"{url}/v2/a/b/blobs/x"


def encoded(name: str, password: str) -> str:
    return base64.b64encode(f"{name}:{password}".encode()).decode()


HOST = "registry.example.org"


@pytest.mark.parametrize(
    ("document", "account"),
    [
        pytest.param({}, None, id="no account"),
        pytest.param({"auths": {HOST: {"auth": encoded("a", "b:c")}}}, Account("a", "b:c"), id="encoded"),
        pytest.param(
            {"auths": {f"https://{HOST}": {"auth": encoded("a", "b")}}}, Account("a", "b"), id="URL"
        ),
        pytest.param({"auths": {HOST: {"username": "a", "password": "b"}}}, Account("a", "b"), id="plain"),
        pytest.param({"auths": {"other": {"auth": encoded("a", "b")}}}, None, id="of another registry"),
        pytest.param({"auths": {HOST: {}}, "credsStore": "test"}, Account("h", "s"), id="a store"),
        pytest.param({"credHelpers": {HOST: "test"}}, Account("h", "s"), id="a helper"),
        pytest.param({"credHelpers": {HOST: "fails"}}, None, id="a helper without an account"),
    ],
)
def test_an_account_is_the_one_that_container_tools_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], account: Account | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(document))
    told = '{"Username": "h", "Secret": "s"}'
    answers = {"test": f"[ $(cat) = {HOST} ] && echo '{told}'", "fails": "exit 1"}
    for name, line in answers.items():
        helper = tmp_path / f"docker-credential-{name}"
        helper.write_text(f"#!/bin/sh\n{line}\n")
        helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert accounts.stored(HOST, {"DOCKER_CONFIG": str(tmp_path)}) == account


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(f'{{"{PASSWORD}', "it is no JSON object: log in again", id="no JSON"),
        pytest.param(
            json.dumps({"auths": {HOST: {"auth": f"!{PASSWORD}"}}}), "is damaged: log in", id="no Base64"
        ),
        pytest.param(json.dumps({"credsStore": "gone"}), "credential-gone, which is not", id="no helper"),
        pytest.param(json.dumps({"credsStore": "a/../b"}), "is no name of a credential helper", id="a path"),
        pytest.param(
            json.dumps({"auths": {HOST: {"auth": encoded("<token>", ""), "identitytoken": PASSWORD}}}),
            "is an identity token",
            id="an identity token",
        ),
    ],
)
def test_an_account_that_cannot_be_read_is_said_without_its_content(
    tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(PackageError) as refused:
        accounts.stored(HOST, {"REGISTRY_AUTH_FILE": str(tmp_path / "config.json")})
    assert problem in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("address", ["function", "host/function", "a.example/Function", "a.b/c@sha256:0"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(PackageError, match=r"write them as in ghcr\.io/modelplane/function:v0\.1\.0"):
        Target.parse(address)
