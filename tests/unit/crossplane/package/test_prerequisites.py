import yaml

from modelplane.crossplane.package.prerequisites import build_prerequisites, render_prerequisites
from modelplane.crossplane.package.touched import COMPOSED

SEVEN = ["get", "list", "watch", "create", "update", "patch", "delete"]


def test_crossplane_gets_the_permissions_that_it_lacks_and_no_other():
    namespace, role, *_ = build_prerequisites()
    assert (namespace["kind"], namespace["metadata"]) == ("Namespace", {"name": "modelplane-system"})
    assert role["metadata"]["labels"] == {"rbac.crossplane.io/aggregate-to-crossplane": "true"}
    assert role["rules"] == [
        {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": SEVEN},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": SEVEN},
        {
            "apiGroups": ["gateway.envoyproxy.io"],
            "resources": ["backendtrafficpolicies", "clienttrafficpolicies"],
            "verbs": SEVEN,
        },
        {
            "apiGroups": ["gateway.networking.k8s.io"],
            "resources": ["backendtlspolicies", "gatewayclasses", "gateways", "httproutes"],
            "verbs": SEVEN,
        },
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": SEVEN},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": SEVEN},
        {"apiGroups": ["protection.crossplane.io"], "resources": ["clusterusages", "usages"], "verbs": SEVEN},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": SEVEN[:3]},
    ]


def test_the_manifest_is_the_same_with_the_reason_for_each_permission():
    assert tuple(yaml.safe_load_all(render_prerequisites())) == build_prerequisites()
    reasons = [line for line in render_prerequisites().splitlines() if line.startswith("#")]
    assert "# httproutes: the path of a ModelService" in reasons
    assert len(reasons) == sum(len(rule["resources"]) for rule in build_prerequisites()[1]["rules"])


def test_crossplane_composes_no_role():
    composed = {each.kind for each in COMPOSED}
    assert not composed & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    bound = [
        each for each in build_prerequisites() if each["kind"].endswith("Binding") and "subjects" in each
    ]
    assert {subject["name"] for each in bound for subject in each["subjects"]} == {
        "modelplane-gateway",
        "modelplane-gateway-controller",
    }


def test_the_gateways_own_identities_write_no_object_of_ours_and_no_secret_of_a_team():
    for each in build_prerequisites():
        where = each["metadata"].get("namespace", "")
        for rule in each.get("rules", ()) if "gateway" in each["metadata"]["name"] else ():
            writes = set(rule["verbs"]) - {"get", "list", "watch"}
            assert not writes or where, each["metadata"]["name"]
            if "secrets" in rule["resources"] and writes:
                assert where == "modelplane-gateway"


def test_a_deleted_namespace_keeps_the_way_to_its_clusters():
    *_, policy, binding = build_prerequisites()
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["providerconfigusages"], ["DELETE"])
