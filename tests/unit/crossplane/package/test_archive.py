"""The rules of the OCI image specification 1.1, and of Docker archives, over a whole package."""

import gzip
import hashlib
import json
import tarfile

import pytest

from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.metadata import Registry
from modelplane.crossplane.package.package_contents import function
from support.packages import VERSION, small_runtime


def _digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_the_same_package_is_the_same_bytes(tmp_path):
    first, second = (
        build(function(), Registry(), VERSION, tmp_path / name, small_runtime) for name in ("a", "b")
    )
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.digest == second.digest


def test_another_version_is_another_package(tmp_path):
    first = build(function(), Registry(), VERSION, tmp_path, small_runtime)
    second = build(function(), Registry(), type(VERSION)("1.2.4"), tmp_path, small_runtime)
    assert first.digest != second.digest
    assert [first.path.name, second.path.name] == [
        "modelplane-function-1.2.3.xpkg",
        "modelplane-function-1.2.4.xpkg",
    ]


def test_nothing_of_this_machine_is_in_the_file(function_package):
    with tarfile.open(function_package) as archive:
        seen = {(each.mtime, each.uid, each.gid, each.uname, each.gname) for each in archive}
        names = [each.name for each in archive]
    assert seen == {(0, 0, 0, "", "")}
    assert names == ["oci-layout", "index.json", "manifest.json", *sorted(names[3:])]


def test_the_layout_has_its_version_and_one_image_under_the_name_that_podman_loads(function_package, members):
    found = members(function_package)
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(found["index.json"])
    [descriptor] = index.pop("manifests")
    assert index == {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}
    assert (descriptor["mediaType"], descriptor["platform"], descriptor["annotations"]) == (
        "application/vnd.oci.image.manifest.v1+json",
        {"architecture": "amd64", "os": "linux"},
        {"org.opencontainers.image.ref.name": "ghcr.io/modelplane/function:v1.2.3"},
    )


def test_every_blob_has_the_digest_and_the_size_that_its_descriptor_says(
    function_package, members, manifest, blob
):
    document = manifest(function_package)
    [top] = json.loads(members(function_package)["index.json"])["manifests"]
    descriptors = [top, document["config"], *document["layers"]]
    blobs = [blob(function_package, each) for each in descriptors]
    assert [(each["digest"], each["size"]) for each in descriptors] == [
        (_digest(data), len(data)) for data in blobs
    ]
    files = {name for name in members(function_package) if name.startswith("blobs/")}
    assert files == {f"blobs/sha256/{each['digest'][7:]}" for each in descriptors}


def test_media_types_are_those_of_the_specification(function_package, manifest):
    document = manifest(function_package)
    assert (document["schemaVersion"], document["mediaType"], document["config"]["mediaType"]) == (
        2,
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.config.v1+json",
    )
    assert {layer["mediaType"] for layer in document["layers"]} == {
        "application/vnd.oci.image.layer.v1.tar+gzip"
    }


def test_the_config_lists_the_digests_of_layers_before_compression(function_package, manifest, blob):
    document = manifest(function_package)
    config = json.loads(blob(function_package, document["config"]))
    assert config["rootfs"] == {
        "type": "layers",
        "diff_ids": [_digest(gzip.decompress(blob(function_package, layer))) for layer in document["layers"]],
    }
    assert (config["architecture"], config["os"]) == ("amd64", "linux")


def test_one_layer_is_annotated_and_a_label_keeps_the_annotation(function_package, manifest, blob):
    document = manifest(function_package)
    runtime, package = document["layers"]
    labels = json.loads(blob(function_package, document["config"]))["config"]["Labels"]
    assert ("annotations" in runtime, package["annotations"]) == (False, {"io.crossplane.xpkg": "base"})
    assert labels == {
        f"io.crossplane.xpkg:{package['digest']}": "base",
        "org.opencontainers.image.title": "modelplane-function",
        "org.opencontainers.image.version": "1.2.3",
    }


def test_it_is_a_docker_archive_of_the_same_blobs(function_package, members, manifest):
    document = manifest(function_package)
    assert json.loads(members(function_package)["manifest.json"]) == [
        {
            "Config": f"blobs/sha256/{document['config']['digest'][7:]}",
            "Layers": [f"blobs/sha256/{layer['digest'][7:]}" for layer in document["layers"]],
            "RepoTags": ["ghcr.io/modelplane/function:v1.2.3"],
        }
    ]


def test_a_failed_write_leaves_what_was_there(tmp_path, function_package, monkeypatch):
    before = function_package.read_bytes()

    def broken(_out, _entries):
        raise OSError("no space left on device")

    monkeypatch.setattr("modelplane.crossplane.package.oci.write_tar", broken)
    with pytest.raises(OSError, match="no space"):
        build(function(), Registry(), VERSION, tmp_path, small_runtime)
    assert (function_package.read_bytes(), list(tmp_path.iterdir())) == (before, [function_package])
