"""An InferenceClass composes nothing: it only publishes devices."""

from modelplane.api.inference_class import InferenceClass
from modelplane.api.meta import kind_name
from modelplane.api.reasons import InferenceClassCondition as Type
from modelplane.api.reasons import InferenceClassReason as Reason
from modelplane.compose import guards
from modelplane.compose.composition import Composition, Request, Requirement
from modelplane.compose.conditions import true

_KIND = kind_name(InferenceClass)


def requirements(class_: InferenceClass) -> tuple[Requirement, ...]:
    """Return the clusters that may name the class; it has no dependencies of its own."""
    return guards.requirements(_KIND, class_.metadata)


def compose(request: Request[InferenceClass]) -> Composition:
    """Accept the class."""
    return Composition(
        conditions=(true(Type.ACCEPTED, Reason.AVAILABLE, "available to node pools"),),
        ready=True,
        guards=guards.found(_KIND, request),
    )
