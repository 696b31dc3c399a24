"""Serving backend: the software that runs the engines of a replica on its cluster."""

from enum import StrEnum


class ServingBackend(StrEnum):
    """Software that runs the pods of engines."""

    MODELPLANE = "Modelplane"
    KSERVE = "KServe"
