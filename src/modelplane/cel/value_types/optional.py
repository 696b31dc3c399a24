"""CEL's optional values: `a.?b`, `a[?b]`, `orValue`, as Kubernetes enables them for selectors.

Only a missing key makes a value absent; any other error stays an error.
"""

from typing import Any, Final

import msgspec

from modelplane.cel.errors import EvaluationError


class Optional(msgspec.Struct, frozen=True):
    """A value that may be absent."""

    present: bool
    value: Any = None

    def get(self) -> Any:
        """Return the value. Raises EvaluationError if it is absent."""
        if not self.present:
            raise EvaluationError("the value of an empty optional is read")
        return self.value


ABSENT: Final = Optional(present=False)


def of(value: Any) -> Optional:
    """Return an optional with a value."""
    return Optional(present=True, value=value)
