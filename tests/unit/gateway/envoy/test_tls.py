"""Which files TLS of a listener becomes, and that nothing is served without a certificate."""

import json
from typing import Any

import pytest

from modelplane.api.inference_gateway import TLSVersion
from modelplane.gateway.envoy.certificate_files import name_certificate_file, parse_certificate
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import LISTENERS, has_tls
from modelplane.gateway.route_table import Certificate, Listener, Table, Tls

FRONT = Certificate("front", "chain", "key")
OTHER = Certificate("other.example", "other chain", "other key")
TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3."


def written(tls: Tls | None) -> dict[str, str]:
    return render_files(Table((Listener("front-door", "127.0.0.1", 8080, tls=tls),)))


def chain(tls: Tls | None) -> dict[str, Any]:
    [listener] = json.loads(written(tls)[LISTENERS])["resources"]
    [found] = listener["filter_chains"]
    return dict(found)


def sds(name: str) -> dict[str, Any]:
    source = {"path_config_source": {"path": f"./tls/{name}.json"}, "resource_api_version": "V3"}
    return {"name": name, "sds_config": source}


def test_a_listener_names_its_certificates_in_order_and_a_file_has_each() -> None:
    tls = Tls((OTHER, FRONT), TLSVersion.V1_3)
    assert chain(tls)["transport_socket"] == {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}DownstreamTlsContext",
            "common_tls_context": {
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_3"},
                "tls_certificate_sds_secret_configs": [sds("other.example"), sds("front")],
            },
        },
    }
    pair = {"certificate_chain": {"inline_string": "chain"}, "private_key": {"inline_string": "key"}}
    assert json.loads(written(tls)["tls/front.json"]) == {
        "resources": [{"@type": f"{TYPES}Secret", "name": "front", "tls_certificate": pair}]
    }


def test_tls_changes_only_how_a_listener_is_reached() -> None:
    secured, plain = chain(Tls((FRONT,))), chain(None)
    # Its routes are others: those of connections from before it had TLS lead nowhere.
    assert (
        json.loads(json.dumps(secured["filters"]).replace("front-door-tls", "front-door")) == plain["filters"]
    )
    added = {"transport_socket", "transport_socket_connect_timeout"}
    assert (secured.keys() - plain.keys(), has_tls(written(None))) == (added, False)


def test_a_new_certificate_reaches_no_other_file() -> None:
    old, new = written(Tls((FRONT,))), written(Tls((Certificate("front", "new", "key"),)))
    assert [path for path in old | new if old.get(path) != new.get(path)] == ["tls/front.json"]


def test_without_a_certificate_a_listener_serves_nothing() -> None:
    found = written(Tls(()))
    assert [each["name"] for each in chain(Tls(()))["filters"]] == ["envoy.filters.network.direct_response"]
    assert not has_tls(found)


def test_a_certificate_is_read_back_from_its_file() -> None:
    assert parse_certificate(written(Tls((FRONT,)))[name_certificate_file("front")]) == FRONT


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"resources": []}', '{"resources": [{"name": "front"}]}']
)
def test_a_damaged_file_has_no_certificate(content: str) -> None:
    assert parse_certificate(content) is None


def test_a_key_is_never_shown() -> None:
    assert "chain" in repr(FRONT)
    assert "key" not in repr(Tls((FRONT,)))
