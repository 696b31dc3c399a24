"""Device selectors of Dynamic Resource Allocation.

A selector that Kubernetes would refuse is refused here, with the position and the nearest known name. A
selector that fails on a device gives a `NoMatch` with the reason.

    text -> source         has(device.driver) and quotation, which Google's compiler reads differently
         -> expansion      the size after macros are expanded
         -> environment    Google's compiler parses and checks; `explanation` rewords its errors
         -> checked        the compiler's result, read from the wire into nodes and their types
         -> restrictions   rules of Kubernetes that the compiler does not check
         -> estimate       the highest possible cost, in Kubernetes' units
         -> evaluate       a closure per node, by `functions` (a module per library) and `standard` (calls
                           of Google's library), counted by `cost` (Kubernetes' units) and `weight` (ours)

    device -> bindings -> evaluate -> Match, or NoMatch with the values that were read

`compilation` runs the first line, `selector` the second; the other modules hold one kind of value each.
"""

from modelplane.cel.bindings import ObservedValue
from modelplane.cel.device import AttributeValue, PublishedDevice, Version
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
from modelplane.cel.value_types.quantity import Quantity, QuantityError
from modelplane.cel.value_types.semver import Semver, SemverError

__all__ = [
    "AttributeValue",
    "Bound",
    "Match",
    "NoMatch",
    "ObservedValue",
    "PublishedDevice",
    "Quantity",
    "QuantityError",
    "Selector",
    "SelectorError",
    "Semver",
    "SemverError",
    "TooCostly",
    "Version",
    "bind",
    "compile",
    "compile_all",
]
