import base64
from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.kubelet.runtime import container_environment
from modelplane.kubelet.runtime.container_environment import References, Sources
from support.rejections import message_of

POD = {
    "metadata": {
        "name": "qwen-0",
        "namespace": "ml-team",
        "uid": "u-1",
        "labels": {"modelplane.ai/replica": "qwen-1a2b3"},
    },
    "spec": {"nodeName": "local", "serviceAccountName": "default"},
}
SOURCES = Sources(
    secrets={"hub": {"data": {"token": base64.b64encode(b"hf_x").decode()}}},
    config_maps={"settings": {"data": {"a": "1", "b": "2"}}},
)


def resolve(container: dict[str, Any], sources: Sources = SOURCES) -> dict[str, str] | Rejected:
    return container_environment.resolve(container, POD, "127.77.1.2", "127.0.0.1", sources)


def variable(**source: Any) -> dict[str, Any]:
    return {"env": [{"name": "X", "valueFrom": source}]}


# Kubernetes, "Define Dependent Environment Variables", and the table in its expansion proposal.
@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        pytest.param("$(A)-$(B)", "1-2", id="known names are replaced"),
        pytest.param("$(C)", "$(C)", id="an unknown name stays"),
        pytest.param("$$(A)", "$(A)", id="a doubled sign escapes"),
        pytest.param("$$$(A)", "$1", id="an escaped sign before a name"),
        pytest.param("$A $(A", "$A $(A", id="what is no reference stays"),
        pytest.param("100$", "100$", id="a sign at the end stays"),
    ],
)
def test_references_are_expanded(text: str, expanded: str) -> None:
    assert container_environment.expand(text, {"A": "1", "B": "2"}) == expanded


def test_a_variable_may_use_those_before_it() -> None:
    container = {
        "envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "EARLY", "value": "$(LATE)"},
            {"name": "LATE", "value": "$(S_a)$(S_b)"},
            {"name": "EMPTY"},
        ],
    }
    assert resolve(container) == {"S_a": "1", "S_b": "2", "EARLY": "$(LATE)", "LATE": "12", "EMPTY": ""}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("status.podIP", "127.77.1.2", id="the address that is bound"),
        pytest.param("status.hostIP", "127.0.0.1", id="the node's address"),
        pytest.param("metadata.namespace", "ml-team", id="the namespace"),
        pytest.param("metadata.labels['modelplane.ai/replica']", "qwen-1a2b3", id="a label"),
        pytest.param("metadata.annotations['none']", "", id="an annotation that is not there"),
        pytest.param("spec.nodeName", "local", id="the node"),
    ],
)
def test_a_field_of_the_pod(path: str, value: str) -> None:
    assert resolve(variable(fieldRef={"fieldPath": path})) == {"X": value}


def test_a_key_of_a_secret() -> None:
    assert resolve(variable(secretKeyRef={"name": "hub", "key": "token"})) == {"X": "hf_x"}


def test_an_optional_key_that_is_missing_sets_nothing() -> None:
    assert resolve(variable(secretKeyRef={"name": "none", "key": "a", "optional": True})) == {}
    assert resolve({"envFrom": [{"secretRef": {"name": "none", "optional": True}}]}) == {}


@pytest.mark.parametrize(
    ("container", "message"),
    [
        pytest.param(
            variable(secretKeyRef={"name": "none", "key": "a"}),
            'cannot set the environment: Secret "none" does not exist: create it',
            id="a missing Secret",
        ),
        pytest.param(
            variable(configMapKeyRef={"name": "settings", "key": "c"}),
            'cannot set variable "X": ConfigMap "settings" has no key "c": '
            "add it, or mark the reference optional",
            id="a missing key",
        ),
        pytest.param(
            variable(resourceFieldRef={"resource": "limits.cpu"}),
            'cannot set variable "X": a value from resourceFieldRef requires a container runtime',
            id="a source that a host process has not",
        ),
        pytest.param(
            variable(fieldRef={"fieldPath": "spec.tea"}),
            'cannot set variable "X": field "spec.tea" is not supported in a variable',
            id="a field that does not exist",
        ),
    ],
)
def test_what_cannot_be_resolved_is_named(container: dict[str, Any], message: str) -> None:
    assert message_of(resolve(container)) == message


def test_what_a_container_refers_to_is_listed_once() -> None:
    container = {
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "a"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "b"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "c"}}},
        ],
        "envFrom": [{"secretRef": {"name": "all"}}],
    }
    assert container_environment.list_references(container) == References(
        frozenset({"hub", "all"}), frozenset({"settings"})
    )
