"""An InferenceClass composes nothing: publishing it is all it does."""

from modelplane.api.inference_class import InferenceClass
from modelplane.api.reasons import InferenceClassCondition as Type
from modelplane.api.reasons import InferenceClassReason as Reason
from modelplane.compose.composition import Composition, Request, Requirement
from modelplane.compose.conditions import true


def requirements(_class: InferenceClass) -> tuple[Requirement, ...]:
    """Return nothing: a class depends on nothing."""
    return ()


def compose(_request: Request[InferenceClass]) -> Composition:
    """Accept the class."""
    return Composition(
        conditions=(true(Type.ACCEPTED, Reason.AVAILABLE, "node pools may use this class"),), ready=True
    )
