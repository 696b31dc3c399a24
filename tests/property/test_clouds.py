"""A cloud's cluster loses no resource, whatever is seen of it and of what it requires, in any order."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from hypothesis import given, settings, strategies as st

from modelplane.api.schema.decode import decode_as
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Blocked, Desired, Request, Unknown
from modelplane.compose.kinds import COMPOSERS
from modelplane.crossplane.function.companions import IN_USE
from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest, to_object
from support.goldens import GOLDENS

FOLDERS = ("inference_cluster", *(recipe.type.__module__.rpartition(".")[2] for recipe in RECIPES.values()))
CASES = [
    name
    for folder in FOLDERS
    for name in GOLDENS.names(folder)
    if "'source': 'Existing'" not in str(GOLDENS.input(name))
]
STATUSES: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"conditions": None},
    {"conditions": [{"type": "Ready", "status": "False", "reason": "Deleting"}]},
    {"conditions": [{"type": "Synced", "status": "False", "message": "quota exceeded"}]},
    {"conditions": [{"type": "Ready", "status": "True"}], "atProvider": None},
    {"conditions": [{"type": "Ready", "status": "True"}], "atProvider": {"member": "m", "id": "i-1"}},
)
"""What may be seen of a child; None is an object that a reader has lost sight of."""


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_nothing_once_composed_is_withdrawn(name: str, data: st.DataObject) -> None:
    case = GOLDENS.input(name)
    composer = COMPOSERS[case["owner"]["kind"]]
    owner = decode_as(composer.type, case["owner"])
    keys = [each.key for each in composer.requirements(owner)]
    existing: dict[str, Any] = copy.deepcopy(case.get("observed", {}))
    for _ in range(6):
        observed = {}
        for key, child in existing.items():
            status = data.draw(st.sampled_from(STATUSES))
            if status is not None:
                observed[key] = {**child, "status": status}
        required: dict[str, Any] = {}
        for key in keys:
            usual = tuple(case.get("required", {}).get(key, ()))
            required[key] = data.draw(st.sampled_from([usual, usual, (), Unknown("the server is down")]))
        composition = composer.compose(Request(owner, observed, required, composer.facts()))
        if isinstance(composition, Blocked):
            continue
        assert set(observed) - {child.key for child in composition.children} == set()
        existing |= {
            child.key: child.manifest for child in composition.children if isinstance(child, Desired)
        }


def _answer(
    owner: Any, observed: dict[str, Any], found: Callable[[str], Iterable[Any]]
) -> fnv1.RunFunctionResponse:
    """Return the function's answer once it asks for nothing new, as Crossplane takes it."""
    request = fnv1.RunFunctionRequest()
    request.observed.composite.resource.update(owner)
    for key, child in observed.items():
        request.observed.resources[key].resource.update(child)
    while True:
        answer = Runner().run(RunFunctionRequest.FromString(request.SerializeToString()))
        if set(answer.requirements.resources) == set(request.required_resources):
            return answer
        for key in set(answer.requirements.resources) - set(request.required_resources):
            request.required_resources[key].SetInParent()
            for item in found(key):
                request.required_resources[key].items.add().resource.update(item)
        for key in set(request.required_resources) - set(answer.requirements.resources):
            del request.required_resources[key]


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_the_function_withdraws_nothing_that_it_once_answered(name: str, data: st.DataObject) -> None:
    case = GOLDENS.input(name)
    existing: dict[str, Any] = copy.deepcopy(case.get("observed", {}))

    def found(key: str) -> Iterable[Any]:
        usual = case.get("required", {}).get(key, ())
        return usual if isinstance(usual, list) and data.draw(st.booleans()) else ()

    for _ in range(4):
        observed = {}
        for key, child in existing.items():
            status = data.draw(st.sampled_from(STATUSES))
            if status is not None:
                observed[key] = {**child, "status": status}
        answer = _answer(case["owner"], observed, found)
        if any(each.severity == fnv1.SEVERITY_FATAL for each in answer.results):
            continue  # Crossplane then changes nothing
        # The Usage of an owner goes with its users.
        assert set(observed) - set(answer.desired.resources) <= {IN_USE}
        existing |= {key: to_object(child.resource) for key, child in answer.desired.resources.items()}
