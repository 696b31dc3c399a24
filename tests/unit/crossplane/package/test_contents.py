from modelplane.api.kinds import KINDS
from modelplane.api.schema.xrd import build_xrd
from modelplane.compose.kinds import COMPOSERS
from modelplane.crossplane.package.clouds import CLOUDS
from modelplane.crossplane.package.package_addresses import Registry, Version
from modelplane.crossplane.package.package_contents import configuration, function, packages

REGISTRY = Registry("registry.example.org/ai")
VERSION = Version("1.2.3")
ABOUT, POLICY, *OBJECTS = configuration(REGISTRY, VERSION).documents
DEFINITIONS = [each for each in OBJECTS if each["kind"] == "CompositeResourceDefinition"]
COMPOSITIONS = [each for each in OBJECTS if each["kind"] == "Composition"]


def test_the_configuration_needs_the_function_of_its_own_registry_and_two_providers():
    assert ABOUT["spec"] == {
        "crossplane": {"version": ">=v2.3.0"},
        "dependsOn": [
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Function",
                "package": "registry.example.org/ai/function",
                "version": ">=v1.2.3, <v1.3.0",
            },
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Provider",
                "package": "xpkg.crossplane.io/crossplane-contrib/provider-kubernetes",
                "version": ">=v1.3.0, <v2.0.0",
            },
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Provider",
                "package": "xpkg.crossplane.io/crossplane-contrib/provider-helm",
                "version": ">=v1.4.0, <v2.0.0",
            },
        ],
    }


def test_one_policy_activates_what_is_composed_and_nothing_else():
    assert POLICY == {
        "apiVersion": "apiextensions.crossplane.io/v1alpha1",
        "kind": "ManagedResourceActivationPolicy",
        "metadata": {"name": "modelplane"},
        "spec": {
            "activate": [
                "objects.kubernetes.m.crossplane.io",
                "releases.helm.m.crossplane.io",
            ]
        },
    }


def test_every_kind_that_is_composed_ships_and_no_other():
    assert [each["spec"]["names"]["kind"] for each in DEFINITIONS] == [
        kind.name for kind in KINDS if kind.name in COMPOSERS
    ]
    assert len(OBJECTS) == 2 * len(COMPOSERS)


def test_a_definition_is_the_kinds_with_the_composition_that_is_meant():
    for each in DEFINITIONS:
        [kind] = [kind for kind in KINDS if kind.name == each["spec"]["names"]["kind"]]
        name = f"{kind.plural}.{kind.group}"
        assert each["spec"] == build_xrd(kind)["spec"] | {"defaultCompositionRef": {"name": name}}


def test_a_composition_has_its_definitions_name_and_one_step_of_the_installed_function():
    assert next(each for each in COMPOSITIONS if "modelservices" in each["metadata"]["name"]) == {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "modelservices.modelplane.ai"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelService"},
            "mode": "Pipeline",
            "pipeline": [{"step": "modelplane", "functionRef": {"name": "ai-function"}}],
        },
    }
    assert [each["metadata"]["name"] for each in COMPOSITIONS] == [
        each["metadata"]["name"] for each in DEFINITIONS
    ]


def test_the_function_composes():
    [about] = function().documents
    assert (about["kind"], about["spec"]) == (
        "Function",
        {"crossplane": {"version": ">=v2.3.0"}, "capabilities": ["composition"]},
    )


def test_the_packages_are_the_configuration_the_function_and_one_for_each_cloud_that_is_composed():
    assert [(each.repository, each.kind, each.name) for each in packages(REGISTRY, VERSION)] == [
        ("configuration", "Configuration", "modelplane"),
        ("function", "Function", "modelplane-function"),
        *((cloud.name, "Configuration", f"modelplane-{cloud.name}") for cloud in CLOUDS),
    ]
