"""CEL's optional values: `a.?b`, `a[?b]`, `orValue`, as Kubernetes enables them for selectors.

Only a missing key makes a value absent; any other error stays an error.
"""

from dataclasses import dataclass
from typing import Any, Final

from modelplane.cel.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Optional:
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
