import itertools
from typing import Any

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.fleet_resources import resource_of
from modelplane.install.cluster_requirements import build_manifests as of_a_cluster
from modelplane.install.installation_options import INSTALLATION, MANAGER, Options
from modelplane.install.manifests import build_manifests
from modelplane.kube.informer import build_key

ALL = Options(
    team_namespaces=("team-a", "team-b"),
    service_monitor=True,
    gateway_annotations={"example.org/internal": "true"},
)
EVERYTHING = build_manifests(ALL)


def of_kind(kind, written=None):
    return [each for each in written or EVERYTHING if each["kind"] == kind]


def named(kind, name, written=None):
    [found] = [each for each in of_kind(kind, written) if each["metadata"]["name"] == name]
    return found


PODS = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in of_kind("Deployment")}
CONTAINERS = {
    f"{name}/{container['name']}": container
    for name, pod in PODS.items()
    for container in (*pod.get("initContainers", ()), *pod["containers"])
}


def test_nothing_comes_before_what_it_needs():
    kinds = [kind for kind, _ in itertools.groupby(each["kind"] for each in build_manifests(Options()))]
    before = ("CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole")
    assert tuple(kinds[:4]) == before
    assert kinds[-1] == "Deployment"


@pytest.mark.parametrize("options", [Options(), ALL], ids=["by default", "with everything"])
def test_no_object_is_there_twice(options):
    written = [(resource_of(each), build_key(each)) for each in build_manifests(options)]
    assert sorted(set(written), key=str) == sorted(written, key=str)


def test_the_kinds_are_those_that_are_composed():
    assert [(each["metadata"]["name"], each["spec"]) for each in of_kind("CustomResourceDefinition")] == [
        (crd(kind)["metadata"]["name"], crd(kind)["spec"]) for kind in KINDS if kind.name in COMPOSERS
    ]


@pytest.mark.parametrize(
    "manifest", EVERYTHING, ids=lambda each: f"{each['kind']} {each['metadata']['name']}"
)
def test_every_object_says_what_it_is_part_of_and_is_where_it_belongs(manifest):
    labels = manifest["metadata"]["labels"]
    assert (labels["app.kubernetes.io/part-of"], labels["app.kubernetes.io/managed-by"]) == (
        INSTALLATION,
        MANAGER,
    )
    known = {SYSTEM_NAMESPACE, GATEWAY_NAMESPACE, *ALL.team_namespaces}
    assert manifest["metadata"].get("namespace") in (known if resource_of(manifest).namespaced else {None})


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_a_container_has_no_privilege(container):
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_a_container_is_asked_whether_it_is_ready_and_whether_it_lives(container):
    ports = {port["name"] for port in container["ports"]}
    for probe in (container["readinessProbe"], container["livenessProbe"]):
        asked = probe.get("httpGet") or probe["tcpSocket"]
        assert asked["port"] in ports
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_runs_as_nobody_in_particular(pod):
    context = pod["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"], context["seccompProfile"]) == (
        True,
        65532,
        {"type": "RuntimeDefault"},
    )
    assert pod["automountServiceAccountToken"] is False


def test_envoy_has_no_token_and_the_processes_beside_it_have():
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    with_token = {
        name
        for name, container in CONTAINERS.items()
        if account in {mount["mountPath"] for mount in container["volumeMounts"]}
    }
    assert CONTAINERS.keys() - with_token == {"modelplane-gateway/envoy"}


@pytest.mark.parametrize("name", PODS)
def test_every_volume_is_mounted_and_every_mount_is_a_volume(name):
    volumes = {volume["name"] for volume in PODS[name]["volumes"]}
    mounts = {
        mount["name"]
        for container, each in CONTAINERS.items()
        if container.startswith(f"{name}/")
        for mount in each["volumeMounts"]
    }
    assert mounts == volumes


def test_envoy_ends_after_the_process_that_waits_for_the_last_answer():
    pod = PODS["modelplane-gateway"]
    assert [(each["name"], each["restartPolicy"]) for each in pod["initContainers"]] == [("envoy", "Always")]
    assert [each["name"] for each in pod["containers"]] == ["gateway"]
    assert pod["terminationGracePeriodSeconds"] > 300


