"""A gateway that serves no ModelService."""

from collections.abc import Iterator

from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway
from modelplane.offline.lint.advice import Advice


def check(gateway: InferenceGateway) -> Iterator[Advice]:
    """Warn of a gateway that serves no ModelService."""
    if gateway.metadata.name != DEFAULT_NAME:
        message = f"only the InferenceGateway named {DEFAULT_NAME} is used: rename it to {DEFAULT_NAME}"
        yield Advice(("metadata", "name"), message)
