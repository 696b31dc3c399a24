"""Notices of eviction: nodes that a cloud, or a person, is about to take back."""

import datetime as dt
from typing import Annotated, Final

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about

MAX_NOTICES: Final = 64
"""Notices in the status of a cluster."""


class EvictionNotice(Model):
    """A node that is about to be taken back."""

    node: Annotated[str, about("Name of the node.", max_length=253)]
    pool: Annotated[str, about("Name of its node pool.", max_length=63)]
    cause: Annotated[str, about("The taint, annotation or condition of the node that says so.")]
    noticed_at: Annotated[dt.datetime, about("Time at which the notice was first seen.")]
    deadline: Annotated[dt.datetime, about("Time at which the node is expected to be gone.")]


class ReplicaEviction(Model):
    """The notice of a node on which pods of the replica run, or ran until they stopped serving."""

    node: Annotated[str, about("Name of the node.", max_length=253)]
    cause: Annotated[str, about("The taint, annotation or condition of the node that says so.")]
    deadline: Annotated[dt.datetime, about("Time at which the node is expected to be gone.")]
