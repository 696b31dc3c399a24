"""Settings and status of failover: the replacement of replicas on lost clusters."""

from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_AFTER = Rule(
    "duration(self) >= duration('10s') && duration(self) <= duration('24h')",
    "after must be from 10s to 24h",
)


class FailoverSettings(Model):
    """Replacement of replicas on lost clusters."""

    after: Annotated[
        str,
        about(
            "Time for which a cluster must be lost before its replicas are replaced: neither its API server "
            "nor its replicas answer. It counts only while a controller watches. From 10s to 24h, such as "
            "10m.",
            max_length=6,
            pattern=r"^[1-9][0-9]*[smh]$",
            rules=(_AFTER,),
        ),
    ]

    @property
    def after_s(self) -> float:
        """The same in seconds."""
        return int(self.after[:-1]) * _UNITS_S[self.after[-1]]


class LostCluster(Model):
    """A lost cluster."""

    name: Annotated[str, about("Name of the InferenceCluster.")]
    cause: Annotated[str, about("What does not answer.")]


class FailoverStatus(Model):
    """Failover in progress."""

    lost_clusters: Annotated[
        tuple[LostCluster, ...],
        about("Lost clusters whose replicas are replaced.", keys=("name",)),
    ] = ()
    paused: Annotated[str, about("Reason for which nothing is replaced. Absent: replicas are.")] | None = None
