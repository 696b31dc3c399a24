"""Device selectors of Dynamic Resource Allocation, evaluated by Google's CEL library.

A selector that Kubernetes would refuse is refused here, with the position and the nearest known name. A
selector that fails on a device gives a `NoMatch` with the reason.

    text -> source -> environment -> checked_tree -> checks, estimate -> program
            limits    Google's       its             rules and costs     the tree rewritten,
            and names compiler       result          of Kubernetes       and evaluated
    device -> bindings -> program -> Match, or NoMatch with the values that were read
"""

from modelplane.cel.bindings import AttributeValue, ObservedValue, PublishedDevice, Version
from modelplane.cel.errors import SelectorError, TooCostly
from modelplane.cel.selector import (
    Bound,
    Match,
    NoMatch,
    Selector,
    bind,
    compile,  # noqa: A004  (its name)
    compile_all,
)

__all__ = [
    "AttributeValue",
    "Bound",
    "Match",
    "NoMatch",
    "ObservedValue",
    "PublishedDevice",
    "Selector",
    "SelectorError",
    "TooCostly",
    "Version",
    "bind",
    "compile",
    "compile_all",
]
