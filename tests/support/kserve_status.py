"""The status of an LLMInferenceService, as KServe's controller reports it."""

from collections.abc import Iterator
from typing import Any

SHIPPED = {
    "kserve-config-llm-template",
    "kserve-config-llm-worker-data-parallel",
    "kserve-config-llm-decode-template",
    "kserve-config-llm-decode-worker-data-parallel",
    "kserve-config-llm-prefill-template",
    "kserve-config-llm-prefill-worker-data-parallel",
}
"""The presets for engines that its charts have. There is none for pipelines."""


def presets(spec: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the presets that KServe merges under a spec."""
    parts = {"decode-" if "prefill" in spec else "": spec}
    if "prefill" in spec:
        parts["prefill-"] = spec["prefill"]
    for phase, part in parts.items():
        divided = part.get("parallelism", {})
        if "worker" not in part:
            yield f"kserve-config-llm-{phase}template"
        elif divided.get("data", 0) > 0 or divided.get("dataLocal", 0) > 0:
            yield f"kserve-config-llm-{phase}worker-data-parallel"
        elif divided.get("pipeline", 0) > 0:
            yield f"kserve-config-llm-{phase}worker-pipeline-parallel"


def missing_preset(spec: dict[str, Any]) -> str:
    """Return the first preset that a spec needs and no chart has; empty if there is none."""
    return next((each for each in presets(spec) if each not in SHIPPED), "")


def kserve_status(service: dict[str, Any], ready: int, reason: str = "Progressing") -> dict[str, Any]:
    """Return the status once so many copies of each workload are ready; ``reason`` is why they are not.

    Its conditions are Knative's: without a generation, with the worst of the parts in ``Ready``.
    """
    spec, name = service["spec"], service["metadata"]["name"]
    parts = {"primary": spec, **({"prefill": spec["prefill"]} if "prefill" in spec else {})}
    if missing := missing_preset(spec):
        return _refused(service, missing)
    complete = ready >= max(part["replicas"] for part in parts.values()) > 0
    types = {
        "PresetsCombined": True,
        "WorkerWorkloadReady" if "worker" in spec else "MainWorkloadReady": complete,
        **({"PrefillWorkloadReady": complete} if "prefill" in spec else {}),
        "WorkloadsReady": complete,
        "RouterReady": True,
        "Ready": complete,
    }
    return {
        "observedGeneration": service["metadata"].get("generation", 1),
        "conditions": [_condition(type_, holds, reason) for type_, holds in types.items()],
        "workloads": {
            part: _workload(name, part, "worker" in settings, ready) for part, settings in parts.items()
        },
        "addresses": [{"url": f"https://{name}-kserve-workload-svc.{service['metadata']['namespace']}"}],
    }


def _refused(service: dict[str, Any], preset: str) -> dict[str, Any]:
    """Return the status of one that lacks a preset: no workload is made, and ``Ready`` stays unknown."""
    told = f'LLMInferenceServiceConfig.serving.kserve.io "{preset}" not found'
    refused = _condition("PresetsCombined", holds=False, reason="ConfigNotFound") | {"message": told}
    unknown = _condition("Ready", holds=True, reason="") | {"status": "Unknown"}
    generation = service["metadata"].get("generation", 1)
    return {"observedGeneration": generation, "conditions": [refused, unknown]}


def _condition(type_: str, holds: bool, reason: str) -> dict[str, str]:
    told = {} if holds else {"reason": reason, "message": "Deployment does not have minimum availability."}
    return {
        "type": type_,
        "status": "True" if holds else "False",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **told,
    }


def _workload(name: str, part: str, grouped: bool, ready: int) -> dict[str, Any]:
    group, kind = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") if grouped else ("apps", "Deployment")
    suffix = ("-mn" if grouped else "") + ("-prefill" if part == "prefill" else "")
    return {"apiGroup": group, "kind": kind, "name": f"{name}-kserve{suffix}", "readyReplicas": ready}