@pytest.mark.parametrize("service", of_kind("Service"), ids=lambda each: each["metadata"]["name"])
def test_a_service_leads_to_a_port_of_the_pods_that_it_selects(service):
    selected = [
        each
        for each in of_kind("Deployment")
        if service["spec"]["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]
    [deployment] = selected
    name = deployment["metadata"]["name"]
    ports = {
        port["name"]
        for container, each in CONTAINERS.items()
        if container.startswith(f"{name}/")
        for port in each["ports"]
    }
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_bindings_name_roles_and_accounts_that_are_there():
    accounts = {each["metadata"]["name"] for each in of_kind("ServiceAccount")}
    for binding in of_kind("RoleBinding") + of_kind("ClusterRoleBinding"):
        reference = binding["roleRef"]
        assert named(reference["kind"], reference["name"])
        assert {subject["name"] for subject in binding["subjects"]} <= accounts


def test_what_models_name_is_read_in_the_named_namespaces_alone():
    name = "modelplane-team-objects"
    [everywhere] = [each for each in build_manifests(Options()) if each["metadata"]["name"] == name][1:]
    assert everywhere["kind"] == "ClusterRoleBinding"
    within = [each for each in EVERYTHING if each["metadata"]["name"] == name][1:]
    assert [(each["kind"], each["metadata"]["namespace"]) for each in within] == [
        ("RoleBinding", "team-a"),
        ("RoleBinding", "team-b"),
    ]


def test_options_reach_what_they_are_about():
    options = Options(
        image="registry.example/modelplane:1", controllers=3, gateways=4, gateway_service_type="ClusterIP"
    )
    written = build_manifests(options)
    pods = [each["spec"]["template"]["spec"] for each in of_kind("Deployment", written)]
    images = {each["image"] for pod in pods for each in (*pod.get("initContainers", ()), *pod["containers"])}
    assert images == {options.image}
    replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in of_kind("Deployment", written)}
    assert replicas == {"modelplane-controller": 3, "modelplane-gateway": 4}
    assert named("Service", "modelplane-gateway", written)["spec"]["type"] == "ClusterIP"
    assert named("Service", "modelplane-gateway")["metadata"]["annotations"] == ALL.gateway_annotations


def test_what_is_not_wanted_is_left_out():
    kinds = {each["kind"] for each in build_manifests(Options(network_policy=False))}
    assert {"NetworkPolicy", "ServiceMonitor"} & kinds == set()


def test_pods_take_only_requests_and_questions_about_themselves():
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind("NetworkPolicy")}
    ours = {"matchLabels": {"app.kubernetes.io/part-of": INSTALLATION}}
    assert policies["modelplane"]["podSelector"] == policies["modelplane-metrics"]["podSelector"] == ours
    assert policies["modelplane"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies["modelplane"], "nothing comes in unless another policy says so"
    [metrics] = policies["modelplane-metrics"]["ingress"]
    [source] = metrics["from"]
    assert source["namespaceSelector"]["matchExpressions"][0]["values"] == ["monitoring"]
    assert policies["modelplane-gateway"]["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]


def test_a_cluster_that_is_registered_gets_one_account_with_its_permissions_and_their_limits():
    written = of_a_cluster()
    assert [(each["kind"], each["metadata"]["name"]) for each in written] == [
        ("Namespace", "modelplane-system"),
        *(
            (kind, f"modelplane-inference-cluster-{part}")
            for part in (
                "objects",
                "pods",
                "gateways",
                "storage",
                "cards",
                "keys",
                "namespaces",
            )
            for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        ),
        ("ServiceAccount", "modelplane-inference-cluster"),
        ("ClusterRole", "modelplane-inference-cluster-copies"),
        ("ClusterRole", "modelplane-inference-cluster"),
        ("ClusterRoleBinding", "modelplane-inference-cluster"),
        ("Role", "modelplane-inference-cluster"),
        ("RoleBinding", "modelplane-inference-cluster"),
    ]
    parts = {each["metadata"]["labels"]["app.kubernetes.io/part-of"] for each in written[1:]}
    assert INSTALLATION not in parts, "an upgrade and an uninstall of the fleet leave it alone"


def _verbs(manifests: list[Any], role: str, plural: str) -> set[str]:
    [found] = [
        each for each in manifests if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", role)
    ]
    return {verb for rule in found["rules"] for verb in rule["verbs"] if plural in rule["resources"]}


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
def test_only_under_crossplane_an_identity_reads_copies_in_all_namespaces(plural: str) -> None:
    role, copies = "modelplane-inference-cluster", "modelplane-inference-cluster-copies"
    assert _verbs(of_a_cluster(), role, plural) == {"delete"}
    shared = of_a_cluster(crossplane=True)
    assert _verbs(shared, role, plural) == {"get", "list", "watch", "create", "patch", "delete"}
    assert _verbs(shared, role, "deployments") == {"get", "list", "watch", "create", "patch", "delete"}
    for each in (of_a_cluster(), shared):
        assert _verbs(each, copies, plural) == {"list", "watch", "create", "patch"}
        assert _verbs(each, role, "clusterroles") == {"bind"}
