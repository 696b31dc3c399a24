"""The files with which the tour under Crossplane begins: what they install, and what they allow."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from packaging.specifiers import SpecifierSet

from modelplane import __version__
from modelplane.cli.main import main
from modelplane.crossplane.package.metadata import Registry, Version, installed_name
from modelplane.crossplane.package.package_contents import configuration
from modelplane.crossplane.package.package_installation import build_installation
from modelplane.crossplane.package.touched import COMPOSED, REQUIRED
from support.third_party_crds import problems, schemas

FOLDER = Path(__file__).parents[4] / "examples" / "getting-started"
ABOUT, *PACKAGED = configuration(Registry(), Version(__version__)).documents


def _documents(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


PREREQUISITES = _documents("prerequisites.yaml")
INSTALLED = _documents("configuration.yaml")


def _installed(kind):
    """Return the address and the version of each package of a kind, by its name."""
    return {
        each["metadata"]["name"]: each["spec"]["package"].rsplit(":", 1)
        for each in INSTALLED
        if each["kind"] == kind
    }


def test_the_prerequisites_are_those_that_the_command_prints():
    printed = CliRunner().invoke(main, ["package", "prerequisites"]).output
    assert list(yaml.safe_load_all(printed)) == PREREQUISITES


def test_the_prerequisites_allow_every_kind_that_the_function_touches_and_nothing_else_grants():
    printed = CliRunner().invoke(main, ["package", "prerequisites"]).output
    granted = {
        (group, resource)
        for each in yaml.safe_load_all(printed)
        for rule in each.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    lacking = {
        (each.group, each.plural) for each in (*COMPOSED, *REQUIRED) if each.grant.name == "PREREQUISITES"
    }
    assert lacking <= granted


def test_no_provider_is_bound_to_a_role_and_no_rule_has_a_wildcard():
    rules = [rule for each in PREREQUISITES for rule in each.get("rules", ())]
    assert rules
    assert [rule for rule in rules if "*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])] == []
    bound = {(each["name"], each["namespace"]) for one in PREREQUISITES for each in one.get("subjects", ())}
    own = {"modelplane-gateway", "modelplane-gateway-controller"}
    assert bound == {(name, "modelplane-system") for name in own}


def test_the_installation_is_the_configuration_with_every_package_that_it_needs_and_no_other():
    needed = {
        (each["kind"], installed_name(each["package"])): each["package"]
        for each in ABOUT["spec"]["dependsOn"]
    }
    found = {
        (kind, name): address
        for kind in ("Function", "Provider")
        for name, (address, _) in _installed(kind).items()
    }
    assert found == needed
    assert _installed("Configuration") == {
        "modelplane": ["ghcr.io/modelplane/configuration", f"v{__version__}"]
    }


def test_each_version_is_one_that_the_configuration_takes():
    for each in ABOUT["spec"]["dependsOn"]:
        _, version = _installed(each["kind"])[installed_name(each["package"])]
        assert version.removeprefix("v") in SpecifierSet(each["version"].replace("v", ""))


def test_the_compositions_call_the_function_by_its_name():
    [name] = _installed("Function")
    called = {
        step["functionRef"]["name"]
        for each in PACKAGED
        if each["kind"] == "Composition"
        for step in each["spec"]["pipeline"]
    }
    assert called == {name}


def test_the_provider_runs_with_the_options_that_the_how_to_asks_for():
    [config] = [each for each in INSTALLED if each["kind"] == "DeploymentRuntimeConfig"]
    [provider] = [each for each in INSTALLED if "runtimeConfigRef" in each["spec"]]
    assert provider["spec"]["runtimeConfigRef"]["name"] == config["metadata"]["name"]
    [container] = config["spec"]["deploymentTemplate"]["spec"]["template"]["spec"]["containers"]
    how_to = (FOLDER.parents[1] / "docs" / "how-to" / "crossplane.md").read_text()
    assert f"args: [{', '.join(container['args'])}]" in how_to


def test_the_file_is_what_the_code_says():
    assert list(build_installation()) == INSTALLED


@pytest.mark.parametrize("document", INSTALLED, ids=lambda each: each["kind"])
def test_crossplanes_own_schemas_know_every_field(document):
    known = schemas("crossplane")
    assert list(problems(document, known[document["apiVersion"], document["kind"]])) == []
