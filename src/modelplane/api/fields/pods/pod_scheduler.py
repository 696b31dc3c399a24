"""The scheduler of a cluster that binds the pods of engines to nodes, instead of kube-scheduler."""

from collections.abc import Mapping
from typing import Annotated

from modelplane.api.fields.pods.engines import RESERVED_PREFIX
from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, QUALIFIED_KEYS, LabelValue, about


class PodScheduler(Model):
    """A pod scheduler, and how pods select a queue."""

    name: (
        Annotated[
            str,
            about(
                "schedulerName of the pods, such as kai-scheduler. Default: kube-scheduler.",
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
            "Labels of the pods and of the workload that creates them, such as kueue.x-k8s.io/queue-name.",
            max_length=8,
            rules=(RESERVED_PREFIX, QUALIFIED_KEYS),
        ),
    ] = {}
    annotations: Annotated[
        Mapping[str, Annotated[str, about("Value of an annotation.", max_length=256)]],
        about("Annotations of the pods.", max_length=8, rules=(RESERVED_PREFIX, QUALIFIED_KEYS)),
    ] = {}
