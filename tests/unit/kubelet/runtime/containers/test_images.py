import base64
import json
from pathlib import Path
from typing import Any

import pytest

from modelplane.kubelet.runtime.container_cli import ContainerRuntimeError
from modelplane.kubelet.runtime.image_pulls import expand_name, merge_credentials, write_credentials


@pytest.mark.parametrize(
    ("image", "full"),
    [
        pytest.param("python:3", "docker.io/library/python:3", id="one of the Docker Hub's own"),
        pytest.param("vllm/vllm-openai:v1", "docker.io/vllm/vllm-openai:v1", id="one of the Docker Hub"),
        pytest.param("ghcr.io/a/b", "ghcr.io/a/b", id="one of another registry"),
        pytest.param("localhost/a", "localhost/a", id="one of this machine"),
        pytest.param("registry:5000/a", "registry:5000/a", id="a registry with a port"),
    ],
)
def test_an_image_has_a_registry(image: str, full: str) -> None:
    assert expand_name(image) == full


def secret(name: str, key: str, value: Any) -> dict[str, Any]:
    data = base64.b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()
    return {"metadata": {"name": name}, "data": {key: data}}


def test_credentials_of_several_secrets_are_put_together() -> None:
    found = merge_credentials(
        [
            secret("a", ".dockerconfigjson", {"auths": {"one": {"auth": "1"}}}),
            secret("b", ".dockercfg", {"two": {"auth": "2"}, "one": {"auth": "other"}}),
            {"metadata": {"name": "c"}},
        ]
    )
    assert found == {"one": {"auth": "1"}, "two": {"auth": "2"}}


def test_a_secret_that_is_none_is_named_without_its_content() -> None:
    with pytest.raises(ContainerRuntimeError) as caught:
        merge_credentials([secret("a", ".dockerconfigjson", b"hush")])
    assert str(caught.value) == 'the pull secret "a" is not a Docker configuration'
    assert caught.value.__cause__ is None


def test_where_the_daemon_is_stays_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "user"
    (user / "contexts").mkdir(parents=True)
    known = {"currentContext": "rootless", "credsStore": "desktop", "auths": {"other": {}}}
    (user / "config.json").write_text(json.dumps(known))
    monkeypatch.setenv("DOCKER_CONFIG", str(user))
    directory = tmp_path / "pull"
    with write_credentials(
        directory, [secret("a", ".dockerconfigjson", {"auths": {"one": {}}})]
    ) as variables:
        file = directory / "config.json"
        assert variables == {"DOCKER_CONFIG": str(directory), "REGISTRY_AUTH_FILE": str(file)}
        assert json.loads(file.read_text()) == {"auths": {"one": {}}, "currentContext": "rootless"}
        assert (directory / "contexts").resolve() == user / "contexts"
        assert (directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert not directory.exists()
    assert (user / "contexts").is_dir()


def test_without_secrets_the_users_own_credentials_are_used(tmp_path: Path) -> None:
    with write_credentials(tmp_path / "pull", []) as variables:
        assert variables == {}
        assert not (tmp_path / "pull").exists()
