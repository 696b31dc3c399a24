from collections.abc import Callable
from typing import Any

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest, to_object

Ask = Callable[..., fnv1.RunFunctionResponse]

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "x",
        "ownerReferences": [
            {
                "apiVersion": "apiextensions.crossplane.io/v2",
                "kind": "CompositeResourceDefinition",
                "name": "x",
                "controller": True,
            }
        ],
    },
}

_READ: dict[str, list[dict[str, Any]]] = {"definition": [DEFINITION], "revision": [], "kubeconfig": []}
"""What Crossplane has fetched beside what a test gives."""


@pytest.fixture
def ask() -> Ask:
    """Ask a runner, the same for one test, as Crossplane would."""
    runner = Runner()

    def run(
        owner: dict[str, Any],
        required: dict[str, list[dict[str, Any]]] | None = None,
        observed: dict[str, dict[str, Any]] | None = None,
    ) -> fnv1.RunFunctionResponse:
        request = fnv1.RunFunctionRequest()
        request.meta.tag = "tag"
        request.observed.composite.resource.update(owner)
        for key, item in (observed or {}).items():
            request.observed.resources[key].resource.update(item)
        if required is not None:
            for key, items in (_READ | required).items():
                request.required_resources[key].SetInParent()
                for item in items:
                    request.required_resources[key].items.add().resource.update(item)
        return runner.run(RunFunctionRequest.FromString(request.SerializeToString()))

    return run


def children(response: fnv1.RunFunctionResponse) -> dict[str, Any]:
    return {key: to_object(child.resource) for key, child in response.desired.resources.items()}


def conditions(response: fnv1.RunFunctionResponse) -> dict[str, tuple[str, str, str]]:
    names = fnv1.Status.Name
    return {
        each.type: (names(each.status).removeprefix("STATUS_CONDITION_"), each.reason, each.message)
        for each in response.conditions
    }


def fatal(response: fnv1.RunFunctionResponse) -> list[str]:
    return [each.message for each in response.results if each.severity == fnv1.SEVERITY_FATAL]
