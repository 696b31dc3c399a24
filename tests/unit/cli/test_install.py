import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from modelplane.cli.install import _problems
from modelplane.cli.main import main
from modelplane.install import inference_cluster
from modelplane.install.manifests import manifests
from modelplane.install.options import Options


def install(*arguments):
    return CliRunner().invoke(main, ["install", *arguments])


def test_the_manifests_are_written_as_they_are():
    result = install()
    assert result.exit_code == 0
    assert [*yaml.safe_load_all(result.output)] == manifests(Options())


def test_every_option_reaches_the_manifests():
    result = install(
        *("--image", "example/modelplane:1", "--replicas", "3", "--gateway-service-type", "NodePort"),
        *("--gateway-annotation", "a=b=c", "--team-namespace", "x", "--team-namespace", "y"),
        *("--no-network-policy", "--monitoring-namespace", "watching", "--service-monitor"),
    )
    options = Options(
        image="example/modelplane:1",
        controllers=3,
        gateways=3,
        gateway_service_type="NodePort",
        gateway_annotations={"a": "b=c"},
        team_namespaces=("x", "y"),
        network_policy=False,
        monitoring_namespaces=("watching",),
        service_monitor=True,
    )
    assert [*yaml.safe_load_all(result.output)] == manifests(options)


def test_a_trial_by_the_client_writes_the_manifests():
    assert install("--apply", "--dry-run", "client").output == install().output


def test_what_a_cluster_needs_comes_with_what_to_do():
    output = install("--inference-cluster").output
    assert output.startswith("# What a fleet may do on this cluster.")
    assert [*yaml.safe_load_all(output)] == inference_cluster.manifests()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--upgrade"], "--upgrade and --dry-run need --apply", id="an upgrade of nothing"),
        pytest.param(
            ["--dry-run", "server"], "--upgrade and --dry-run need --apply", id="a trial of nothing"
        ),
        pytest.param(
            ["--inference-cluster", "--apply"],
            "--inference-cluster only prints manifests: apply them to the cluster with kubectl",
            id="another cluster's manifests applied",
        ),
        pytest.param(
            ["--gateway-annotation", "a"], '"a" is not of the form KEY=VALUE', id="half an annotation"
        ),
        pytest.param(["--replicas", "0"], "0 is not in the range x>=1", id="no replica"),
    ],
)
def test_wrong_usage_is_status_2(arguments, said):
    result = install(*arguments)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("command", [["install", "--apply"], ["uninstall"]], ids=" ".join)
def test_a_cluster_that_cannot_be_found_is_a_sentence(command, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "nowhere" in result.output
    assert result.output.endswith(": name another with --kubeconfig or --context\n")


def test_stored_objects_are_checked_as_validate_does():
    about = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass"}
    stored = {"uid": "1", "resourceVersion": "7", "managedFields": [{"manager": "kubectl"}], "generation": 1}
    device = {"name": "gpu", "driver": "gpu.example", "deviceClassName": "gpu.example"}
    good = {**about, "metadata": {"name": "good", **stored}, "spec": {"devices": [device]}}
    odd = {**about, "metadata": {"name": "odd", **stored}, "spec": {"devices": [device], "colour": "green"}}
    assert _problems([good]) == []
    [problem] = _problems([good, odd])
    assert problem.startswith('InferenceClass "odd": spec.colour: unknown field')


def test_writing_the_manifests_imports_no_client():
    script = (
        "import sys\nfrom modelplane.cli.main import main\n"
        "main(['install'], standalone_mode=False)\n"
        "print([name for name in ('rich', 'lightkube', 'asyncio') if name in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert output.splitlines()[-1] == "[]"
