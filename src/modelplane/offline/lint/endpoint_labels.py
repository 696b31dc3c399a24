"""Labels that endpoints do not have, and selectors without labels."""

from collections.abc import Iterator

from modelplane.api import labels
from modelplane.api.model_service import ModelService
from modelplane.offline.files.diagnostics import quote
from modelplane.offline.lint.advice import Advice
from modelplane.offline.lint.label_keys import check_keys


def check(service: ModelService) -> Iterator[Advice]:
    """Warn of labels that endpoints do not have, and of a selector without labels."""
    for index, entry in enumerate(service.spec.endpoints):
        path = ("spec", "endpoints", index, "selector", "matchLabels")
        if not entry.selector.match_labels:
            message = (
                f"selects every ModelEndpoint in namespace {quote(service.metadata.namespace or 'default')}: "
                f"add a label, such as {labels.DEPLOYMENT}"
            )
            yield Advice(path, message, at_key=True)
        yield from check_keys(path, entry.selector.match_labels, "ModelEndpoint")
