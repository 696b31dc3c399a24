"""The choice of what runs the engines of a replica on its cluster."""

from enum import StrEnum


class ServingBackend(StrEnum):
    """What runs the pods of engines."""

    MODELPLANE = "Modelplane"
    KSERVE = "KServe"
