"""What is wrong with a manifest, and where.

One rule: a problem is one line that names file, line, object and field, and says what to do.
"""

from enum import StrEnum

from modelplane.offline.output import Output
from modelplane.offline.wording import shortened


class Severity(StrEnum):
    """Whether an API server would refuse the object, or the reader had better know something."""

    ERROR = "error"
    WARNING = "warning"


class ObjectName(Output, frozen=True, kw_only=True):
    """Which object is meant, as far as it says."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return (
            f'{shortened(self.kind) or "object"} "{shortened(name, 130)}"' if name else shortened(self.kind)
        )


class Problem(Output, frozen=True, kw_only=True):
    """One thing that is wrong."""

    path: str
    """The file, or ``stdin``."""
    line: int
    """From 1; 0 where the whole file is meant."""
    column: int
    severity: Severity
    object: ObjectName | None
    """None where the document is no object."""
    field: str
    """Path of the field, such as ``spec.engines[0].name``; empty where the whole object is meant."""
    message: str
    excerpt: tuple[str, ...] = ()
    """Lines of the file, the last one with a caret under the fault."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        parts = [place, str(self.severity), str(self.object or ""), self.field, self.message]
        return ": ".join(part for part in parts if part)
