"""Pod templates of teams: no way to the node, to devices past their claims, or to the objects of others."""

import io
import json
from typing import Any

import pytest

from modelplane.offline.check.validation import validate
from modelplane.offline.files.sources import read
from support.pod_templates import ACCEPTED, REFUSED
from support.replicas import composed, engine, member, replica

BESIDE = {"name": "meter", "image": "registry.example.com/meter:1"}


def problems(spec: dict[str, Any]) -> list[str]:
    """Return what ``modelplane validate`` says of a deployment with a pod spec."""
    devices = {"devices": [{"name": "gpu", "selectors": [{"cel": "device.driver == 'gpu.nvidia.com'"}]}]}
    text = json.dumps(
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelDeployment",
            "metadata": {"name": "qwen", "namespace": "ml-team"},
            "spec": {
                "replicas": 1,
                "engines": [
                    {"name": "qwen", "members": [{"nodeSelector": devices, "template": {"spec": spec}}]}
                ],
            },
        }
    ).encode()
    return [str(problem) for problem in validate(read(["-"], lambda: io.BytesIO(text))).problems]


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED)
def test_what_an_author_may_write_is_valid(spec: dict[str, Any]) -> None:
    assert problems(spec) == []


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED)
def test_what_an_author_may_not_write_is_refused(spec: dict[str, Any], message: str) -> None:
    found = problems(spec)
    assert found
    if not message.startswith("must have at most"):
        assert message in "\n".join(found)


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_no_container_selects_devices_by_a_variable(field: str) -> None:
    own = member()
    spec = own["template"]["spec"]
    hostile = {**BESIDE, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    spec[field] = [*spec.get(field, ()), hostile]
    first, *_ = composed(replica(engine("qwen", own))).conditions
    assert first.reason == "PodNotAccepted"
    assert 'variable "NVIDIA_VISIBLE_DEVICES" of engine "qwen" would select devices' in first.message
