"""Types of CEL values, and the names of those that Kubernetes adds."""

from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""A CEL value: plain, or an instance of a class of this package (`values.kind` names its type)."""

QUANTITY: Final = "kubernetes.Quantity"
SEMVER: Final = "kubernetes.Semver"
