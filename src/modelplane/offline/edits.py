"""Edits: manifests that a person wrote, as a server would store them over the objects of a fleet."""

from collections.abc import Iterable

from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment


def edits(there: Iterable[Object], written: Iterable[Object]) -> list[Object]:
    """Return manifests with the identity of the objects that they would change, as far as there are any.

    A ModelDeployment keeps its status too, because a rollout goes on from it. The status of other kinds
    follows from their spec.
    """
    known = {_identity(each): each for each in there}
    return [_edited(known.get(_identity(each)), each) for each in written]


def _edited(before: Object | None, after: Object) -> Object:
    if before is None or after["metadata"].get("uid"):
        return after
    keeps_status = after["kind"] == kind_name(ModelDeployment) and "status" in before
    kept = {"status": before["status"]} if keeps_status else {}
    # Results are cached by version, and this is another one.
    metadata = {key: value for key, value in before["metadata"].items() if key != "resourceVersion"}
    return {**kept, **after, "metadata": {**metadata, **after["metadata"]}}


def _identity(item: Object) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace") or "default", metadata["name"]
