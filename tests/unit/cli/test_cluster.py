"""``modelplane cluster register``: what it refuses before it asks an API server, and how it names one."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.cli.main import main
from support.tokens import kubeconfig


def register(folder: Path, *arguments: str, text: bytes = b"") -> Result:
    path = folder / "kubeconfig"
    path.write_bytes(text or kubeconfig(token="my-own"))
    return CliRunner().invoke(main, ["cluster", "register", *arguments, f"--cluster-kubeconfig={path}"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["GPU"], '"GPU" is not a valid cluster name', id="capitals"),
        pytest.param(["a" * 64], "at most 63 lower-case letters", id="a long name"),
        pytest.param(["gpu-1", "--label", "a"], '"a" is not a label of the form KEY=VALUE', id="no value"),
        pytest.param(["gpu-1", "--label", "a=b\n"], "is not a label of the form KEY=VALUE", id="a line"),
    ],
)
def test_what_is_no_name_or_label_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = register(tmp_path, *arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_the_kubeconfig_of_the_cluster_is_never_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    done = CliRunner().invoke(main, ["cluster", "register", "gpu-1"])
    assert (done.exit_code, "--cluster-kubeconfig is required" in done.output) == (2, True)


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = register(tmp_path, "gpu-1")
    assert done.exit_code == 1
    assert done.output.startswith('Error: cluster "gpu-1": ')
    assert "my-own" not in done.output


def test_an_address_that_the_controllers_would_not_use_is_refused_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    content = yaml.safe_load(kubeconfig(token="my-own"))
    content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    done = register(tmp_path, "gpu-1", text=yaml.safe_dump(content).encode())
    assert done.exit_code == 1
    assert "it would send the credential to an unverified server" in done.output
    assert "my-own" not in done.output
