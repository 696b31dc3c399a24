"""The Helm chart as helm itself takes it."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from modelplane.install.installation_options import Options, build_namespace
from modelplane.install.manifests import build_manifests
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHART = Path(__file__).parents[2] / "package" / "helm" / "modelplane"
SYSTEM = ("--namespace", "modelplane-system")


@pytest.fixture(scope="module")
def helm(kubernetes_binary, tmp_path_factory):
    """Run helm, which the control plane's binary has whole, and return what it prints."""
    environment = os.environ | {"HOME": str(tmp_path_factory.mktemp("helm"))}

    def run(*arguments, check=True):
        done = subprocess.run(
            [kubernetes_binary, "helm", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode == 0) is check, done.stdout + done.stderr
        return done.stdout if check else done.stderr

    return run


@pytest.fixture(scope="module")
def rendered(helm):
    """Return the objects that the chart makes with some values."""

    def template(*values):
        sets = [each for value in values for each in ("--set", value)]
        text = helm("template", "modelplane", CHART, *SYSTEM, "--kube-version", "1.34.0", *sets)
        return [each for each in yaml.safe_load_all(text) if each]

    return template


def by_name(items):
    return {
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each for each in items
    }


def test_helm_has_nothing_against_the_chart(helm):
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *SYSTEM)


def test_with_the_default_values_the_chart_makes_what_the_command_writes(rendered):
    expected = [each for each in build_manifests(Options()) if each != build_namespace()]
    assert by_name(rendered()) == by_name(expected)


def test_with_the_same_values_the_chart_makes_the_same_again(rendered):
    options = Options(
        image="example/modelplane:1",
        controllers=3,
        gateways=1,
        gateway_service_type="ClusterIP",
        gateway_annotations={"example.org/scheme": "internal"},
        team_namespaces=("a", "b"),
        monitoring_namespaces=("watching",),
        service_monitor=True,
        envoy_resources={"requests": {"cpu": "500m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
    )
    values = (
        *("image=example/modelplane:1", "controller.replicas=3", "gateway.replicas=1"),
        *("gateway.serviceType=ClusterIP", r"gateway.serviceAnnotations.example\.org/scheme=internal"),
        *("teamNamespaces={a,b}", "networkPolicy.monitoringNamespaces={watching}"),
        *("serviceMonitor.enabled=true", "gateway.envoyResources.requests.cpu=500m"),
    )
    expected = [each for each in build_manifests(options) if each != build_namespace()]
    assert by_name(rendered(*values)) == by_name(expected)


def test_what_is_switched_off_is_left_out(rendered):
    kinds = {each["kind"] for each in rendered("networkPolicy.enabled=false", "crds.enabled=false")}
    assert {"NetworkPolicy", "CustomResourceDefinition"} & kinds == set()


def test_another_namespace_is_refused(helm):
    said = helm("template", "modelplane", CHART, "--kube-version", "1.34.0", check=False)
    assert (
        "the namespace must be modelplane-system: add --namespace modelplane-system --create-namespace"
        in said
    )


def test_a_cluster_that_is_too_old_is_refused(helm):
    assert "1.34" in helm("template", "modelplane", CHART, *SYSTEM, "--kube-version", "1.33.9", check=False)
