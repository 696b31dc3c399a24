from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.kinds import KINDS
from modelplane.api.schema.xrd import build_xrd
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.kinds import COMPOSERS
from modelplane.crossplane.package.metadata import Registry, Version
from modelplane.crossplane.package.package_contents import (
    cloud_configuration,
    configuration,
    function,
    packages,
)

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
        ("gcp", "Configuration", "modelplane-gcp"),
        ("aws", "Configuration", "modelplane-aws"),
        ("azure", "Configuration", "modelplane-azure"),
        ("nebius", "Configuration", "modelplane-nebius"),
        ("vultr", "Configuration", "modelplane-vultr"),
    ]


def test_every_kind_of_a_cloud_has_a_package():
    ours = {kind.name for kind in KINDS if kind.group.startswith("infrastructure.")}
    assert {recipe.kind for recipe in RECIPES.values()} == ours - {"ServingStack"}


def test_the_package_of_a_cloud_is_its_providers_and_their_kinds():
    recipe = RECIPES[Source.EKS]
    about, policy = cloud_configuration(recipe).documents
    assert (about["kind"], about["metadata"]["name"]) == ("Configuration", "modelplane-aws")
    assert about["spec"]["dependsOn"] == [
        {
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "Provider",
            "package": f"xpkg.crossplane.io/crossplane-contrib/provider-aws-{name}",
            "version": ">=v2.6.0, <v3.0.0",
        }
        for name in ("ec2", "efs", "eks", "iam")
    ]
    assert policy["metadata"]["name"] == "modelplane-aws"
    assert "clusters.eks.aws.m.upbound.io" in policy["spec"]["activate"]
    assert policy["spec"]["activate"] == sorted(
        kind.definition for provider in recipe.providers for kind in provider.kinds
    )
