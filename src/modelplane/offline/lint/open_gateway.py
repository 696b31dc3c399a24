"""A gateway that serves every request by default, where it is known not to be on loopback."""

from collections.abc import Iterator

from modelplane.api.inference_gateway import InferenceGateway
from modelplane.host.addresses import is_loopback
from modelplane.offline.lint.advice import Advice


def check(gateway: InferenceGateway) -> Iterator[Advice]:
    """Warn of a gateway that serves every request by default, where it is known not to be on loopback."""
    address = gateway.status.address or ""
    host = address.rpartition(":")[0] or address
    if gateway.spec.authentication is None and host and not is_loopback(host):
        message = (
            f"without authentication, the gateway at {address} accepts every request: set authentication "
            "to APIKey and create keys with `modelplane key create`, or set authentication to None"
        )
        yield Advice(("spec",), message, at_key=True)
