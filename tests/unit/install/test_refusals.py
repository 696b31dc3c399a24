from contextlib import nullcontext

import pytest

from modelplane import __version__
from modelplane.install.existing_installation import (
    Installation,
    check_install,
    check_stored_objects,
    check_tool,
)
from modelplane.install.manifests import build_definitions
from modelplane.user_error import UserError


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
    ("existing", "upgrade", "refusal"),
    [
        pytest.param(Installation(), False, "", id="nothing is there"),
        pytest.param(
            Installation((definition(),)), False, "", id="the kinds alone are there, of an install broken off"
        ),
        pytest.param(
            Installation((), (deployment(name="modelplane-gateway"),)),
            False,
            "",
            id="only the gateway is there",
        ),
        pytest.param(
            Installation((definition(),), (deployment(),)),
            False,
            f"Modelplane {__version__} is already installed: to upgrade to {__version__}, use --upgrade",
            id="it is installed already",
        ),
        pytest.param(Installation((definition(),), (deployment(),)), True, "", id="the same version again"),
        pytest.param(
            Installation((), (deployment("0.9.0"),)),
            True,
            "",
            id="an older version, by number and not by letter",
        ),
        pytest.param(
            Installation((), (deployment("99.0.0"),)),
            True,
            f"the installed Modelplane 99.0.0 is newer than this command, {__version__}: use the newer "
            "version",
            id="a newer version",
        ),
        pytest.param(
            Installation((), (deployment("main"),)),
            True,
            f'cannot determine whether the installed version is older than {__version__}: "main" is not a '
            "version: write major.minor.patch, such as 9.0.0",
            id="a version that is none",
        ),
        pytest.param(
            Installation(),
            True,
            "Modelplane is not installed there: omit --upgrade",
            id="nothing to upgrade",
        ),
        pytest.param(
            Installation((), (deployment(manager="Helm"),)),
            True,
            "Modelplane was installed by Helm: change the installation with the same tool",
            id="it is Helm's",
        ),
        pytest.param(
            Installation((definition(ownerReferences=[OWNER]),), (deployment(),)),
            True,
            CROSSPLANE,
            id="Crossplane owns the kinds",
        ),
        pytest.param(
            Installation((definition("v1"),), (deployment("0.0.9"),)),
            True,
            "objects can be stored as v1 of devicequotas.modelplane.ai, which this version does not support",
            id="objects are stored in a form that is gone",
        ),
    ],
)
def test_an_installation_is_changed_only_where_that_is_safe(existing, upgrade, refusal):
    with pytest.raises(UserError) if refusal else nullcontext() as refused:
        check_install(existing, upgrade=upgrade)
    assert str(refused.value if refused else "") == refusal


def test_an_installation_without_a_label_is_ours():
    item = deployment()
    del item["metadata"]["labels"]
    check_tool(Installation((), (item,)))


def test_objects_that_do_not_fit_are_listed_up_to_ten():
    problems = [f"object {number:02}" for number in range(12)]
    with pytest.raises(UserError) as refused:
        check_stored_objects(problems)
    first, *lines = str(refused.value).splitlines()
    assert first == f"objects are not valid in version {__version__}: change these first"
    assert lines == [f"  {each}" for each in (*problems[:10], "and 2 more")]
    check_stored_objects([])
