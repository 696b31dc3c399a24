"""Moving a fleet between the engines, as the page tells it, as far as an API server is concerned.

Crossplane does not run here: the test does to the kinds and their objects what Crossplane does, and the
page's own lines do the rest. What must never happen is that an object of the fleet goes.
"""

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from modelplane.compose.kinds import COMPOSED
from modelplane.local.home import Home
from support.fleets import control_plane_of
from support.patience import PATIENCE_S
from support.shells import Shell, shell
from support.terminals import open_terminal
from support.third_party_crds import definitions
from support.transcripts import FENCE, read_steps

INSTALL = "modelplane install --image registry.example/modelplane:1"

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "move-to-crossplane.md"
XRDS = ROOT / "package" / "crossplane" / "configuration" / "definitions"
OURS = "modelplane.ai/v1alpha1"
FLEET = f"""\
apiVersion: {OURS}
kind: InferenceClass
metadata: {{name: small, finalizers: [modelplane.ai/in-use]}}
spec: {{devices: [{{name: gpu, driver: gpu.example, deviceClassName: gpu.example}}]}}
---
apiVersion: {OURS}
kind: ModelCache
metadata: {{name: weights, namespace: default, finalizers: [modelplane.ai/remote-objects]}}
spec: {{source: HuggingFace, huggingFace: {{repo: team/model, sizeGiB: 1}}}}
---
apiVersion: {OURS}
kind: ModelService
metadata: {{name: model, namespace: default}}
spec: {{endpoints: [{{selector: {{matchLabels: {{model: "yes"}}}}}}]}}
"""
CANARY = "owned-by-modelservices.modelplane.ai"
"""An object that an XRD owns, as Crossplane makes some."""

OBJECTS = (("InferenceClass", "small"), ("ModelCache", "weights"), ("ModelService", "model"))


def take(fleet: Shell, part: str, number: int, *blocks: int) -> str:
    """Take the steps of a section of the page, or of some of its blocks, and return what they print."""
    forward, _, back = PAGE.read_text().partition("\n## From Crossplane to the controllers\n")
    sections = re.split(r"^### \d\. .*$", forward if part == "there" else back, flags=re.MULTILINE)
    found = [read_steps(match["text"]) for match in FENCE.finditer(sections[number])]
    with open_terminal(fleet.plane.home, fleet.folder, fleet.folder) as terminal:
        # It has the contexts of both clusters.
        terminal.run(f"export KUBECONFIG={fleet.folder / 'kubeconfig'}")
        return "".join(terminal.follow(PAGE, found[at]) for at in blocks or range(len(found)))


@pytest.fixture(scope="module")
def fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A fleet that the controllers have, on a cluster that has Crossplane's own kinds too."""
    folder = tmp_path_factory.mktemp("move")
    with control_plane_of(Home(folder / "home"), kubernetes_binary) as plane:
        here = shell(plane, folder, "CONTROL", "GPU")
        foreign = [*definitions("crossplane"), *definitions("provider-kubernetes")]
        (folder / "foreign.yaml").write_text(yaml.safe_dump_all(foreign))
        (folder / "fleet.yaml").write_text(FLEET)
        here.run("kubectl apply --server-side -f foreign.yaml; kubectl create namespace crossplane-system")
        for name in ("crossplane", "provider-kubernetes-7f3a", "another"):
            here.run(f"kubectl create deployment {name} -n crossplane-system --image=example/{name}")
        here.run(f"{INSTALL} | kubectl apply -f -")
        here.run(
            "kubectl wait crd --all --for=condition=Established --timeout=180s; kubectl apply -f fleet.yaml"
        )
        yield here


def uids(fleet: Shell) -> dict[str, str]:
    """Return the uid of every kind of ours and of every object of theirs."""
    kinds = [each for each in fleet.get("crd")["items"] if each["spec"]["group"] == "modelplane.ai"]
    found = kinds + fleet.get("modelplane", "--all-namespaces")["items"]
    return {f"{each['kind']} {each['metadata']['name']}": each["metadata"]["uid"] for each in found}


def finalizers(fleet: Shell) -> set[str]:
    items = fleet.get("modelplane", "--all-namespaces")["items"]
    return {each for item in items for each in item["metadata"].get("finalizers", ())}


def take_over(fleet: Shell) -> None:
    """Do what Crossplane does once the packages are installed."""
    for path in sorted(XRDS.glob("*.yaml")):
        name = yaml.safe_load(path.read_text())["metadata"]["name"]
        fleet.run(f"kubectl apply -f {path}")
        definition = fleet.get("compositeresourcedefinitions", name)["metadata"]
        owner = {
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            **{key: definition[key] for key in ("name", "uid")},
            "controller": True,
            "blockOwnerDeletion": True,
        }
        hold = {"metadata": {"finalizers": ["defined.apiextensions.crossplane.io"]}}
        patch(fleet, f"compositeresourcedefinition/{name}", hold)
        patch(fleet, f"crd/{name}", {"metadata": {"ownerReferences": [owner]}})
        field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/crossplane"
        patch(fleet, f"crd/{name}", [{"op": "add", "path": place, "value": field}])
        fleet.run(
            "kubectl apply -f - <<'EOF'\n"
            + yaml.safe_dump(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": f"owned-by-{name}", "ownerReferences": [owner]},
                }
            )
            + "EOF"
        )


