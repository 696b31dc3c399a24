import pytest

from modelplane.api.names import check_reserved
from modelplane.compose.composition import Desired
from modelplane.compose.kinds import COMPOSED
from modelplane.install import identity_permissions, people_roles, roles
from modelplane.install.roles import Role, Rule, build_account
from support.replicas import composed, replica

TABLES = {
    **{name: getattr(identity_permissions, name) for name in ("FLEET", "TEAMS", "SYSTEM")},
    **{name: getattr(roles, name) for name in ("PUBLISHER", "COMPANION", "COMPANION_PRIVATE")},
}
TABLES["on cluster"] = identity_permissions.list_cluster_rules()
TABLES["own token"] = identity_permissions.OWN_TOKEN
TABLES |= {name: people_roles.PEOPLE[name] for name in ("platform", "gateway-operator")}
RULES = {
    f"{name}: {', '.join(rule.verbs)} {', '.join(rule.resources)}": rule
    for name, table in TABLES.items()
    for rule in table
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_has_a_reason_and_no_wildcard(rule):
    assert rule.why.endswith(".")
    assert "*" not in {rule.group, *rule.resources, *rule.verbs}
    assert {"escalate", "bind", "impersonate", "deletecollection"} & {*rule.verbs} == set()


def test_on_the_control_plane_secrets_are_read_and_those_of_the_system_written():
    verbs = {
        (name, verb)
        for name in ("FLEET", "TEAMS", "SYSTEM", "COMPANION", "PUBLISHER", "COMPANION_PRIVATE")
        for rule in TABLES[name]
        if "secrets" in rule.resources
        for verb in rule.verbs
    }
    readers = ("TEAMS", "SYSTEM", "PUBLISHER", "COMPANION_PRIVATE")
    read = {(name, verb) for name in readers for verb in ("list", "watch")}
    published = {("PUBLISHER", verb) for verb in ("create", "patch", "delete")}
    assert verbs == read | {("SYSTEM", "create"), ("SYSTEM", "patch")} | published


WATCHED_BY_PICKERS = [
    (group, resource)
    for group in ("inference.networking.x-k8s.io", "llm-d.ai")
    for resource in ("inferenceobjectives", "inferencemodelrewrites")
]
"""What llm-d's router 0.10 looks for on a cluster, and watches wherever it exists."""


@pytest.mark.parametrize(("group", "resource"), WATCHED_BY_PICKERS)
def test_a_picker_may_watch_what_it_looks_for_and_the_identity_may_permit_it(
    group: str, resource: str
) -> None:
    needed = {"get", "list", "watch"}
    serving = {"mode": "Unified", "routing": "EndpointPicker"}
    [role] = [
        each
        for each in composed(replica(serving=serving)).children
        if isinstance(each, Desired) and each.key == "epp-role"
    ]
    granted = {
        verb
        for rule in role.manifest["rules"]
        if group in rule["apiGroups"] and resource in rule["resources"]
        for verb in rule["verbs"]
    }
    held = {
        verb
        for rule in identity_permissions.list_cluster_rules()
        if rule.group == group and resource in rule.resources
        for verb in rule.verbs
    }
    assert granted == held == needed


def test_the_identity_of_the_gateway_reads_the_secrets_of_one_namespace_only():
    published = [each for each in roles.build_publishing_roles() if each["kind"] == "Role"]
    secrets = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in published
        if any("secrets" in rule["resources"] for rule in each["rules"])
    }
    assert secrets == {
        ("modelplane-gateway", "modelplane-gateway-private"),
        ("modelplane-gateway", "modelplane-controller-private"),
    }
    assert check_reserved("modelplane-gateway")


def test_the_identity_on_a_cluster_gets_tokens_of_itself_only():
    [rule] = [
        rule
        for rule in (*identity_permissions.list_cluster_rules(), *identity_permissions.OWN_TOKEN)
        if any("token" in resource for resource in rule.resources)
    ]
    assert (rule.resources, rule.verbs, rule.names) == (
        ("serviceaccounts/token",),
        ("create",),
        ("modelplane-inference-cluster",),
    )


def test_a_role_is_in_a_namespace_and_a_cluster_role_is_not():
    rules = (Rule("", ("pods",), ("list",), "Why not."), Rule("", ("pods",), ("get",), "One.", names=("a",)))
    subject = build_account("somebody")
    role, binding = Role("Role", "reader", rules, {"of": "us"}).bound_to(subject, "team")
    about = {"name": "reader", "namespace": "team", "labels": {"of": "us"}}
    assert role == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": about,
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]},
        ],
    }
    assert binding == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": "modelplane-system"}],
    }
    everywhere = Role("ClusterRole", "reader", rules, {}).bound_to(subject)
    assert [each["kind"] for each in everywhere] == ["ClusterRole", "ClusterRoleBinding"]
    assert all("namespace" not in each["metadata"] for each in everywhere)


def test_who_may_edit_a_namespace_may_serve_models_there_and_touch_nothing_made_for_them():
    [edit] = [
        each for each in identity_permissions.build_roles(()) if each["metadata"]["name"] == "modelplane-edit"
    ]
    rule, keys = edit["rules"]
    assert (keys["resources"], keys["verbs"]) == (["modelkeys"], ["get", "list", "watch"])
    assert "modeldeployments" in rule["resources"]
    assert "modelreplicas" not in rule["resources"]
    labels = edit["metadata"]["labels"]
    assert {key for key in labels if "aggregate" in key} == {
        "rbac.authorization.k8s.io/aggregate-to-edit",
        "rbac.authorization.k8s.io/aggregate-to-admin",
    }


def test_who_may_view_a_namespace_sees_no_hash_of_a_key():
    _, allowed = _allowed("modelplane-view")
    of_namespaces = {kind.plural for kind in COMPOSED if kind.namespaced and kind.group == "modelplane.ai"}
    assert allowed["get"] == of_namespaces - {"modelkeys"}


def _allowed(name):
    [role] = [each for each in identity_permissions.build_roles(()) if each["metadata"]["name"] == name]
    return role, {
        verb: {each for rule in role["rules"] if verb in rule["verbs"] for each in rule["resources"]}
        for verb in ("get", "create", "patch", "update", "delete")
    }


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        pytest.param(
            "modelplane-platform",
            {"devicequotas", "inferenceclasses", "inferenceclusters"},
            {kind.plural for kind in COMPOSED} - {"modelkeys"},
            id="platform teams publish hardware and see what runs on it",
        ),
        pytest.param(
            "modelplane-gateway-operator",
            {"inferencegateways"},
            {"inferencegateways", "modelendpoints", "modelservices"},
            id="operators of the gateway see its addresses",
        ),
    ],
)
def test_a_role_of_the_whole_fleet_writes_its_own_kinds_and_is_part_of_no_other_role(name, written, read):
    role, allowed = _allowed(name)
    assert allowed.pop("get") == read
    assert set(map(frozenset, allowed.values())) == {frozenset(written)}
    groups = {group for rule in role["rules"] for group in rule["apiGroups"]}
    assert groups == {kind.group for kind in COMPOSED if kind.plural in read}
    assert not [key for key in role["metadata"]["labels"] if "aggregate" in key]
