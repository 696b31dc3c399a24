"""Columns of ``kubectl get`` for every kind. A kind's own columns are in its row in ``api/kinds.py``."""

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"


def build_condition_path(type_: str, field: str = "status") -> str:
    """Return the path of a condition's field."""
    return f".status.conditions[?(@.type=='{type_}')].{field}"


COMMON_COLUMNS = (
    Column("SYNCED", build_condition_path("Synced")),
    Column("READY", build_condition_path("Ready")),
    Column("REASON", build_condition_path("Ready", "reason")),
    Column("AGE", ".metadata.creationTimestamp", "date"),
)
