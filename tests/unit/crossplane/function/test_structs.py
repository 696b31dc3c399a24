"""Structs and objects, and which of them are decoded."""

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from modelplane.api.schema.decode import InvalidObject
from modelplane.crossplane.function.structs import (
    Decoder,
    kind_in,
    look_of,
    metadata_of,
    to_object,
    without_status,
)


def _struct(item: dict[str, Any]) -> Struct:
    struct = Struct()
    struct.update(item)
    return struct


def _bytes(item: dict[str, Any]) -> bytes:
    return _struct(item).SerializeToString()


def test_an_object_survives_both_ways() -> None:
    item = {"a": 1, "b": 1.5, "c": "x", "d": True, "e": None, "f": {"g": [1, {"h": "i"}, []]}, "j": 8192.0}
    assert to_object(_struct(item)) == item


def test_whole_numbers_are_integers_and_senseless_ones_stay() -> None:
    struct = _struct({"whole": 3.0, "infinite": float("inf")})
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


def _nested(levels: int) -> dict[str, Any]:
    item: dict[str, Any] = {"leaf": 1}
    for number in range(levels):
        item = {"list": [item, 2.0]} if number % 3 == 0 else {"map": item, "none": None}
    return item


@pytest.mark.parametrize("levels", [10, 34, 60])
def test_what_is_deeper_than_the_library_reads_is_read(levels: int) -> None:
    item = {"kind": "K", "metadata": {"name": "n"}, "status": _nested(levels)}
    assert Decoder(managed_fields=True)(_bytes(item)) == item


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        pytest.param(b"\xff\xff", 'object "": it is not a Struct', id="no message"),
        pytest.param(
            _bytes({"kind": "K", "metadata": {"name": "n", "namespace": "s"}}) + _deep(200),
            'K "s/n": it is nested more than 100 levels deep',
            id="nested without end",
        ),
        pytest.param(
            _bytes({"kind": "K", "metadata": {"name": "n"}}) + b"\x0a\x08\x0a\x01s\x12\x03\x1a\x01\xff",
            'K "n": a part of it is not a Value',
            id="a text that is none",
        ),
    ],
)
def test_what_cannot_be_read_is_said(encoded: bytes, message: str) -> None:
    with pytest.raises(InvalidObject, match=f"^cannot read {message}$"):
        Decoder(managed_fields=True)(encoded)


def test_the_metadata_of_a_deep_object_can_be_read() -> None:
    shallow = _bytes({"kind": "K", "metadata": {"name": "n", "managedFields": [_nested(60)]}})
    assert metadata_of(shallow + _deep(200)) == {"kind": "K", "metadata": {"name": "n"}}


def test_of_a_definition_that_was_looked_at_only_the_metadata_is_read() -> None:
    found = {"kind": "CustomResourceDefinition", "metadata": {"name": "n", "managedFields": [1]}}
    conditions = [{"type": "Synced", "status": "True"}]
    item = {"kind": "Object", "metadata": {"name": "o", "managedFields": [2]}, "spec": {"a": [1]}}

    def looked(manifest: Any) -> Any:
        status = {"atProvider": {"manifest": manifest}, "conditions": conditions}
        read = look_of(_bytes({**item, "status": status}))
        assert read == {**item, "status": {**status, "atProvider": read["status"]["atProvider"]}}
        return read["status"]["atProvider"]["manifest"]

    seen = {"kind": "CustomResourceDefinition", "metadata": {"name": "n"}}
    assert looked({**found, "spec": _nested(150)}) == seen
    gateway = {"kind": "Gateway", "metadata": {"name": "g"}, "spec": _nested(40)}
    assert looked(gateway) == gateway
    assert looked(7) == 7


def test_an_object_can_be_read_but_for_its_status() -> None:
    item = {"kind": "K", "spec": _nested(40)}
    assert without_status(_bytes({**item, "status": _nested(150)})) == item
    with pytest.raises(InvalidObject, match="nested more than 100 levels"):
        without_status(_bytes({**item, "spec": _nested(150)}))


@pytest.mark.parametrize(
    ("encoded", "kind"),
    [
        pytest.param(_bytes({"kind": "K", "spec": _nested(150)}), "K", id="whatever else there is"),
        pytest.param(_bytes({"metadata": {}}), "", id="none"),
        pytest.param(b"\xff\xff", "", id="no message"),
    ],
)
def test_the_kind_of_an_object_is_what_it_says(encoded: bytes, kind: str) -> None:
    assert kind_in(encoded) == kind
