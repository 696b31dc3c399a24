"""Labels that clusters do not have."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelplane.offline.lint.advice import Advice
from modelplane.offline.lint.label_keys import check_keys

if TYPE_CHECKING:
    from modelplane.api.model_cache import ModelCache
    from modelplane.api.model_deployment import ModelDeployment


def check(owner: "ModelCache | ModelDeployment") -> Iterator[Advice]:
    """Warn of labels that clusters do not have."""
    # Only a deployment has a template.
    template = getattr(owner.spec, "template", None)
    path = ("spec",) if template is None else ("spec", "template", "spec")
    selector = (owner if template is None else template).spec.cluster_selector
    if selector is not None:
        yield from check_keys(
            (*path, "clusterSelector", "matchLabels"), selector.match_labels, "InferenceCluster"
        )
