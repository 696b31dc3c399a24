import gzip
import hashlib
import io
import json
import tarfile

import pytest

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.inspection import inspect
from modelplane.crossplane.package.metadata import Dependency, PackageKind


def test_a_configuration_is_told_with_its_objects_and_dependencies(configuration_package):
    found = inspect(configuration_package)
    assert (found.kind, found.name, found.version, found.tag, found.runs) == (
        "Configuration",
        "modelplane",
        "1.2.3",
        "v1.2.3",
        False,
    )
    assert found.dependencies[0] == Dependency(
        PackageKind.FUNCTION, "ghcr.io/modelplane/function", ">=v1.2.3, <v1.3.0"
    )
    assert found.objects[0] == ("ManagedResourceActivationPolicy", "modelplane")
    assert ("Composition", "modelreplicas.modelplane.ai") in found.objects


def test_a_function_is_told_with_how_it_is_started(function_package):
    document = inspect(function_package).json()
    assert (document["kind"], document["platform"], document["config"]["User"]) == (
        "Function",
        "linux/amd64",
        "65532",
    )
    assert [layer.get("annotations") for layer in document["layers"]] == [
        None,
        {"io.crossplane.xpkg": "base"},
    ]
    json.dumps(document)


def _docker_archive(path, package_yaml, *, labelled=False):
    """Write a Docker archive of one layer, as other tools write packages."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as layer:
        if package_yaml is not None:
            header = tarfile.TarInfo("package.yaml")
            header.size = len(package_yaml)
            layer.addfile(header, io.BytesIO(package_yaml))
    compressed = gzip.compress(inner.getvalue())
    digest = f"sha256:{hashlib.sha256(compressed).hexdigest()}"
    labels = {f"io.crossplane.xpkg:{digest}": "base"} if labelled else None
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(inner.getvalue()).hexdigest()}"]},
    }
    files = {
        "config": json.dumps(config).encode(),
        "1.tar.gz": compressed,
        "manifest.json": json.dumps(
            [{"Config": "config", "RepoTags": None, "Layers": ["1.tar.gz"]}]
        ).encode(),
    }
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return path


OLD_FASHIONED = b"""
apiVersion: meta.pkg.crossplane.io/v1alpha1
kind: Configuration
metadata: {name: theirs}
spec: {dependsOn: [{provider: example.org/p, version: "1"}]}
"""


@pytest.mark.parametrize("labelled", [True, False], ids=["with a label", "without a label"])
def test_a_package_of_another_tool_is_read(tmp_path, labelled):
    found = inspect(_docker_archive(tmp_path / "x", OLD_FASHIONED, labelled=labelled))
    assert (found.name, found.version, found.tag, found.crossplane) == ("theirs", "", "", "")
    assert found.dependencies == (Dependency(PackageKind.PROVIDER, "example.org/p", "1"),)


@pytest.mark.parametrize(
    ("package_yaml", "reason"),
    [
        pytest.param(None, "is an image and not a package: no layer has package.yaml", id="no package.yaml"),
        pytest.param(b"", "has 0 objects of meta.pkg.crossplane.io", id="an empty one"),
        pytest.param(OLD_FASHIONED + b"---" + OLD_FASHIONED, "has 2 objects of", id="two descriptions"),
        pytest.param(b"a: [", "is not YAML", id="no YAML"),
        pytest.param(b"- a", "has a document that is no object", id="a list"),
        pytest.param(
            OLD_FASHIONED.replace(b"kind: Configuration", b"kind: Other"),
            "is not as it should be",
            id="another kind",
        ),
        pytest.param(OLD_FASHIONED + b"---\nkind: X", "KeyError: 'metadata'", id="an object without a name"),
    ],
)
def test_an_image_whose_package_makes_no_sense_is_refused(tmp_path, package_yaml, reason):
    path = _docker_archive(tmp_path / "x", package_yaml)
    with pytest.raises(PackageError) as refused:
        inspect(path)
    assert reason in str(refused.value)
