"""``modelplane package push``: what is printed, where the account comes from, and what is refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modelplane.cli.main import main
from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.package_addresses import Registry
from modelplane.crossplane.package.package_contents import function
from support import registry as loopback
from support.packages import VERSION, small_runtime

PASSWORD = "pass-word-of-the-account"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[loopback.Registry]:
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    # A registry on this machine is not reached through a proxy.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with loopback.serve() as found:
        yield found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return build(function(), Registry(), VERSION, tmp_path, small_runtime).path


def push(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["package", "push", *map(str, arguments)], input=given)


def test_each_blob_and_the_digest_are_printed(registry: loopback.Registry, package: Path) -> None:
    done = push(package, f"{registry.address}/ai/function")
    assert done.exit_code == 0, done.output
    *blobs, summary, digest = done.output.splitlines()
    assert [bool(re.fullmatch(r"  sha256:\w{64} +[\d.]+ kB  uploaded", line)) for line in blobs] == [True] * 3
    assert summary.startswith(f"{registry.address}/ai/function:v1.2.3: pushed, ")
    assert digest == f"  {loopback.digest_of(registry.manifests['v1.2.3'][1])}"
    again = push(package, f"{registry.address}/ai/function:v1.2.3").output.splitlines()
    assert again == [f"{registry.address}/ai/function:v1.2.3: there already", digest]


@pytest.mark.parametrize("given", [f"{PASSWORD}\n", f"{PASSWORD}\r\n", PASSWORD])
def test_a_password_comes_from_standard_input(registry: loopback.Registry, package: Path, given: str) -> None:
    registry.account, registry.scheme = ("team", PASSWORD), "Basic"
    options = ("--username", "team", "--password-stdin")
    done = push(package, f"{registry.address}/ai/function", *options, given=given)
    assert (done.exit_code, PASSWORD in done.output) == (0, False), done.output


def test_an_account_is_the_stored_one(registry: loopback.Registry, package: Path, tmp_path: Path) -> None:
    registry.account, registry.scheme = ("team", PASSWORD), "Bearer"
    stored = {"auths": {registry.address: {"username": "team", "password": PASSWORD}}}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert push(package, f"{registry.address}/ai/function").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        pytest.param(["a.b/c"], 2, "Missing argument", id="no file"),
        pytest.param(["gone.xpkg", "a.b/c"], 2, "does not exist", id="no such file"),
        pytest.param([".", "function"], 1, 'cannot push to "function"', id="no registry"),
        pytest.param([".", "127.0.0.1:9/a"], 1, "is not a package", id="no package"),
        pytest.param(
            [".", "a.b/c", "--username", "x"],
            2,
            "--username and --password-stdin go together",
            id="no password",
        ),
        pytest.param(
            [".", "a.b/c", "--password-stdin"], 2, "--username and --password-stdin go together", id="no name"
        ),
        pytest.param(
            [".", "a.b/c", "--username", "x", "--password-stdin"],
            1,
            "standard input has no password",
            id="empty",
        ),
    ],
)
@pytest.mark.usefixtures("registry")
def test_what_cannot_be_pushed_is_one_sentence(arguments: list[str], status: int, sentence: str) -> None:
    done = push(*arguments, given="")
    assert (done.exit_code, sentence in done.output.splitlines()[-1]) == (status, True), done.output
