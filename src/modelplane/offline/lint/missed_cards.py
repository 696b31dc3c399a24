"""Selectors that a card would match if it had all of its nominal memory."""

from collections.abc import Iterator

from modelplane.api.model_deployment import ModelDeployment
from modelplane.offline.lint.advice import Advice, walk_members


def check(deployment: ModelDeployment) -> Iterator[Advice]:
    """Warn of selectors that a card would match if it had all of its nominal memory."""
    for path, _, member in walk_members(deployment):
        for index, request in enumerate(member.node_selector.devices if member.node_selector else ()):
            selectors = [selector.cel for selector in request.selectors]
            reading = [number for number, text in enumerate(selectors) if "memory" in text]
            if not reading:
                continue
            from modelplane.offline.models.nominal_memory import describe_missed_cards  # noqa: PLC0415  as few files need it

            if message := describe_missed_cards(selectors):
                where = ("nodeSelector", "devices", index, "selectors", reading[0], "cel")
                yield Advice((*path, *where), message)
