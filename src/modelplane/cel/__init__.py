"""Device selectors as Dynamic Resource Allocation understands them.

One rule: a selector that Kubernetes would refuse is refused here, with the place and the nearest known name;
a selector that fails on a device is a `NoMatch` that says why.

    text -> source         has(device.driver) and quotation, which Google's compiler reads differently
         -> environment    Google's compiler parses and checks; `explanation` words its complaints
         -> checked        its result, read from the wire into nodes and their types
         -> restrictions   what it lets pass and Kubernetes refuses
         -> estimate       the most it can cost, by Kubernetes' units
         -> evaluate       a closure per node, by `functions` (a module per library) and `standard` (what goes
                           to Google's library), counted by `cost` (Kubernetes' units) and `weight` (ours)

    device -> bindings -> evaluate -> Match, or NoMatch with what was read

`compilation` runs the first line, `selector` the second; the modules not named hold one kind of value each.
"""

from modelplane.cel.bindings import Read
from modelplane.cel.device import AttributeValue, PublishedDevice, Version
from modelplane.cel.errors import SelectorError
from modelplane.cel.quantity import Quantity, QuantityError
from modelplane.cel.selector import Bound, Match, NoMatch, Selector, bind, compile  # noqa: A004  (its name)
from modelplane.cel.semver import Semver, SemverError

__all__ = [
    "AttributeValue",
    "Bound",
    "Match",
    "NoMatch",
    "PublishedDevice",
    "Quantity",
    "QuantityError",
    "Read",
    "Selector",
    "SelectorError",
    "Semver",
    "SemverError",
    "Version",
    "bind",
    "compile",
]
