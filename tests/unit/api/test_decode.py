import copy
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from modelplane.api.fields.cluster.devices import DeviceRequest, DeviceSelector, NodeSelector
from modelplane.api.fields.pods.containers import Container, PodSpec
from modelplane.api.fields.pods.engines import PodMetadata, PodTemplate, Serving
from modelplane.api.fields.pods.variables import EnvVar
from modelplane.api.meta import ObjectMeta
from modelplane.api.model_deployment import (
    Engine,
    Member,
    ModelDeployment,
    ModelDeploymentSpec,
    ModelDeploymentStatus,
    ReplicaCounts,
)
from modelplane.api.model_replica import ModelReplica, ModelReplicaSpec, PlacedEngine, PlacedMember
from modelplane.api.schema.decode import InvalidObject, decode, decode_as, encode

MANIFEST: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "qwen", "namespace": "ml-team"},
    "spec": {
        "replicas": 2,
        "engines": [
            {
                "name": "qwen",
                "members": [
                    {
                        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
                        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}},
                    }
                ],
            }
        ],
    },
    "status": {"replicas": {"total": 2, "ready": 0}},
}

DEPLOYMENT = ModelDeployment(
    metadata=ObjectMeta(name="qwen", namespace="ml-team"),
    spec=ModelDeploymentSpec(
        replicas=2,
        engines=(
            Engine(
                name="qwen",
                members=(
                    Member(
                        node_selector=NodeSelector(
                            devices=(DeviceRequest(name="gpu", selectors=(DeviceSelector(cel="true"),)),)
                        ),
                        template=PodTemplate(
                            spec=PodSpec(containers=(Container(name="engine", image="vllm"),))
                        ),
                    ),
                ),
            ),
        ),
    ),
    status=ModelDeploymentStatus(replicas=ReplicaCounts(total=2, ready=0)),
)


def test_an_object_is_decoded_by_its_kind():
    assert decode(MANIFEST) == DEPLOYMENT


def test_an_object_is_encoded_as_a_server_stores_it():
    stored = copy.deepcopy(MANIFEST)
    engine = stored["spec"]["engines"][0]
    engine["copies"] = 1
    engine["members"][0]["role"] = "Standalone"
    engine["members"][0]["nodeSelector"]["devices"][0]["count"] = 1
    assert encode(DEPLOYMENT) == stored


def test_only_an_empty_default_is_left_out():
    variables = (EnvVar(name="EMPTY", value=""), EnvVar(name="UNSET"))
    container = Container(name="engine", image="vllm", args=("--port=1",), env=variables)
    template = PodTemplate(metadata=PodMetadata(labels={}), spec=PodSpec(containers=(container,)))
    engine = PlacedEngine(name="e", members=(PlacedMember(node_pool_name="p", template=template),))
    spec = ModelReplicaSpec(cluster_name="east", serving=Serving(), engines=(engine,), draining=True)
    assert encode(ModelReplica(metadata=ObjectMeta(name="r"), spec=spec))["spec"] == {
        "clusterName": "east",
        "serving": {"mode": "Unified"},
        "engines": [
            {
                "name": "e",
                "copies": 1,
                "members": [
                    {
                        "role": "Standalone",
                        "template": {
                            "metadata": {},
                            "spec": {
                                "containers": [
                                    {
                                        "name": "engine",
                                        "image": "vllm",
                                        "args": ["--port=1"],
                                        "env": [{"name": "EMPTY", "value": ""}, {"name": "UNSET"}],
                                    }
                                ]
                            },
                        },
                        "nodePoolName": "p",
                    }
                ],
            }
        ],
        "draining": True,
    }


def test_a_field_that_is_not_known_is_ignored():
    newer = copy.deepcopy(MANIFEST)
    newer["spec"]["crossplane"] = {"compositionRef": {"name": "x"}}
    newer["metadata"]["managedFields"] = []
    assert decode(newer) == DEPLOYMENT


def _broken_image():
    broken = copy.deepcopy(MANIFEST)
    broken["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"] = 7
    return broken


@pytest.mark.parametrize(
    ("manifest", "path", "sentence"),
    [
        pytest.param(
            _broken_image(),
            "spec.engines[0].members[0].template.spec.containers[0].image",
            'cannot read ModelDeployment "ml-team/qwen": '
            "spec.engines[0].members[0].template.spec.containers[0].image: expected `str`, got `int`",
            id="a value of the wrong type names its field",
        ),
        pytest.param(
            {**MANIFEST, "spec": {"engines": [{"name": "qwen"}]}},
            "spec.engines[0]",
            'cannot read ModelDeployment "ml-team/qwen": spec.engines[0]: object missing required field '
            "`members`",
            id="a missing field names what it is missing from",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}},
            "kind",
            'cannot read Deployment "web": kind: "Deployment" of "apps/v1" is not a kind of Modelplane',
            id="a foreign kind is named",
        ),
        pytest.param(
            {},
            "kind",
            'cannot read object "": kind: "" of "" is not a kind of Modelplane',
            id="an object without a kind is refused",
        ),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_object_and_field(manifest, path, sentence):
    with pytest.raises(InvalidObject) as raised:
        decode(manifest)
    assert (raised.value.path, str(raised.value)) == (path, sentence)


def test_decoding_as_a_type_needs_no_kind():
    listed = {key: value for key, value in MANIFEST.items() if key not in ("apiVersion", "kind")}
    assert decode_as(ModelDeployment, listed) == DEPLOYMENT


def test_a_decoded_object_cannot_be_changed():
    spec: Any = decode_as(ModelDeployment, MANIFEST).spec
    with pytest.raises(AttributeError):
        spec.replicas = 3


def test_threads_that_meet_types_for_the_first_time_do_not_crash_the_process() -> None:
    """Every thread converts every kind, each in an order of its own, in a process that has converted none."""
    program = """
        import contextlib, sys, threading
        from modelplane.api.schema.decode import InvalidObject, decode
        from modelplane.api.kinds import KINDS

        def decode_all(first):
            start.wait()
            for kind in KINDS[first:] + KINDS[:first]:
                with contextlib.suppress(InvalidObject):
                    decode({"apiVersion": kind.api_version, "kind": kind.name, "spec": {}})

        sys.setswitchinterval(1e-6)
        start = threading.Barrier(len(KINDS))
        threads = [threading.Thread(target=decode_all, args=(each,)) for each in range(len(KINDS))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        print("alive")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "alive\n", "")
