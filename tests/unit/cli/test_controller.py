from pathlib import Path

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.cli.processes.controller import _helm
from modelplane.controllers.helm.helm_program import Program
from modelplane.local import binary


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("--gateway-dir", ".", "--gateway-service", "gateway"),
            "--gateway-dir and --gateway-service can't be combined: omit one",
            id="one proxy has its configuration in one place",
        ),
        pytest.param(
            ("--gateway-dir", "."),
            "--gateway-dir requires --gateway-address HOST:PORT",
            id="a directory does not say where requests are accepted",
        ),
        pytest.param(
            ("--only", "gateway"),
            "--only gateway requires --gateway-service NAME",
            id="the gateway alone is one in a cluster",
        ),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(main, ["controller", *arguments])
    assert (done.exit_code, message in done.output) == (2, True)


@pytest.mark.parametrize("command", [("controller",), ("gateway", "--dir", ".")], ids=" ".join)
def test_outside_a_pod_a_command_asks_for_a_kubeconfig(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = CliRunner().invoke(main, [*command])
    assert done.exit_code == 1
    assert "Error: cannot use a pod's service account: " in done.output
    assert done.output.endswith(": outside a pod, set --kubeconfig\n")


def test_helm_is_that_of_the_control_planes_binary_or_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, on_path = tmp_path / "built", tmp_path / "helm"
    for program in (built, on_path):
        program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(binary.ENVIRONMENT_VARIABLE, str(built))
    assert _helm(tmp_path) == Program((str(built), "helm"), tmp_path)
    monkeypatch.setenv(binary.ENVIRONMENT_VARIABLE, str(tmp_path / "missing"))
    assert _helm(None) == Program((str(on_path),))
    on_path.unlink()
    assert _helm(None) == Program(), "a condition says so once a chart is to be installed"
