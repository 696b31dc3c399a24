"""An InferenceClass composes nothing: it only publishes devices."""

from modelplane.api.conditions.reasons import InferenceClassCondition as Type, InferenceClassReason as Reason
from modelplane.api.inference_class import InferenceClass
from modelplane.api.listing import in_order
from modelplane.api.meta import kind_name
from modelplane.catalogue.cards import find_overstatements
from modelplane.compose import guards
from modelplane.compose.composition import Composition, NoFacts, Request, Requirement
from modelplane.compose.conditions import true

_KIND = kind_name(InferenceClass)


def requirements(class_: InferenceClass) -> tuple[Requirement, ...]:
    """Return the clusters that may name the class; it has no dependencies of its own."""
    return guards.requirements(_KIND, class_.metadata)


def compose(request: Request[InferenceClass, NoFacts]) -> Composition:
    """Accept the class, and report memory that its card does not publish."""
    overstated = [str(overstatement) for overstatement in find_overstatements(request.owner.spec.devices)]
    if overstated:
        accepted = true(Type.ACCEPTED, Reason.MEMORY_OVERSTATED, in_order(overstated, separator="; "))
    else:
        accepted = true(Type.ACCEPTED, Reason.AVAILABLE, "available to node pools")
    return Composition(conditions=(accepted,), ready=True, guards=guards.find_guards(_KIND, request))
