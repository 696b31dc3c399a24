import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.api.schema.xrd import build_xrd

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)

INJECTED_COLUMNS = {"SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"}


def _version(definition):
    (version,) = definition["spec"]["versions"]
    return version


def _schema(definition):
    return _version(definition)["schema"]["openAPIV3Schema"]


@every_kind
def test_an_xrd_says_what_the_crd_says_but_for_what_crossplane_adds(kind):
    theirs, ours = _schema(crd(kind)), _schema(build_xrd(kind))
    for injected in ("apiVersion", "kind", "metadata"):
        del theirs["properties"][injected]
    del theirs["properties"]["status"]["properties"]["conditions"]
    assert ours == theirs


@every_kind
def test_an_xrd_has_no_field_that_crossplane_adds(kind):
    properties = _schema(build_xrd(kind))["properties"]
    assert set(properties) == {"spec", "status"}
    assert "crossplane" not in properties["spec"]["properties"]
    assert not {"crossplane", "conditions"} & set(properties["status"]["properties"])


@every_kind
def test_an_xrd_has_no_column_that_crossplane_adds(kind):
    columns = {column["name"] for column in _version(build_xrd(kind))["additionalPrinterColumns"]}
    assert columns == {column.name for column in kind.own_columns}
    assert not columns & INJECTED_COLUMNS


@every_kind
def test_an_xrd_is_called_and_scoped_as_the_crd_is(kind):
    theirs, ours = crd(kind), build_xrd(kind)
    names = theirs["spec"]["names"] | {"categories": ["crossplane", "modelplane"]}
    assert (ours["metadata"]["name"], ours["spec"]["names"], ours["spec"]["scope"]) == (
        theirs["metadata"]["name"],
        names,
        theirs["spec"]["scope"],
    )


def test_only_a_deployment_is_scaled():
    scaled = {kind.name: _version(build_xrd(kind)).get("subresources") for kind in KINDS}
    assert {name: subresources for name, subresources in scaled.items() if subresources} == {
        "ModelDeployment": {
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas.total",
                "labelSelectorPath": ".status.selector",
            }
        }
    }
