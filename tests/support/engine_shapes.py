"""Deployments of every shape that adds containers: each connector, and containers beside the engine."""

import copy
from collections.abc import Mapping
from typing import Any

VLLM = "vllm/vllm-openai:v0.23.0"
SGLANG = "lmsysorg/sglang:v0.5.23"
_BESIDE = "registry.example.com/meter:1.4"

_ENGINES: Mapping[str, dict[str, Any]] = {
    "NIXL": {"image": VLLM, "args": ["--model=Qwen/Qwen3-8B"]},
    "LMCache": {
        "image": VLLM,
        "args": ["--model=Qwen/Qwen3-8B"],
        "env": [{"name": "LMCACHE_REMOTE_URL", "value": "redis://lmcache.ml-team.svc:6379"}],
    },
    "Mooncake": {"image": VLLM, "args": ["--model=Qwen/Qwen3-8B"]},
    "SGLang": {
        "image": SGLANG,
        "command": ["python3", "-m", "sglang.launch_server"],
        "args": ["--model-path=Qwen/Qwen3-8B", "--host=0.0.0.0"],
    },
}
_POD = {
    "initContainers": [
        {"name": "prepare", "image": _BESIDE, "command": ["true"]},
        {"name": "proxy", "image": _BESIDE, "restartPolicy": "Always"},
    ],
    "containers": [
        {"name": "engine", "image": VLLM, "args": ["--model=Qwen/Qwen3-8B"]},
        {"name": "meter", "image": _BESIDE, "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
    ],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
}


def _divided(connector: str, device: Mapping[str, Any]) -> dict[str, Any]:
    # Port 8000 of a decode pod is used by the routing sidecar; Modelplane sets that of vLLM.
    ports = {"Prefill": "--port=8000", "Decode": "--port=8001"} if connector == "SGLang" else {}
    engines = []
    for phase in ("Prefill", "Decode"):
        engine = copy.deepcopy({"name": "engine", **_ENGINES[connector]})
        engine["args"] += [ports[phase]] if ports else []
        members = [_member({"containers": [engine]}, device)]
        engines.append({"name": phase.lower(), "phase": phase, "members": members})
    return {"serving": {"mode": "PrefillDecode", "connector": connector}, "engines": engines}


def _member(pod: Mapping[str, Any], device: Mapping[str, Any]) -> dict[str, Any]:
    return {"nodeSelector": {"devices": [device]}, "template": {"spec": copy.deepcopy(pod)}}


def shapes(device: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of each deployment's spec by the name of its shape; each engine claims a device."""
    return {connector: _divided(connector, device) for connector in _ENGINES} | {
        "containers beside the engine": {"engines": [{"name": "whole", "members": [_member(_POD, device)]}]}
    }


def edited(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec whose engines have another flag, as after an author's edit."""
    changed = copy.deepcopy(dict(spec))
    for engine in changed["engines"]:
        for container in engine["members"][0]["template"]["spec"]["containers"]:
            if container["name"] == "engine":
                container["args"].append("--served-model-name=edited")
    return changed


WORDS: Mapping[str, tuple[str, ...]] = {
    "NIXL": ("NixlConnector", "--kv-connector=nixlv2"),
    "LMCache": ("LMCacheConnectorV1", "--kv-connector=shared-storage"),
    "Mooncake": ("MooncakeConnector", "--kv-connector=mooncake"),
    "SGLang": ("--disaggregation-mode=prefill", "--disaggregation-mode=decode", "--kv-connector=sglang"),
    "containers beside the engine": ("'prepare'", "'proxy'", "'meter'"),
}
"""Words of the pods that each shape is composed to."""
