"""Structs and objects, and which of them are decoded."""

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from modelplane.api.decode import InvalidObject
from modelplane.function.structs import Decoder, metadata_of, to_object, to_struct


def _bytes(item: dict[str, Any]) -> bytes:
    return to_struct(item).SerializeToString()


def test_an_object_survives_both_ways() -> None:
    item = {"a": 1, "b": 1.5, "c": "x", "d": True, "e": None, "f": {"g": [1, {"h": "i"}, []]}, "j": 8192.0}
    assert to_object(to_struct(item)) == item


def test_whole_numbers_are_integers_and_senseless_ones_stay() -> None:
    struct = Struct()
    struct.update({"whole": 3.0, "infinite": float("inf")})
    assert to_object(struct) == {"whole": 3, "infinite": float("inf")}
    assert isinstance(to_object(struct)["whole"], int)


OURS = {"apiVersion": "modelplane.ai/v1alpha1"}


def _version(number: int) -> bytes:
    return _bytes({**OURS, "metadata": {"uid": "u", "resourceVersion": str(number)}, "spec": number})


def test_the_same_version_is_decoded_once() -> None:
    decode = Decoder(managed_fields=True)
    first = decode(_version(1))
    assert decode(_version(1)) is first
    assert decode(_version(2))["spec"] == 2
    assert (decode.decoded(), decode.decoded(), len(decode)) == (2, 0, 1)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"uid": "u"}, id="no version"),
        pytest.param({"resourceVersion": "1"}, id="no uid"),
        pytest.param({"uid": 3, "resourceVersion": {}}, id="neither is a word"),
    ],
)
def test_an_object_of_no_version_is_not_remembered(metadata: dict[str, Any]) -> None:
    decode = Decoder(managed_fields=True)
    assert decode(_bytes({**OURS, "metadata": metadata, "a": 1}))["a"] == 1
    assert decode(_bytes({**OURS, "metadata": metadata, "a": 2}))["a"] == 2


def test_an_object_of_others_is_not_remembered() -> None:
    decode = Decoder(managed_fields=True)
    decode(_bytes({"apiVersion": "v1", "metadata": {"uid": "u", "resourceVersion": "1"}}))
    assert len(decode) == 0


def test_managed_fields_are_left_out_where_nobody_reads_them() -> None:
    item = _bytes({"metadata": {"uid": "u", "resourceVersion": "1", "managedFields": [{"manager": "m"}]}})
    assert Decoder(managed_fields=False)(item) == {"metadata": {"uid": "u", "resourceVersion": "1"}}
    assert "managedFields" in Decoder(managed_fields=True)(item)["metadata"]


def _deep(levels: int) -> bytes:
    item: dict[str, Any] = {}
    for _ in range(levels):
        item = {"a": item}
    encoded = b""
    for _ in range(levels):  # by hand, because the library does not write what it does not read
        value = b"\x2a" + _varint(len(encoded)) + encoded
        entry = b"\x0a\x01a\x12" + _varint(len(value)) + value
        encoded = b"\x0a" + _varint(len(entry)) + entry
    return encoded


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


@pytest.mark.parametrize("encoded", [b"\xff\xff", _deep(200)], ids=["no message", "nested too deeply"])
def test_what_cannot_be_read_is_said(encoded: bytes) -> None:
    with pytest.raises(InvalidObject, match="it is no Struct, or one that is nested too deeply"):
        Decoder(managed_fields=True)(encoded)


def test_the_metadata_of_a_deep_object_can_be_read() -> None:
    shallow = _bytes({"kind": "K", "metadata": {"name": "n"}})
    entry = _deep(200)
    assert metadata_of(shallow + entry) == {"kind": "K", "metadata": {"name": "n"}}
