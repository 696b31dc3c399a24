"""A stack that installs nothing."""

from collections.abc import Iterator

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.offline.lint.advice import Advice


def check(stack: ServingStack) -> Iterator[Advice]:
    """Warn of a stack that installs nothing."""
    if not stack.spec.cluster_name:
        message = "a stack without clusterName installs nothing: each InferenceCluster creates its own stack"
        yield Advice(("spec",), message, at_key=True)
