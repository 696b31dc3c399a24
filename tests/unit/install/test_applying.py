import pytest

from modelplane import __version__
from modelplane.install.applying import find_left_behind
from modelplane.install.existing_installation import Installation
from modelplane.install.installation_options import Options
from modelplane.install.manifests import build_manifests

WANTED = build_manifests(Options())


def found(kind, name, version="0.0.1", namespace="modelplane-system", api_version="v1"):
    labels = {"app.kubernetes.io/version": version}
    about = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": about}


OLD = found("Service", "modelplane-old")
CRDS = "apiextensions.k8s.io/v1"


@pytest.mark.parametrize(
    ("item", "removed"),
    [
        pytest.param(OLD, True, id="what only an earlier version had"),
        pytest.param(found("Service", "modelplane-gateway"), False, id="what this version has too"),
        pytest.param(
            found("Service", "modelplane-old", __version__),
            False,
            id="what this version has with other options",
        ),
        pytest.param(
            found("CustomResourceDefinition", "old.modelplane.ai", namespace="", api_version=CRDS),
            False,
            id="never a definition, with which every object of its kind would go",
        ),
        pytest.param(found("Namespace", "old", namespace=""), False, id="never a namespace"),
    ],
)
def test_only_what_another_version_left_is_removed(item, removed):
    assert find_left_behind(Installation((), (item,)), WANTED) == ((item,) if removed else ())


def test_what_has_no_version_is_not_removed():
    item = found("Service", "modelplane-old")
    del item["metadata"]["labels"]["app.kubernetes.io/version"]
    assert find_left_behind(Installation((), (item,)), WANTED) == ()
