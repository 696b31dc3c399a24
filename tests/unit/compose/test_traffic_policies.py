"""Requests that Envoy Gateway refuses, redirects or cannot resolve by its defaults."""

from typing import Any

import pytest

from support.goldens import GOLDENS

GATEWAYS = [
    pytest.param("serving_stack/ready", None, id="of a cluster"),
    pytest.param("serving_stack/mutual-tls-is-required", "mutual-tls", id="of a cluster, by mutual TLS"),
    pytest.param("inference_gateway/envoy-gateway", None, id="of the fleet"),
]


def policies(case: str, kind: str, listener: str | None = None) -> list[dict[str, Any]]:
    """Return the policies that are composed for a listener of a Gateway, or for the whole."""
    children = GOLDENS.output(case)["children"]
    of_kind = [each["manifest"]["spec"] for each in children if each.get("manifest", {}).get("kind") == kind]
    return [
        each for each in of_kind if [target.get("sectionName") for target in each["targetRefs"]] == [listener]
    ]


@pytest.mark.parametrize(("case", "listener"), GATEWAYS)
def test_a_request_reaches_a_model_as_it_was_sent(case: str, listener: str | None) -> None:
    [policy] = policies(case, "ClientTrafficPolicy", listener)
    assert policy["path"] == {"escapedSlashesAction": "KeepUnchanged"}, "%2F, instead of a redirection"


@pytest.mark.parametrize(("case", "listener"), GATEWAYS)
def test_headers_with_an_underscore_are_removed_as_by_the_fleets_own_envoy(
    case: str, listener: str | None
) -> None:
    [policy] = policies(case, "ClientTrafficPolicy", listener)
    assert policy["headers"] == {"withUnderscoresAction": "DropHeader"}, "instead of a refusal"


@pytest.mark.parametrize("case", [each.values[0] for each in GATEWAYS])
def test_names_with_addresses_of_ipv6_only_resolve(case: Any) -> None:
    [policy] = policies(case, "BackendTrafficPolicy")
    assert policy["dns"] == {"lookupFamily": "IPv4Preferred"}
