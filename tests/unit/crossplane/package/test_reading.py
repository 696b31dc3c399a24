"""What is not whole, not sound or not a package is refused with its reason."""

import gzip
import io
import json
import tarfile

import pytest

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.oci import this_platform
from modelplane.crossplane.package.images.reading import stored_image


def _refusal(path):
    with pytest.raises(PackageError) as refused, stored_image(path) as stored:
        stored.verify()
    return str(refused.value)


def test_a_package_is_sound(function_package):
    with stored_image(function_package) as stored:
        stored.verify()
        assert (len(stored.image.layers), stored.tag) == (2, "v1.2.3")


def test_a_folder_with_the_layout_is_read_as_the_file_is(function_package, tmp_path):
    with tarfile.open(function_package) as archive:
        archive.extractall(tmp_path / "layout", filter="data")
    with stored_image(function_package) as packed, stored_image(tmp_path / "layout") as unpacked:
        unpacked.verify()
        assert (unpacked.image, unpacked.manifest) == (packed.image, packed.manifest)


def test_a_docker_archive_alone_has_its_annotations_from_labels(function_package, rewritten):
    with stored_image(function_package) as whole:
        layers = whole.image.layers
    archive = rewritten(function_package, {"oci-layout": None, "index.json": None})
    with stored_image(archive) as stored:
        stored.verify()
        assert (stored.image.layers, stored.manifest, stored.tag) == (layers, "", "v1.2.3")


def test_layers_of_a_docker_archive_may_be_plain_tars(function_package, rewritten, manifest, blob):
    [runtime, package] = manifest(function_package)["layers"]
    plain = gzip.decompress(blob(function_package, runtime))
    archive = rewritten(
        function_package,
        {"oci-layout": None, "index.json": None, f"blobs/sha256/{runtime['digest'][7:]}": plain},
    )
    with stored_image(archive) as stored:
        stored.verify()
        assert [layer.blob.media_type.rpartition(".")[2] for layer in stored.image.layers] == [
            "tar",
            "tar+gzip",
        ]
        assert stored.image.layers[1].blob.digest == package["digest"]


def test_a_changed_layer_is_refused(function_package, rewritten, manifest, blob):
    layer = manifest(function_package)["layers"][0]
    data = bytearray(blob(function_package, layer))
    data[-1] ^= 1
    path = rewritten(function_package, {f"blobs/sha256/{layer['digest'][7:]}": bytes(data)})
    assert _refusal(path).startswith(f'"{path}" is damaged: layer 1 of 2 has the digest sha256:')


def test_a_shorter_layer_is_refused(function_package, rewritten, manifest):
    layer = manifest(function_package)["layers"][0]
    path = rewritten(function_package, {f"blobs/sha256/{layer['digest'][7:]}": b"short"})
    assert _refusal(path) == (
        f'"{path}" is damaged: layer 1 of 2 has 5 bytes instead of {layer["size"]}: fetch or build it again'
    )


def test_a_changed_config_is_refused(function_package, rewritten, manifest, blob):
    config = manifest(function_package)["config"]
    changed = blob(function_package, config).replace(b"65532", b"00000")
    path = rewritten(function_package, {f"blobs/sha256/{config['digest'][7:]}": changed})
    assert "has the digest" in _refusal(path)


def test_a_missing_blob_is_named(function_package, rewritten, manifest):
    name = f"blobs/sha256/{manifest(function_package)['layers'][1]['digest'][7:]}"
    path = rewritten(function_package, {name: None})
    assert _refusal(path) == f'"{path}" is damaged: {name} is missing: fetch or build it again'


def test_a_layer_that_unpacks_to_something_else_is_refused(function_package, rewritten, members):
    docker = json.loads(members(function_package)["manifest.json"])
    changes = {"oci-layout": None, "index.json": None, docker[0]["Layers"][0]: gzip.compress(b"other")}
    path = rewritten(function_package, changes)
    assert "layer 1 of 2 unpacks to sha256:" in _refusal(path)


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.7])
def test_a_file_that_is_cut_short_is_refused(function_package, kept):
    content = function_package.read_bytes()
    # What follows the last member is padding.
    whole = len(content.rstrip(b"\0"))
    function_package.write_bytes(content[: int(whole * kept)])
    assert _refusal(function_package).startswith(f'"{function_package}" is damaged: ')


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"kind: Pod\n", id="YAML"),
        pytest.param(b"", id="nothing"),
        pytest.param(gzip.compress(b"x" * 2048), id="a compressed file"),
    ],
)
def test_what_is_no_package_is_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert _refusal(path).startswith(f'"{path}" is not a package: it is neither')


def test_a_tar_of_something_else_is_no_package(tmp_path):
    path = tmp_path / "file.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("readme"), io.BytesIO())
    assert "is not a package" in _refusal(path)


def _index(*platforms):
    manifests = [
        {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": f"sha256:{'0' * 64}",
            "size": 1,
            "platform": dict(zip(("os", "architecture"), platform.split("/"), strict=True)),
        }
        for platform in platforms
    ]
    return json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()


def test_of_images_for_other_machines_none_is_taken(function_package, rewritten):
    path = rewritten(
        function_package, {"index.json": _index("linux/s390x", "linux/ppc64le", "unknown/unknown")}
    )
    assert _refusal(path) == (
        f'cannot tell which image of "{path}" is meant: it has 2 of them, for linux/ppc64le, linux/s390x: '
        f"keep one, or one for {this_platform()}"
    )


def test_of_several_images_that_for_this_machine_is_taken(function_package, rewritten, members):
    found = json.loads(members(function_package)["index.json"])
    here = this_platform()
    found["manifests"][0]["platform"] = {"os": here.os, "architecture": here.architecture}
    others = json.loads(_index("linux/s390x"))["manifests"]
    path = rewritten(
        function_package,
        {"index.json": json.dumps(found | {"manifests": others + found["manifests"]}).encode()},
    )
    with stored_image(path) as stored:
        assert stored.tag == "v1.2.3"


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        pytest.param(b"{", "index.json is not JSON", id="no JSON"),
        pytest.param(b"[]", "index.json is not as it should be", id="a list"),
        pytest.param(
            b'{"manifests": [{}]}', "index.json is not as it should be: KeyError: 'digest'", id="no digest"
        ),
        pytest.param(
            b'{"manifests": [{"mediaType": "x", "size": 1, "digest": "sha256:../../etc"}]}',
            "is no digest by SHA-256",
            id="a digest that is a path",
        ),
    ],
)
def test_an_index_that_makes_no_sense_is_refused(function_package, rewritten, index, reason):
    assert reason in _refusal(rewritten(function_package, {"index.json": index}))
