"""Device selectors as Dynamic Resource Allocation understands them.

One rule: a selector that Kubernetes would refuse is refused here, with the place and the nearest known name;
a selector that fails on a device is a `NoMatch` that says why.
"""

from modelplane.cel.bindings import Read
from modelplane.cel.device import AttributeValue, PublishedDevice, Version
from modelplane.cel.errors import SelectorError
from modelplane.cel.quantity import Quantity, QuantityError
from modelplane.cel.selector import Match, NoMatch, Selector, compile  # noqa: A004  (the field's own word)
from modelplane.cel.semver import Semver, SemverError

__all__ = [
    "AttributeValue",
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
    "compile",
]
