from modelplane.kube import timestamps
from modelplane.kubelet import node
from modelplane.kubelet.node import NodeSettings

SETTINGS = NodeSettings("local", "local", 10250)
THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def test_a_node_is_labelled_with_its_pool() -> None:
    labels = node.build_node(SETTINGS)["metadata"]["labels"]
    assert labels["modelplane.ai/pool"] == "local"
    assert labels["kubernetes.io/hostname"] == "local"


def test_the_api_server_is_told_where_logs_are_served() -> None:
    status = node.build_status(SETTINGS, NOW, {})
    assert status["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}


def test_a_condition_that_still_holds_keeps_its_time_and_is_seen_now() -> None:
    before = node.build_status(SETTINGS, THEN, {})
    ready = node.build_status(SETTINGS, NOW, before)["conditions"][0]
    assert (ready["type"], ready["status"]) == ("Ready", "True")
    assert (ready["lastTransitionTime"], ready["lastHeartbeatTime"]) == (THEN, NOW)
    lost = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": THEN}]}
    assert node.build_status(SETTINGS, NOW, lost)["conditions"][0]["lastTransitionTime"] == NOW


def test_a_recorded_time_loses_its_fraction_and_its_zone() -> None:
    assert timestamps.to_seconds("2026-01-01T01:00:00.999999999+01:00") == "2026-01-01T00:00:00Z"
