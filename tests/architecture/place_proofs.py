"""Proofs that an invented row reaches every place that is derived from its table.

``test_places.py`` runs each, by its name, over a copy of the tree to which a diff of ``places/`` was applied.
"""

import sys
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import is_ready
from modelplane.controllers.clusters.watches import child_kinds
from modelplane.controllers.manager import Manager
from modelplane.install import inference_cluster
from modelplane.kubelet.engines.launchers import CannotLaunch, check
from support.replicas import composed, engine, member, replica

NAME = "gke-l4-16x-g2"
"""The invented machine."""


def kind() -> None:
    """Prove that the kind is composed, watched on clusters, permitted there, and read."""
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "engines", "namespace": "ml-team"},
    }
    child = Desired("autoscaler", autoscaler, is_ready, "east")
    rules = [rule for each in inference_cluster.manifests() for rule in each.get("rules", ())]
    assert "horizontalpodautoscalers" in {resource.plural for resource in child_kinds()}
    assert "horizontalpodautoscalers" in {plural for rule in rules for plural in rule["resources"]}
    assert child.ready(autoscaler)


def backend() -> None:
    """Prove that the backend's engines, and no others, get its workload under its key."""
    exclusive = member()
    exclusive["template"]["metadata"] = {"annotations": {"example.com/exclusive": "true"}}
    children = composed(replica(engine("a", exclusive), engine("b"))).children
    workloads = {
        child.key: child.manifest["spec"]["strategy"]["type"]
        for child in children
        if isinstance(child, Desired) and child.manifest["kind"] == "Deployment"
    }
    assert workloads == {"model-recreated-a": "Recreate", "model-serving-b": "RollingUpdate"}


def runnable() -> None:
    """Prove that the manager starts the control loop, after all others."""
    client: Any = None  # nothing is sent
    loops = Manager(client, proxy=None, dial=str)._control_loops()
    assert [loop.name for loop in loops][-1] == "census"


def command() -> None:
    """Prove that help lists the command, and that it runs."""
    assert "Print the namespaces that no model may be in." in CliRunner().invoke(main, ["--help"]).output
    assert "modelplane-system" in CliRunner().invoke(main, ["namespaces"]).output.splitlines()


def launcher() -> None:
    """Prove that the image is known, and that the refusal of another names it."""
    check({"image": "ghcr.io/huggingface/text-embeddings-inference:cpu-1.9"}, host_commands=False)
    with pytest.raises(CannotLaunch, match="text-embeddings-inference"):
        check({"image": "example.com/unheard"}, host_commands=False)


def machine() -> None:
    """Prove that the machine is listed with its doubt, and that its class is shown."""
    listed, shown = (
        CliRunner().invoke(main, ["classes", *each]).output for each in (["list"], ["show", NAME])
    )
    [row] = [each for each in listed.splitlines() if each.startswith(NAME)]
    assert (row.split()[1:3], row.endswith("U: count")) == (["GKE", "g2-standard-192"], True)
    [class_] = yaml.safe_load_all(shown)
    assert class_["spec"]["provisioning"]["gke"]["machineType"] == "g2-standard-192"
    assert [each["count"] for each in class_["spec"]["devices"]] == [16]


PROOFS = {proof.__name__: proof for proof in (kind, backend, runnable, command, launcher, machine)}

if __name__ == "__main__":
    PROOFS[sys.argv[1]]()
