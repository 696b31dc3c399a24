"""Forms of the objects on a cluster, as expressions, and the pages that describe the lists."""

from pathlib import Path
from typing import Any

import pytest

from modelplane.api.fields.pods.containers import Container
from modelplane.api.fields.pods.pod_keys import ACCEPTED_KEYS, ACCEPTED_PREFIXES
from modelplane.compose import workload_kinds
from modelplane.compose.workload_kinds import Place
from modelplane.install import cluster_admission
from modelplane.install.cluster_admission_fields import CONTAINER, GATEWAYS, ROOTS, SPECS
from modelplane.install.cluster_admission_forms import (
    ANY,
    Each,
    OneOf,
    Unchanged,
    build_condition,
    find_fields,
)
from modelplane.install.cluster_admission_pods import ALLOWED_KEYS

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "pod-keys.md"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        pytest.param(ANY, "", id="any value"),
        pytest.param(OneOf(("a", True, 1)), "object.x in ['a', true, 1]", id="a value of a list"),
        pytest.param(Each(ANY), "", id="a list of anything"),
        pytest.param(Each(OneOf(("a",))), "object.x.all(v0, v0 in ['a'])", id="a list of values"),
        pytest.param(
            Unchanged(),
            "(oldObject != null && oldObject.?x == optional.of(object.x))",
            id="what the object has already",
        ),
        pytest.param({"a": ANY}, "object.x.all(v0, v0 in ['a'])", id="fields of any value"),
        pytest.param(
            {"a": Each({"b": OneOf((1,))})},
            "object.x.all(v0, v0 in ['a']) && (!has(object.x.a) || object.x.a.all(v1, "
            "v1.all(v2, v2 in ['b']) && (!has(v1.b) || v1.b in [1])))",
            id="fields of items",
        ),
    ],
)
def test_a_form_is_an_expression(form, expected):
    assert build_condition("object.x", form) == (expected or None)


def test_fields_of_an_author_come_from_the_types_of_the_api():
    own: Any = find_fields(Container)
    assert isinstance(own["env"], Each)
    assert isinstance(own["env"].item, dict)
    assert own["env"].item["valueFrom"] == {
        "secretKeyRef": {"name": ANY, "key": ANY, "optional": ANY},
        "configMapKeyRef": {"name": ANY, "key": ANY, "optional": ANY},
        "fieldRef": {"fieldPath": ANY, "apiVersion": ANY},
    }
    assert own.keys() <= CONTAINER.keys()


def test_every_kind_that_is_written_to_a_cluster_has_a_form():
    written = {row.kind for row in workload_kinds.rows(Place.CLUSTERS)}
    alone = {workload_kinds.STORAGE_CLASS.kind, workload_kinds.NIC_CLUSTER_POLICY.kind}
    assert {*ROOTS, *SPECS, *GATEWAYS, *alone} == written


def test_a_missing_list_closes_nothing_for_others_and_opens_nothing_for_the_identity():
    """An API server collects the parameter before it asks whose request it is."""
    [binding] = [each for each in cluster_admission.build_policies() if "paramRef" in each["spec"]]
    assert binding["spec"]["paramRef"] == {"name": "modelplane-system", "parameterNotFoundAction": "Allow"}


@pytest.mark.parametrize("key", [*ACCEPTED_KEYS, *ACCEPTED_PREFIXES, ALLOWED_KEYS])
def test_the_page_lists_each_key(key):
    assert f"`{key}" in PAGE.read_text() or f"{key}:" in PAGE.read_text()
