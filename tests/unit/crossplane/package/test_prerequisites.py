import yaml

from modelplane.crossplane.package.prerequisites import manifest, prerequisites

SEVEN = ["get", "list", "watch", "create", "update", "patch", "delete"]


def test_crossplane_gets_the_permissions_that_it_lacks_and_no_other():
    namespace, role, *_ = prerequisites()
    assert (namespace["kind"], namespace["metadata"]) == ("Namespace", {"name": "modelplane-system"})
    assert role["metadata"]["labels"] == {"rbac.crossplane.io/aggregate-to-crossplane": "true"}
    assert role["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": SEVEN},
        {
            "apiGroups": ["gateway.networking.k8s.io"],
            "resources": ["backendtlspolicies", "gatewayclasses", "gateways", "httproutes"],
            "verbs": SEVEN,
        },
        {"apiGroups": ["protection.crossplane.io"], "resources": ["clusterusages", "usages"], "verbs": SEVEN},
    ]


def test_the_manifest_is_the_same_with_the_reason_for_each_permission():
    assert tuple(yaml.safe_load_all(manifest())) == prerequisites()
    reasons = [line for line in manifest().splitlines() if line.startswith("#")]
    assert "# httproutes: the path of a ModelService" in reasons
    assert len(reasons) == sum(len(rule["resources"]) for rule in prerequisites()[1]["rules"])


def test_a_deleted_namespace_keeps_the_way_to_its_clusters():
    *_, policy, binding = prerequisites()
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["providerconfigusages"], ["DELETE"])
