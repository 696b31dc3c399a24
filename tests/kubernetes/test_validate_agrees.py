"""What ``modelplane validate`` says of a manifest is what a real API server says of it."""

import io
import json
import subprocess

import pytest

from kubernetes import test_crds
from kubernetes.test_crds import REMOVE, _manifest
from modelplane.api.kinds import find_kind
from modelplane.kube import errors
from modelplane.offline.check.validation import validate
from modelplane.offline.files.sources import read
from support.kubectl_scalars import ANSWERS

pytestmark = pytest.mark.kubernetes

kubeconfig = test_crds.kubeconfig
client = test_crds.client

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}
CASES = [
    *(pytest.param(*case.values[:2], id=case.id) for case in (*test_crds.ACCEPTED, *test_crds.REFUSED)),
    pytest.param("ModelDeployment", {"spec.replicas": None}, id="null for a field that is required"),
    pytest.param("ModelDeployment", {"spec.serving": None}, id="null for a field that is optional"),
    pytest.param("ModelDeployment", {"spec.engines.0.copies": None}, id="null for a field with a default"),
    pytest.param("ModelDeployment", {"spec.engines": [None]}, id="null in a list"),
    pytest.param("ModelDeployment", {"spec.engines": {}}, id="a mapping for a list"),
    pytest.param("ModelDeployment", {"spec.replicas": "1"}, id="a text for a number"),
    pytest.param("ModelDeployment", {"spec.replicas": 1.5}, id="a fraction"),
    pytest.param("ModelDeployment", {"spec.replicas": 2**63}, id="a number beyond 64 bits"),
    pytest.param("ModelDeployment", {"spec.replicas": True}, id="a truth value for a number"),
    pytest.param("ModelDeployment", {"spec": REMOVE}, id="no spec"),
    pytest.param("ModelDeployment", {"spec": {}}, id="an empty spec"),
    pytest.param("ModelDeployment", {"spec": []}, id="a list for the spec"),
    pytest.param("ModelDeployment", {"replicas": 1}, id="a field beside the spec"),
    pytest.param("ModelDeployment", {"metadata.labels": {"a b": "x"}}, id="a label's key"),
    pytest.param("ModelDeployment", {"metadata.labels": {"a": "x y"}}, id="a label's value"),
    pytest.param("ModelDeployment", {"metadata.labels": {"a": 1}}, id="a number for a label's value"),
    pytest.param("ModelDeployment", {"metadata.labels": {"a": "x" * 64}}, id="a long label's value"),
    pytest.param("ModelDeployment", {"metadata.labels": {"x" * 64: ""}}, id="a long label's key"),
    pytest.param("ModelDeployment", {"metadata.labels": {"x/": ""}}, id="a label's key without a name"),
    pytest.param("ModelDeployment", {"metadata.labels": {"EXAMPLE.com/x": ""}}, id="capitals in a prefix"),
    pytest.param("ModelDeployment", {"metadata.labels": {"a\n": ""}}, id="a line break in a label's key"),
    pytest.param("ModelDeployment", {"metadata.labels": {"a": "x\n"}}, id="a line break in a label's value"),
    pytest.param("ModelDeployment", {"metadata.annotations": {"a b": "x"}}, id="an annotation's key"),
    pytest.param(
        "ModelDeployment", {"metadata.annotations": {"EXAMPLE.com/x": ""}}, id="a capital annotation"
    ),
    pytest.param("ModelDeployment", {"metadata.annotations": {"a": 1}}, id="a number for an annotation"),
    pytest.param("ModelDeployment", {"metadata.annotations": {"a": "x" * 300_000}}, id="a long annotation"),
    pytest.param("ModelDeployment", {"metadata.label": {}}, id="an unknown field of metadata"),
    pytest.param("ModelDeployment", {"metadata.name": "Qwen"}, id="a name with capitals"),
    pytest.param("ModelDeployment", {"metadata.name": "qwen\n"}, id="a name with a line break"),
    pytest.param("InferenceClass", {"metadata.name": "a.b"}, id="a class with a dot in its name"),
    pytest.param("InferenceClass", {"metadata.name": "a..b"}, id="a class with two dots in its name"),
    pytest.param("ModelDeployment", {"metadata.finalizers": ["x"]}, id="an unqualified finalizer"),
    pytest.param("ModelDeployment", {"metadata.finalizers": ["a.b/x"]}, id="a finalizer"),
    pytest.param("ModelDeployment", {"metadata.ownerReferences": [OWNER]}, id="an owner"),
    pytest.param("ModelDeployment", {"metadata.ownerReferences": [{**OWNER, "uid": ""}]}, id="half an owner"),
    pytest.param("ModelDeployment", {"metadata.creationTimestamp": None}, id="no time, as kubectl writes it"),
    pytest.param("ModelService", {"spec.endpoints.0.selector.matchLabels.x": None}, id="null in a map"),
    pytest.param("ModelService", {"spec.endpoints.0.selector.matchLabels": {"x": 1}}, id="a number in a map"),
    pytest.param("ModelService", {"spec.endpoints.0.weight": 2**40}, id="a weight beyond its limit"),
    pytest.param("InferenceCluster", {"spec.nodePools.0.fabric": None}, id="null for a fabric"),
    pytest.param("InferenceCluster", {"spec.nodePools.0.fabric": {"nam": "x"}}, id="a fabric of no form"),
    pytest.param(
        "InferenceCluster",
        {"spec.nodePools": [{"name": "a", "className": "b"}, {"name": "a", "className": "c"}]},
        id="two pools of one name",
    ),
    pytest.param("InferenceCluster", {"spec.nodePools.0.zones": ["a", "a"]}, id="one zone twice"),
    pytest.param(
        "InferenceClass", {"spec.devices.0.capacity.memory.value": "1Gi\n"}, id="a quantity, broken"
    ),
]


async def _create(client, manifest):
    """Ask the server to create an object, as ``kubectl apply`` does, and to keep nothing."""
    kind = find_kind(manifest["apiVersion"], manifest["kind"])
    namespace = f"/namespaces/{manifest['metadata']['namespace']}" if kind.namespaced else ""
    path = f"/apis/{kind.api_version}{namespace}/{kind.plural}"
    await client._request("POST", path, {"fieldValidation": "Strict", "dryRun": "All"}, manifest)


@pytest.mark.parametrize(("kind", "edits"), CASES)
async def test_the_verdict_is_the_servers(client, kind, edits):
    manifest = _manifest(kind, edits)
    try:
        await _create(client, manifest)
        accepted = "accepted"
    except errors.ApiError as error:
        accepted = error.message
    text = json.dumps(manifest).encode()
    found = validate(read(["-"], lambda: io.BytesIO(text)))
    assert (found.valid, found.summary.objects) == (accepted == "accepted", 1), (
        accepted,
        [str(problem) for problem in found.problems],
    )


def test_words_mean_what_kubectl_takes_them_for(kubernetes_binary):
    words = "".join(f"  - {word}\n" for word in ANSWERS)
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\nwords:\n{words}"
    command = [kubernetes_binary, "kubectl", "annotate", "--local", "-f", "-", "a=b", "-o", "json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    answered = json.loads(done.stdout)["words"]
    assert [(type(value), value) for value in answered] == [
        (type(value), value) for value in ANSWERS.values()
    ]
