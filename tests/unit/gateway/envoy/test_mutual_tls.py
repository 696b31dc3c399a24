"""Envoy's files for mutual TLS to clusters."""

import json

from modelplane.gateway.envoy.certificate_files import AUTHORITIES, IDENTITY, parse_identity
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS
from modelplane.gateway.mutual_tls import Identity, Pair
from modelplane.gateway.route_table import Backend, Listener, Route, Table
from modelplane.proxy.publication import is_private

OWN = Identity(Pair("CERTIFICATE", "KEY"), "AUTHORITIES")
BACKEND = Backend("ml/a", (("192.0.2.1", 443),), tls=True, server_name="a.clusters.modelplane.internal")


def written(own: Identity | None, *backends: Backend) -> dict[str, str]:
    routes = (Route("ml/qwen", "/ml/qwen/", backends or (BACKEND,)),)
    return render_files(Table((Listener("front-door", "192.0.2.9", 80, routes),), own))


def test_the_identity_can_be_read_back_from_its_files() -> None:
    found = written(OWN)
    assert parse_identity(found[IDENTITY], found[AUTHORITIES]) == OWN


def test_damaged_files_have_no_identity() -> None:
    found = written(OWN)
    assert parse_identity(found[IDENTITY][:-9], found[AUTHORITIES]) is None
    assert parse_identity("", "") is None


def test_only_secrets_carry_the_files() -> None:
    assert all(map(is_private, (IDENTITY, AUTHORITIES)))


def test_a_renewed_certificate_changes_its_file_only() -> None:
    before, after = written(OWN), written(Identity(Pair("NEW", "NEW KEY"), "AUTHORITIES"))
    assert {path for path in after if after[path] != before.get(path)} == {IDENTITY}


def test_without_an_identity_a_cluster_has_no_instances() -> None:
    found = written(None)
    [cluster] = json.loads(found[CLUSTERS])["resources"]
    assert cluster["load_assignment"]["endpoints"] == [{"lb_endpoints": []}]
    assert "transport_socket" not in cluster
    assert IDENTITY not in found
