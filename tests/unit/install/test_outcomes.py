"""Application of one object: its outcome, and when a dry run may guess it."""

from typing import Any

import pytest

from modelplane.install.applying import apply
from modelplane.kube import errors

CLASS: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceClass",
    "metadata": {"name": "l4-1x"},
    "spec": {"description": "x"},
}
NO_NAMESPACE = errors.NotFound(404, "NotFound", 'namespaces "x" not found')
NO_KIND = errors.NotInstalled("InferenceClass", "modelplane.ai/v1alpha1")


class Server:
    """An API server with at most one object."""

    def __init__(self, before: Any, after: Any) -> None:
        self.before, self.after = before, after

    async def get(self, *_name: object) -> Any:
        return self.before

    async def apply(self, _manifest: object, **_options: object) -> Any:
        if isinstance(self.after, Exception):
            raise self.after
        return self.after


def stored(**changes: Any) -> dict[str, Any]:
    metadata = {**CLASS["metadata"], "resourceVersion": "7"}
    return {**CLASS, "metadata": metadata, "status": {"conditions": []}, **changes}


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        pytest.param(None, stored(), "created", id="not there"),
        pytest.param(stored(), stored(spec={"description": "y"}), "changed", id="another spec"),
        pytest.param(stored(), stored(status={}), "unchanged", id="only another status"),
    ],
)
async def test_the_outcome_is_the_difference_of_what_can_be_applied(
    before: Any, after: Any, outcome: str
) -> None:
    server: Any = Server(before, after)
    assert await apply(server, CLASS) == outcome


async def test_a_dry_run_takes_a_missing_namespace_for_one_that_will_be_there() -> None:
    server: Any = Server(None, NO_NAMESPACE)
    assert await apply(server, CLASS, dry_run=True) == "created"
    with pytest.raises(errors.NotFound):
        await apply(server, CLASS)


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_kind_that_is_not_installed_is_an_error_in_a_dry_run_too(dry_run: bool) -> None:
    server: Any = Server(None, NO_KIND)
    with pytest.raises(errors.NotInstalled):
        await apply(server, CLASS, dry_run=dry_run)
