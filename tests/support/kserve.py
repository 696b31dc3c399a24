"""KServe's controller, as far as Modelplane sees it: a stand-in beside a real API server.

For each LLMInferenceService it makes the Deployments and the Service, with the labels, owners and finalizer
of the real one, and reports their readiness. It makes nothing of one that needs a preset that no chart has.
Source: KServe v0.20.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import DEPLOYMENTS, Resource
from support.kserve_status import kserve_status, missing_preset

SERVICES = Resource("serving.kserve.io", "v1alpha2", "LLMInferenceService", "llminferenceservices")
FINALIZER = "serving.kserve.io/llmisvc-finalizer"
_PART = {"app.kubernetes.io/part-of": "llminferenceservice"}


class KServe:
    """The stand-in in one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.works = True
        """False while the controller is not there."""

    async def run(self) -> None:
        """Reconcile every LLMInferenceService again and again, until it is cancelled."""
        while True:
            with suppress(errors.ApiError):  # an object that changed meanwhile is read again
                if self.works:
                    for each in (await self._client.list(SERVICES, self._namespace)).items:
                        await self._reconcile(each)
            await asyncio.sleep(0.05)

    async def _reconcile(self, service: dict[str, Any]) -> None:
        metadata = service["metadata"]
        name, finalizers = metadata["name"], metadata.get("finalizers", [])
        if "deletionTimestamp" in metadata:
            left = [each for each in finalizers if each != FINALIZER]
            await self._patch(name, {"metadata": {"finalizers": left}})
            return
        if FINALIZER not in finalizers:
            await self._patch(name, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
        if missing_preset(service["spec"]):
            await self._report(service, 0)
            return
        ready = []
        for manifest in _deployments(service):
            await self._client.apply(manifest)
            found = await self._client.get(DEPLOYMENTS, manifest["metadata"]["name"], self._namespace)
            ready.append(int((found or {}).get("status", {}).get("readyReplicas", 0)))
        await self._client.apply(_workload_service(service))
        await self._report(service, min(ready))

    async def _report(self, service: dict[str, Any], ready: int) -> None:
        status = kserve_status(service, ready)
        if status != service.get("status"):
            await self._patch(service["metadata"]["name"], {"status": status}, "status")

    async def _patch(self, name: str, body: dict[str, Any], subresource: str = "") -> None:
        await self._client.patch(SERVICES, name, body, self._namespace, subresource=subresource)


def _deployments(service: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the Deployment of each phase: its pods have the labels of KServe and those of the spec."""
    name, spec = service["metadata"]["name"], service["spec"]
    parts = {"-kserve": ("both" if "prefill" not in spec else "decode", spec)}
    if "prefill" in spec:
        parts["-kserve-prefill"] = ("prefill", spec["prefill"])
    for suffix, (role, part) in parts.items():
        own = {
            "app.kubernetes.io/component": "llminferenceservice-workload",
            "app.kubernetes.io/name": name,
            **_PART,
            "kserve.io/component": "workload",
            "llm-d.ai/role": role,
        }
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _metadata(service, name + suffix),
            "spec": {
                "replicas": part["replicas"],
                "selector": {"matchLabels": own},
                "template": {
                    "metadata": {"labels": {**own, **part.get("labels", {})}},
                    "spec": part["template"],
                },
            },
        }


def _workload_service(service: dict[str, Any]) -> dict[str, Any]:
    name = service["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(service, f"{name}-kserve-workload-svc"),
        "spec": {
            "selector": {**_PART, "app.kubernetes.io/name": name, "kserve.io/component": "workload"},
            "ports": [{"name": "https", "port": 8000, "targetPort": 8000}],
        },
    }


def _metadata(service: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = service["metadata"]
    owner = {"apiVersion": SERVICES.api_version, "kind": SERVICES.kind, "name": metadata["name"]}
    return {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {"app.kubernetes.io/name": metadata["name"], **_PART},
        "ownerReferences": [
            {**owner, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
        ],
    }
