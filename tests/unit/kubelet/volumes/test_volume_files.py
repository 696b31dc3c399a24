import base64
from typing import Any

import pytest

from modelplane.kubelet.runtime.container_environment import References, Sources
from modelplane.kubelet.volumes import volume_files
from modelplane.kubelet.volumes.volume_files import File
from support.rejections import message_of

POD = {
    "metadata": {
        "name": "qwen-0",
        "namespace": "ml-team",
        "uid": "u-1",
        "labels": {"b": 'say "x"', "a": "1"},
    },
    "spec": {},
}
SOURCES = Sources(
    secrets={"hub": {"data": {"token": base64.b64encode(b"hf_x").decode()}}},
    config_maps={"settings": {"data": {"a": "1"}, "binaryData": {"b": "/w=="}}},
)


def volume(**source: Any) -> dict[str, Any]:
    return {"name": "v"} | source


@pytest.mark.parametrize(
    ("described", "files"),
    [
        pytest.param(
            volume(configMap={"name": "settings"}),
            {"a": File(b"1", 0o600), "b": File(b"\xff", 0o600)},
            id="every key of a ConfigMap, binary ones too",
        ),
        pytest.param(
            volume(configMap={"name": "settings", "defaultMode": 0o755}),
            {"a": File(b"1", 0o700), "b": File(b"\xff", 0o700)},
            id="a mode is the owner's part of it",
        ),
        pytest.param(
            volume(
                secret={"secretName": "hub", "items": [{"key": "token", "path": "deep/t", "mode": 0o440}]}
            ),
            {"deep/t": File(b"hf_x", 0o400)},
            id="a key of a Secret under a name and a mode of its own",
        ),
        pytest.param(
            volume(secret={"secretName": "absent", "optional": True}),
            {},
            id="an optional Secret that is absent",
        ),
        pytest.param(
            volume(configMap={"name": "settings", "optional": True, "items": [{"key": "z", "path": "z"}]}),
            {},
            id="an optional key that is absent",
        ),
        pytest.param(
            volume(
                downwardAPI={
                    "items": [
                        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                        {"path": "one", "fieldRef": {"fieldPath": "metadata.labels['a']"}},
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
                    ]
                }
            ),
            {
                "name": File(b"qwen-0", 0o600),
                "one": File(b"1", 0o600),
                "labels": File(b'a="1"\nb="say \\"x\\""', 0o600),
                "annotations": File(b"", 0o600),
            },
            id="what a pod is told of itself",
        ),
        pytest.param(
            volume(
                projected={
                    "defaultMode": 0o400,
                    "sources": [
                        {"secret": {"name": "hub"}},
                        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "token"}]}},
                    ],
                }
            ),
            {"token": File(b"1", 0o400)},
            id="of projected sources, the later one's file",
        ),
    ],
)
def test_the_files_of_a_volume(described: dict[str, Any], files: dict[str, File]) -> None:
    assert volume_files.build_files(described, POD, SOURCES) == files


@pytest.mark.parametrize(
    ("described", "message"),
    [
        pytest.param(
            volume(secret={"secretName": "absent"}),
            'cannot fill volume "v": Secret "absent" does not exist: create it, or mark it optional',
            id="an object that is absent",
        ),
        pytest.param(
            volume(configMap={"name": "settings", "items": [{"key": "z", "path": "z"}]}),
            'cannot fill volume "v": ConfigMap "settings" has no key "z": add it, or mark the volume '
            "optional",
            id="a key that is absent",
        ),
        pytest.param(
            volume(downwardAPI={"items": [{"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}}]}),
            'cannot fill volume "v": "cpu" is not from a field of the pod: use a fieldRef',
            id="a limit of a container",
        ),
    ],
)
def test_what_cannot_be_had_is_named(described: dict[str, Any], message: str) -> None:
    assert message_of(volume_files.build_files(described, POD, SOURCES)) == message


def test_what_has_to_be_fetched() -> None:
    sources = [{"secret": {"name": "projected"}}, {"configMap": {"name": "also"}}]
    described = [
        volume(secret={"secretName": "hub"}),
        volume(configMap={"name": "settings"}),
        volume(projected={"sources": sources}),
        volume(emptyDir={}),
    ]
    wanted = References(frozenset({"hub", "projected"}), frozenset({"settings", "also"}))
    assert volume_files.list_references(described) == wanted
