"""Reading of an object's status."""

from modelplane.api.meta import Object
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of
from modelplane.offline.files.report_documents import Output


class Said(Output, frozen=True, kw_only=True):
    """A condition."""

    type: str
    status: str
    reason: str
    message: str


def read_conditions(item: Object) -> tuple[Said, ...]:
    """Return the conditions of an object, Ready last."""
    written = item.get("status", {}).get("conditions") or ()
    reported = (
        Said(
            type=str(condition["type"]),
            status=str(condition["status"]),
            reason=str(condition.get("reason", "")),
            message=str(condition.get("message", "")),
        )
        for condition in written
    )
    return tuple(sorted(reported, key=lambda condition: condition.type == READY))


def explain_not_ready(item: Object) -> str | None:
    """Return the reason why an object is not ready, from its status; None if it is ready."""
    ready = condition_of(item, READY)
    if ready.get("status") == "True":
        return None
    if not ready:
        return "it has no status yet"
    return str(ready.get("message") or ready.get("reason") or "its status does not say why")
