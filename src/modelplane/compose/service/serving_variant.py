"""Serving variant: which of a ModelService's deployments serves, if some stand by for others."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelServiceCondition, ModelServiceReason
from modelplane.api.fields.deployment.standby_settings import MOST_PREFERRED
from modelplane.api.listing import in_order, number_of
from modelplane.api.meta import Object
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.service import hold, region_rules
from modelplane.compose.service.service_facts import ServiceRequest
from modelplane.gateway.services import Selected

_TYPE = ModelServiceCondition.STANDBY_ACTIVE
_ATTENTION = (
    ModelServiceReason.STANDBY_SERVES,
    ModelServiceReason.NO_VARIANT_SERVES,
    ModelServiceReason.PREFERRED_SERVES,
)


def conditions(request: ServiceRequest, matched: Iterable[Selected]) -> tuple[Condition, ...]:
    """Return the condition of a service; none if no deployment that it selects is a standby for another."""
    orders = _orders(item for item in request.found(region_rules.KEY) if hold.selects(request.owner, item))
    if not orders:
        was_stated = any(condition.type == _TYPE for condition in request.owner.status.conditions)
        gone = false(_TYPE, ModelServiceReason.NO_VARIANTS, "no selected deployment is a standby for another")
        return (gone,) if was_stated else ()
    serving = Counter(endpoint.endpoint.metadata.labels.get(labels.DEPLOYMENT, "") for endpoint in matched)
    stated = [_condition(order, serving) for order in orders]
    # The one that needs attention first.
    stated.sort(key=lambda condition: _ATTENTION.index(condition.reason))
    message = in_order([condition.message for condition in stated], separator=". ")
    return (replace(stated[0], message=message),)


def _orders(deployments: Iterable[Object]) -> list[list[str]]:
    """Return each deployment that stands by for none of the others, with those that stand by for it."""
    preferred = {deployment["metadata"]["name"]: _preferred(deployment) for deployment in deployments}
    standbys: dict[str, list[str]] = defaultdict(list)
    for name in sorted(preferred):
        standbys[preferred[name]].append(name)
    orders = []
    for first in sorted(preferred):
        if preferred[first] not in preferred and first in standbys:
            order = [first]
            for name in order:
                order += standbys.get(name, ())
            orders.append(order)
    return orders


def _preferred(deployment: Object) -> str:
    """Return the name that a deployment stands by for; empty if there is none, or it cannot be read."""
    settings = deployment["spec"].get("standbyFor")
    name = settings.get("name") if isinstance(settings, Mapping) else None
    return name if isinstance(name, str) else ""


def _condition(order: list[str], serving: Mapping[str, int]) -> Condition:
    first, *others = order
    counts = [
        f'"{name}" {number_of(serving[name], "endpoint") if serving[name] else "none"}' for name in order
    ]
    told = f"in order of preference: {in_order(counts, MOST_PREFERRED)}"
    standby = next((name for name in others if serving[name]), "")
    if serving[first]:
        message = f'"{first}" serves, and so does "{standby}"; {told}' if standby else told
        return false(_TYPE, ModelServiceReason.PREFERRED_SERVES, message)
    if standby:
        message = f'"{standby}" serves in place of "{first}"; {told}'
        return true(_TYPE, ModelServiceReason.STANDBY_SERVES, message)
    return false(_TYPE, ModelServiceReason.NO_VARIANT_SERVES, f"none serves; {told}")