def compose(fleet: Shell) -> None:
    """Do what Crossplane does to an object: hold it, note what it is composed by, give it children."""
    held = {
        "metadata": {
            "finalizers": ["composite.apiextensions.crossplane.io"],
            "labels": {"crossplane.io/in-use": "true"},
        },
        "spec": {"crossplane": {"compositionRef": {"name": "any"}}},
    }
    for kind, name in OBJECTS:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            patch(fleet, f"{kind}.modelplane.ai/{name}", held)
            if "crossplane" in fleet.get(f"{kind}.modelplane.ai", name)["spec"]:
                break
            assert time.monotonic() < deadline, "the API server takes a moment over a new schema"
            time.sleep(0.2)
    cache = fleet.get("modelcache", "weights")
    owner = {key: cache[key] for key in ("apiVersion", "kind")} | {
        key: cache["metadata"][key] for key in ("name", "uid")
    }
    about = {"finalizers": ["finalizer.managedresource.crossplane.io"], "ownerReferences": [owner]}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "remote", "namespace": "default"},
    }
    children = [
        {
            "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
            "kind": "Object",
            "metadata": {"name": "child", "namespace": "default", **about},
            "spec": {
                "forProvider": {"manifest": manifest},
                "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "any"},
            },
        },
        {
            "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
            "kind": "Object",
            "metadata": {"name": "somebody-elses", "namespace": "default"},
            "spec": {
                "forProvider": {"manifest": manifest},
                "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "any"},
            },
        },
        {
            "apiVersion": "protection.crossplane.io/v1beta1",
            "kind": "ClusterUsage",
            "metadata": {"name": "use", **about},
            "spec": {
                "of": {"apiVersion": OURS, "kind": "InferenceClass", "resourceRef": {"name": "small"}},
                "reason": "it is used",
            },
        },
    ]
    fleet.run(f"kubectl apply -f - <<'EOF'\n{yaml.safe_dump_all(children)}EOF")


def patch(fleet: Shell, what: str, body: object) -> None:
    kind = "json" if isinstance(body, list) else "merge"
    fleet.run(f"kubectl patch {what} --type={kind} -p {shlex.quote(json.dumps(body))}")


def test_there_every_object_stays_and_no_finalizer_does(fleet: Shell) -> None:
    before = uids(fleet)
    take(fleet, "there", 1)
    assert len(yaml.safe_load((fleet.folder / "modelplane-kinds.yaml").read_text())["items"]) == len(COMPOSED)
    take(fleet, "there", 2)
    assert (
        fleet.get("deployment", "modelplane-controller", "-n", "modelplane-system")["spec"]["replicas"] == 0
    )
    assert finalizers(fleet) == set()
    take(fleet, "there", 3)
    take_over(fleet)
    owned = take(fleet, "there", 4).splitlines()
    assert [line.split()[-1] for line in owned] == ["CompositeResourceDefinition"] * len(COMPOSED)
    compose(fleet)
    take(fleet, "there", 5)
    left = fleet.run("kubectl get deploy,sa,svc,role,netpol -n modelplane-system -o name").split()
    # The last two are of the inference cluster, which is the same one here.
    assert left == [
        "serviceaccount/default",
        "serviceaccount/modelplane-inference-cluster",
        "role.rbac.authorization.k8s.io/modelplane-inference-cluster",
    ]
    assert uids(fleet) == before


def test_and_back_every_object_stays_and_crossplane_has_none(fleet: Shell) -> None:
    before = uids(fleet)
    take(fleet, "back", 1)
    scaled = fleet.get("deployments", "-n", "crossplane-system")["items"]
    assert {each["metadata"]["name"]: each["spec"]["replicas"] for each in scaled} == {
        "crossplane": 0,
        "provider-kubernetes-7f3a": 0,
        "another": 1,
    }
    kinds = len(COMPOSED)
    taken = take(fleet, "back", 2, 0).splitlines()[-kinds:]
    assert [line.split()[-1] for line in taken] == ["<none>"] * kinds
    fleet.run("kubectl apply -f - <<'EOF'\n" + CONFIGURATION + "EOF")
    take(fleet, "back", 2, 1)
    # Once what else the XRDs owned has been collected, whatever of ours was to be collected has been too.
    fleet.run(f"kubectl wait --for=delete --timeout=180s clusterrole/{CANARY}")
    assert uids(fleet) == before
    take(fleet, "back", 3)
    assert finalizers(fleet) == set()
    children = fleet.run(
        "kubectl get objects.kubernetes.m.crossplane.io,clusterusages.protection.crossplane.io -A -o name"
    )
    assert children.split() == ["object.kubernetes.m.crossplane.io/somebody-elses"]
    installed = fleet.run(f"{INSTALL} --apply --timeout 5s", check=False)
    assert f"CRDs: {len(COMPOSED)} changed" in installed
    assert "replicas are available" in installed, "it waits for pods, which no node runs here"
    assert uids(fleet) == before
    take(fleet, "back", 4)
    take(fleet, "back", 5)
    assert fleet.get("deployment", "crossplane", "-n", "crossplane-system")["spec"]["replicas"] == 1


CONFIGURATION = """\
apiVersion: pkg.crossplane.io/v1
kind: Configuration
metadata: {name: modelplane}
spec: {package: "ghcr.io/modelplane/configuration:v0.1.0"}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: modelplane-function}
spec: {package: "ghcr.io/modelplane/function:v0.1.0"}
"""
