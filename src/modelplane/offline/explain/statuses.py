"""Reading of an object's status."""

from modelplane.api.meta import Object
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import read_state
from modelplane.offline.files.report_documents import Output


class Said(Output, frozen=True, kw_only=True):
    """A condition."""

    type: str
    status: str
    reason: str
    message: str


def read_conditions(item: Object) -> tuple[Said, ...]:
    """Return the conditions of an object, Ready last."""
    reported = (
        Said(
            type=str(condition["type"]),
            status=str(condition["status"]),
            reason=str(condition.get("reason", "")),
            message=str(condition.get("message", "")),
        )
        for condition in (item.get("status", {}).get("conditions") or ())
    )
    return tuple(sorted(reported, key=lambda condition: condition.type == READY))


def explain_not_ready(item: Object) -> str | None:
    """Return the state of an object that is not ready, and its cause; None if it is ready."""
    state = read_state(item)
    return None if state.is_ready else state.summarize()
