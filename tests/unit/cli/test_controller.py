import pytest
from click.testing import CliRunner

from modelplane.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("--gateway-dir", ".", "--gateway-service", "gateway"),
            "--gateway-dir and --gateway-service exclude each other: give one",
            id="one proxy has its configuration in one place",
        ),
        pytest.param(
            ("--gateway-dir", "."),
            "--gateway-dir needs --gateway-address HOST:PORT",
            id="a directory does not say where requests are accepted",
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
    assert done.output.endswith(": outside a pod, give --kubeconfig\n")
