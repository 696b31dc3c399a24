import json
import tarfile

import pytest

from modelplane.crossplane.package.building import build, runtime_from
from modelplane.crossplane.package.metadata import Registry
from modelplane.crossplane.package.oci import Blobs
from modelplane.crossplane.package.oci_layout import open_image
from modelplane.crossplane.package.package_contents import configuration, function
from modelplane.user_error import UserError
from support.packages import VERSION, small_runtime


def test_what_was_built_is_told(tmp_path):
    built = build(function(), Registry("example.org/ai"), VERSION, tmp_path / "new" / "folder", small_runtime)
    assert (built.name, built.address) == ("modelplane-function", "example.org/ai/function")
    assert built.path == tmp_path / "new" / "folder" / "modelplane-function-1.2.3.xpkg"
    assert built.size == built.path.stat().st_size


def test_a_configuration_has_no_program(configuration_package, manifest, blob):
    document = manifest(configuration_package)
    config = json.loads(blob(configuration_package, document["config"]))["config"]
    assert (len(document["layers"]), set(config)) == (1, {"Labels"})


def test_a_runtime_may_be_an_image_in_a_file_or_a_folder(tmp_path, function_package):
    folder = tmp_path / "layout"
    with tarfile.open(function_package) as archive:
        archive.extractall(folder, filter="data")
    digests = set()
    for number, path in enumerate((function_package, folder)):
        built = build(function(), Registry(), VERSION, tmp_path / str(number), runtime_from(path))
        digests.add(built.digest)
        with open_image(built.path) as stored:
            stored.verify()
            assert len(stored.image.layers) == 3
            assert stored.image.config["Entrypoint"] == ["/app/run"]
            assert stored.image.config["Cmd"] == ["function"]
            assert stored.image.config["ExposedPorts"] == {"9443/tcp": {}}
    assert len(digests) == 1


def test_an_image_that_starts_nothing_is_no_runtime(tmp_path, configuration_package):
    with pytest.raises(UserError, match="no entrypoint takes the word"):
        runtime_from(configuration_package)(Blobs(tmp_path / "blobs"))


def test_a_damaged_image_is_no_runtime(tmp_path, function_package, rewritten, manifest):
    layer = manifest(function_package)["layers"][0]
    damaged = rewritten(function_package, {f"blobs/sha256/{layer['digest'][7:]}": b"short"})
    with pytest.raises(UserError, match="is damaged"):
        build(function(), Registry(), VERSION, tmp_path / "out", runtime_from(damaged))
    assert not (tmp_path / "out").exists()


def test_where_packages_are_published_is_in_the_configuration(tmp_path):
    first = build(configuration(Registry(), VERSION), Registry(), VERSION, tmp_path / "a")
    registry = Registry("example.org/ai")
    second = build(configuration(registry, VERSION), registry, VERSION, tmp_path / "b")
    assert first.digest != second.digest
