"""The scheduler of a cluster that binds the pods of engines to nodes, instead of kube-scheduler."""

from collections.abc import Mapping
from typing import Annotated

from modelplane.api.fields.pods.engines import RESERVED_PREFIX
from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, QUALIFIED_KEYS, LabelValue, about


class PodScheduler(Model):
    """A scheduler of pods, and how the pods name their queue."""

    name: (
        Annotated[
            str,
            about(
                "The pods' schedulerName, such as kai-scheduler. Absent: kube-scheduler.",
                min_length=1,
                max_length=253,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None
    labels: Annotated[
        Mapping[str, LabelValue],
        about(
            "Labels of the pods and of the workload that makes them, such as kueue.x-k8s.io/queue-name.",
            max_length=8,
            rules=(RESERVED_PREFIX, QUALIFIED_KEYS),
        ),
    ] = {}
    annotations: Annotated[
        Mapping[str, Annotated[str, about("Value of an annotation.", max_length=256)]],
        about("Annotations of the pods.", max_length=8, rules=(RESERVED_PREFIX, QUALIFIED_KEYS)),
    ] = {}
