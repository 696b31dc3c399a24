"""Reports of pods, from a test in the kubelet's place."""

from contextlib import suppress

from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object


async def report(client: Client, pod: Object, *, ready: bool = True, phase: str = "Running") -> None:
    """Report a listed pod as ready or not; one that has been removed meanwhile needs no report."""
    about = pod["metadata"]
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    with suppress(errors.NotFound):
        await client.patch(
            resources.PODS,
            about["name"],
            {"status": status},
            about["namespace"],
            kind="strategic",
            subresource="status",
        )
