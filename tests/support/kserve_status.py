"""The status of an LLMInferenceService, as KServe's controller reports it."""

from typing import Any


def kserve_status(service: dict[str, Any], ready: int, reason: str = "Progressing") -> dict[str, Any]:
    """Return the status once so many copies of each workload are ready; ``reason`` is why they are not.

    Its conditions are Knative's: without a generation, with the worst of the parts in ``Ready``.
    """
    spec, name = service["spec"], service["metadata"]["name"]
    parts = {"primary": spec, **({"prefill": spec["prefill"]} if "prefill" in spec else {})}
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
