"""Protocols that a cluster's gateway has in force, as the status of its Gateway and of the policy says."""

from typing import Any

import pytest

from modelplane.compose.serving_stack.cluster_mutual_tls import in_force
from modelplane.gateway.mutual_tls import Protocol

PLAIN, TLS = {Protocol.PLAIN}, {Protocol.TLS}


def condition(type_: str, status: str = "True", generation: int = 2) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status, "observedGeneration": generation}]}


def gateway(wanted: tuple[str, ...], reported: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {"generation": 2},
        "spec": {"listeners": [{"name": name} for name in wanted]},
        "status": {"listeners": [{"name": name, **said} for name, said in reported.items()]},
    }


UP = condition("Programmed")
BOTH = ("http", "mutual-tls")
POLICY = {"metadata": {"generation": 2}, "status": {"ancestors": [condition("Accepted")]}}


def policy(**changes: Any) -> dict[str, Any]:
    return {**POLICY, "status": {"ancestors": [condition("Accepted", **changes)]}}


@pytest.mark.parametrize(
    ("item", "policy", "expected"),
    [
        pytest.param(None, None, set(), id="no gateway"),
        pytest.param(gateway(("http",), {"http": UP}), None, PLAIN, id="plain HTTP"),
        pytest.param(gateway(BOTH, {"http": UP, "mutual-tls": UP}), POLICY, PLAIN | TLS, id="both"),
        pytest.param(gateway(("mutual-tls",), {"mutual-tls": UP}), POLICY, TLS, id="TLS only"),
        pytest.param(gateway(BOTH, {"http": UP, "mutual-tls": UP}), None, PLAIN, id="no policy"),
        pytest.param(
            gateway(BOTH, {"http": UP, "mutual-tls": UP}),
            {"metadata": {"generation": 2}},
            PLAIN,
            id="a policy that nothing reports on",
        ),
        pytest.param(
            gateway(BOTH, {"http": UP, "mutual-tls": UP}),
            policy(status="False"),
            PLAIN,
            id="a policy that is refused",
        ),
        pytest.param(
            gateway(BOTH, {"http": UP, "mutual-tls": UP}),
            policy(generation=1),
            PLAIN,
            id="a report on a former policy",
        ),
        pytest.param(
            gateway(BOTH, {"http": UP, "mutual-tls": condition("Programmed", generation=1)}),
            POLICY,
            PLAIN,
            id="a report on a former listener",
        ),
        pytest.param(
            gateway(("http",), {"http": UP, "mutual-tls": UP}),
            POLICY,
            PLAIN,
            id="a listener that was removed",
        ),
    ],
)
def test_a_protocol_is_in_force_once_its_present_form_is_reported(
    item: dict[str, Any] | None, policy: dict[str, Any] | None, expected: set[Protocol]
) -> None:
    assert in_force(item, policy) == expected
