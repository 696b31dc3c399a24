"""Memory that the card of a device does not publish."""

from collections.abc import Iterator

from modelplane.api.inference_class import InferenceClass
from modelplane.catalogue.cards import find_overstatements
from modelplane.offline.lint.advice import Advice


def check(class_: InferenceClass) -> Iterator[Advice]:
    """Warn of memory that the card of a device does not publish."""
    for index, device in enumerate(class_.spec.devices):
        for overstatement in find_overstatements([device]):
            path = ("spec", "devices", index, "capacity", overstatement.key, "value")
            yield Advice(path, str(overstatement))
