import pytest

from modelplane.compose.definition_owner import GUIDE, DefinitionOwner, crossplane_owns, owned_by_other
from support.rejections import message_of

XRD = {
    "apiVersion": "apiextensions.crossplane.io/v2",
    "kind": "CompositeResourceDefinition",
    "name": "modelservices.modelplane.ai",
    "uid": "1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def definition(*owners, name="modelservices.modelplane.ai"):
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name, "ownerReferences": [*owners]}}


@pytest.mark.parametrize(
    ("owners", "owned"),
    [
        pytest.param((), False, id="nobody's is not Crossplane's"),
        pytest.param((XRD,), True, id="a definition that an XRD controls is"),
        pytest.param((XRD | {"apiVersion": "apiextensions.crossplane.io/v1"},), True, id="of any version"),
        pytest.param((XRD | {"controller": False},), False, id="an owner that does not control it is none"),
        pytest.param((XRD | {"apiVersion": "example.org/v1"},), False, id="another group's kind is not"),
        pytest.param((XRD | {"kind": "Other"},), False, id="another kind of Crossplane's is not"),
    ],
)
def test_crossplane_owns_what_its_definition_controls(owners, owned):
    assert crossplane_owns(definition(*owners)) is owned


def test_a_definition_without_owners_is_not_crossplanes():
    assert not crossplane_owns({"metadata": {"name": "modelservices.modelplane.ai"}})


@pytest.mark.parametrize(
    ("found", "own", "said"),
    [
        pytest.param(definition(), DefinitionOwner.CONTROLLERS, None, id="the controllers' own"),
        pytest.param(definition(XRD), DefinitionOwner.CROSSPLANE, None, id="Crossplane's own"),
        pytest.param(
            definition(XRD),
            DefinitionOwner.CONTROLLERS,
            "the controllers must not run: Crossplane owns CustomResourceDefinition "
            f"modelservices.modelplane.ai: see {GUIDE}",
            id="the controllers do not run on Crossplane's",
        ),
        pytest.param(
            definition(),
            DefinitionOwner.CROSSPLANE,
            "Crossplane must not compose: it does not own CustomResourceDefinition "
            f"modelservices.modelplane.ai: see {GUIDE}",
            id="Crossplane does not compose on the controllers'",
        ),
    ],
)
def test_each_reconciles_only_with_its_own_definitions(found, own, said):
    assert message_of(owned_by_other((found,), own)) == (said or "")


def test_several_definitions_make_one_sentence_in_any_order():
    found = [definition(XRD, name=f"{name}.modelplane.ai") for name in "dbca"] + [definition()]
    said = (
        "the controllers must not run: Crossplane owns CustomResourceDefinitions a.modelplane.ai, "
        f"b.modelplane.ai, c.modelplane.ai and 1 more: see {GUIDE}"
    )
    assert message_of(owned_by_other(found)) == message_of(owned_by_other(reversed(found))) == said


def test_no_definition_is_no_problem():
    assert owned_by_other(()) is None
