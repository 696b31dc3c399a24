"""Each field of the kinds that names a Secret or a ConfigMap is followed."""

import re
from typing import Any

import pytest

from modelplane.api.schema.crd import crd
from modelplane.backup import contents
from modelplane.backup.contents import Named, find_named
from modelplane.compose.kinds import COMPOSED


@pytest.mark.parametrize(
    ("spec", "namespace", "named"),
    [
        pytest.param(
            {"cluster": {"existing": {"secretRef": {"name": "a"}, "identitySecretRef": {"name": "b"}}}},
            "",
            {Named("Secret", "modelplane-system", "a"), Named("Secret", "modelplane-system", "b")},
            id="a cluster's are the system's",
        ),
        pytest.param(
            {"secrets": [{"name": "a", "namespace": "x"}, {"name": "b"}]},
            "modelplane-system",
            {Named("Secret", "x", "a"), Named("Secret", "modelplane-system", "b")},
            id="a namespace of its own",
        ),
        pytest.param(
            {"engines": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}]}]},
            "ml",
            {Named("ConfigMap", "ml", "a")},
            id="a variable",
        ),
        pytest.param(
            {"storage": {"cloudInitSecret": "a"}}, "ml", {Named("Secret", "ml", "a")}, id="a name alone"
        ),
        pytest.param(
            {"secretRef": {"name": ["a"]}, "authSecret": 3, "secretKeyRef": None}, "ml", set(), id="no names"
        ),
        pytest.param(
            {
                "values": {
                    "imagePullSecrets": ["../pods", "A", "a\n", "a" * 254],
                    "secretRef": {"name": "${a}"},
                }
            },
            "ml",
            set(),
            id="values of a chart that are no names",
        ),
        pytest.param({"secrets": [{"name": "a", "namespace": "x/y"}]}, "ml", set(), id="no namespace"),
    ],
)
def test_secrets_and_config_maps_are_found(spec: Any, namespace: str, named: set[Named]) -> None:
    metadata = {"name": "x"} | ({"namespace": namespace} if namespace else {})
    assert find_named({"metadata": metadata, "spec": spec}) == named


def _fields(schema: Any, name: str = "") -> set[str]:
    found = {name} if name else set()
    for key, value in (schema.get("properties") or {}).items():
        found |= _fields(value, key)
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            found |= _fields(schema[part])
    return found


def test_every_field_that_is_called_after_a_secret_is_followed() -> None:
    fields = set()
    for kind in COMPOSED:
        [version] = crd(kind)["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        fields |= _fields(spec)
    called = {each for each in fields if re.search(r"(?i)secret|configMap|certificateRef", each)}
    assert called == contents._FIELDS.keys() & fields
    assert contents._FIELDS.keys() <= fields, "a field that is no more"
