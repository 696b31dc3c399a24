"""An image that is incomplete, damaged or of another format is refused with the reason."""

import gzip
import io
import json
import tarfile
from dataclasses import replace
from typing import IO, cast

import pytest

from modelplane.crossplane.package import oci
from modelplane.crossplane.package.oci import Blobs, Layer, MediaType, this_platform
from modelplane.crossplane.package.oci_layout import open_image
from modelplane.user_error import UserError
from support.packages import small_runtime


def _refusal(path):
    with pytest.raises(UserError) as refused, open_image(path) as stored:
        stored.verify()
    return str(refused.value)


def test_a_package_is_sound(function_package):
    with open_image(function_package) as stored:
        stored.verify()
        assert len(stored.image.layers) == 2


def test_a_folder_with_the_layout_is_read_as_the_file_is(function_package, tmp_path):
    with tarfile.open(function_package) as archive:
        archive.extractall(tmp_path / "layout", filter="data")
    with open_image(function_package) as packed, open_image(tmp_path / "layout") as unpacked:
        unpacked.verify()
        assert unpacked.image == packed.image


def test_a_docker_archive_is_refused_with_the_commands_that_write_a_layout(function_package, rewritten):
    archive = rewritten(function_package, {"oci-layout": None, "index.json": None})
    assert _refusal(archive) == (
        f'"{archive}" is not an image: it is not an OCI image layout, a folder or an uncompressed tar file: '
        "write it with `podman save --format oci-archive`, or with `docker save` of Docker 25 or later"
    )


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


def test_a_layer_that_unpacks_to_something_else_is_refused(tmp_path):
    blobs = Blobs(tmp_path / "blobs")
    image = small_runtime(blobs)
    [layer] = image.layers
    changed = replace(image, layers=(replace(layer, diff_id=f"sha256:{'0' * 64}"),))
    path = tmp_path / "image"
    oci.write(path, changed, blobs, "example.org/image", "v1")
    assert "layer 1 of 1 unpacks to sha256:" in _refusal(path)


def test_a_layer_may_be_a_plain_tar(tmp_path):
    blobs = Blobs(tmp_path / "blobs")
    image = small_runtime(blobs)
    [layer] = image.layers
    with gzip.open(blobs.path(layer.blob.digest)) as content:
        plain = blobs.add_stream(cast("IO[bytes]", content), MediaType.TAR)
    path = tmp_path / "image"
    oci.write(path, replace(image, layers=(Layer(plain, layer.diff_id),)), blobs, "example.org/image", "v1")
    with open_image(path) as stored:
        stored.verify()
        assert stored.image.layers == (Layer(plain, layer.diff_id),)


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
def test_a_file_of_another_format_is_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert _refusal(path).startswith(f'"{path}" is not an image: ')


def test_a_tar_of_other_files_is_refused(tmp_path):
    path = tmp_path / "file.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("readme"), io.BytesIO())
    assert "is not an image" in _refusal(path)


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
    with open_image(path) as stored, open_image(function_package) as alone:
        assert stored.image == alone.image


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
            "is not a SHA-256 digest",
            id="a digest that is a path",
        ),
    ],
)
def test_an_index_that_makes_no_sense_is_refused(function_package, rewritten, index, reason):
    assert reason in _refusal(rewritten(function_package, {"index.json": index}))
