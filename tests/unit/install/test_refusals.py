import pytest

from modelplane import __version__
from modelplane.install.manifests import build_definitions
from modelplane.install.steps.found import Found
from modelplane.install.steps.refusals import check_install, check_objects, check_tool
from support.rejections import message_of


def deployment(version=__version__, manager="modelplane", name="modelplane-controller"):
    labels = {"app.kubernetes.io/version": version, "app.kubernetes.io/managed-by": manager}
    about = {"name": name, "namespace": "modelplane-system", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about}


def definition(stored="v1alpha1", **metadata):
    first = build_definitions()[0]
    return {**first, "metadata": first["metadata"] | metadata, "status": {"storedVersions": [stored]}}


OWNER = {
    "apiVersion": "apiextensions.crossplane.io/v2",
    "kind": "CompositeResourceDefinition",
    "controller": True,
}
CROSSPLANE = (
    "the controllers must not run: Crossplane owns CustomResourceDefinition "
    "devicequotas.modelplane.ai: see docs/how-to/move-to-crossplane.md"
)


@pytest.mark.parametrize(
    ("found", "upgrade", "said"),
    [
        pytest.param(Found(), False, "", id="nothing is there"),
        pytest.param(
            Found((definition(),)), False, "", id="the kinds alone are there, of an install broken off"
        ),
        pytest.param(
            Found((), (deployment(name="modelplane-gateway"),)), False, "", id="only the gateway is there"
        ),
        pytest.param(
            Found((definition(),), (deployment(),)),
            False,
            f"Modelplane {__version__} is installed there: say --upgrade to bring it to {__version__}",
            id="it is installed already",
        ),
        pytest.param(Found((definition(),), (deployment(),)), True, "", id="the same version again"),
        pytest.param(Found((), (deployment("0.0.9"),)), True, "", id="an older version"),
        pytest.param(
            Found((), (deployment("0.10.0"),)),
            True,
            f"Modelplane 0.10.0 is installed there, and this is {__version__}: use the newer one",
            id="a newer version, by number and not by letter",
        ),
        pytest.param(
            Found((), (deployment("main"),)),
            True,
            f"cannot tell whether the version that is installed is older than {__version__}: "
            '"main" is not a version: write major.minor.patch, such as 9.0.0',
            id="a version that is none",
        ),
        pytest.param(
            Found(), True, "Modelplane is not installed there: leave out --upgrade", id="nothing to upgrade"
        ),
        pytest.param(
            Found((), (deployment(manager="Helm"),)),
            True,
            "Modelplane was installed there by Helm: use that to change it",
            id="it is Helm's",
        ),
        pytest.param(
            Found((definition(ownerReferences=[OWNER]),), (deployment(),)),
            True,
            CROSSPLANE,
            id="Crossplane owns the kinds",
        ),
        pytest.param(
            Found((definition("v1"),), (deployment("0.0.9"),)),
            True,
            "objects may be stored as v1 of devicequotas.modelplane.ai, which this version does not have",
            id="objects are stored in a form that is gone",
        ),
    ],
)
def test_an_installation_is_changed_only_where_that_is_safe(found, upgrade, said):
    assert message_of(check_install(found, upgrade=upgrade)) == said


def test_an_installation_without_a_label_is_ours():
    item = deployment()
    del item["metadata"]["labels"]
    assert check_tool(Found((), (item,))) is None


def test_objects_that_do_not_fit_are_listed_up_to_ten():
    problems = [f"object {number:02}" for number in range(12)]
    first, *lines = message_of(check_objects(problems)).splitlines()
    assert first == f"objects do not fit the kinds of {__version__}: change these first"
    assert lines == [f"  {each}" for each in (*problems[:10], "and 2 more")]
    assert check_objects([]) is None
