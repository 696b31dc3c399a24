import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from modelplane.api.clouds.serving_stack import Versions
from modelplane.cli.main import main
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.serving_stack.table import COMPONENTS
from modelplane.install.installation_options import Options
from modelplane.install.manifests import build_manifests
from support.goldens import GOLDENS

ROOT = Path(__file__).parents[3]
NAMES = {"image", "chart", "package"}
"""Keys whose values name something to pull."""


def run(*options: str) -> Result:
    return CliRunner().invoke(main, ["images", *options])


def listed(type_: str) -> set[str]:
    items = json.loads(run("-o", "json").output)["items"]
    return {each["reference"] for each in items if each["type"] == type_}


def named(value: Any) -> Iterator[str]:
    """Yield what the values below an object name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in NAMES and not isinstance(inner, dict):
                yield str(inner)
            yield from named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named(inner)


def documents(path: Path) -> list[Any]:
    return [*yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)]


def test_the_list_has_exactly_the_images_that_compositions_add_to_those_of_engines() -> None:
    added: set[str] = set()
    for name in GOLDENS.names():
        added |= {*named(GOLDENS.output(name))} - {*named(GOLDENS.input(name))}
    control_plane = set(named(build_manifests(Options())))
    assert control_plane
    assert listed("Image") == added | control_plane


def test_the_list_has_the_image_of_the_helm_chart() -> None:
    [values] = documents(ROOT / "package" / "helm" / "modelplane" / "values.yaml")
    assert {*named(values)} <= listed("Image")


def test_the_list_has_every_package_that_crossplane_is_told_to_install_and_their_dependencies() -> None:
    [*installed] = documents(ROOT / "examples" / "getting-started" / "configuration.yaml")
    clouds = {f"{each.package}:v{each.version}" for row in RECIPES.values() for each in row.providers}
    assert set(named(installed)) == listed("Package") - clouds
    assert clouds < listed("Package")
    needed = [
        name
        for page in (ROOT / "package" / "crossplane").glob("*/crossplane.yaml")
        for name in named(documents(page))
    ]
    assert needed
    assert set(needed) <= {each.rpartition(":")[0] for each in listed("Package")}


def test_the_list_has_the_chart_of_every_component_in_the_version_that_the_api_defaults_to() -> None:
    [definition] = documents(ROOT / "package" / "crds" / "infrastructure.modelplane.ai_servingstacks.yaml")
    [version] = definition["spec"]["versions"]
    stack = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    versions = {name: each["default"] for name, each in stack["versions"]["properties"].items()}
    del versions["gatewayApi"]  # its CRDs are in Envoy Gateway's chart
    charts = {each.rpartition(":")[0]: each.rpartition(":")[2] for each in listed("Chart")}
    assert charts == {
        row.chart.address: row.version(Versions()) for row in COMPONENTS if row.chart and row.version
    }
    assert set(versions.values()) <= set(charts.values())


def test_the_table_has_a_row_for_each_reference() -> None:
    lines = run().output.splitlines()
    assert lines[0].split() == ["TYPE", "REFERENCE", "WHERE", "PURPOSE"]
    assert {line.split()[1] for line in lines[1:]} == listed("Image") | listed("Package") | listed("Chart")
