"""The Helm chart has the values and the manifests of ``modelplane install``."""

import importlib
import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from modelplane.install.installation_options import Options, build_namespace
from modelplane.install.manifests import build_manifests

PACKAGE = Path(__file__).parents[3] / "package"
CHART = PACKAGE / "helm" / "modelplane"
TEMPLATES = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture
def helm_chart(monkeypatch):
    """The module that writes the chart."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    return importlib.import_module("helm_chart")


def at(path):
    value = DEFAULTS
    for step in path.removeprefix(".Values.").split("."):
        value = value[step]
    return value


def test_the_default_values_are_those_of_the_command(helm_chart):
    values = helm_chart.VALUES
    assert {value.path: at(value.path) for value in values} == {value.path: value.default for value in values}


def test_every_value_is_used_and_every_value_used_is_there(helm_chart):
    used = {path for text in TEMPLATES.values() for path in re.findall(r"\.Values\.([\w.]+)", text)}
    assert used == {value.path for value in helm_chart.VALUES}


def test_with_the_default_values_a_template_says_what_the_command_writes():
    everything = "".join(text for path, text in TEMPLATES.items() if path != "checks.yaml")
    # What a switch leaves out by default, and what is there for each namespace of a list that is empty.
    text = re.sub(r"{{- if \.Values\.serviceMonitor.*?{{- end }}\n", "", everything, flags=re.DOTALL)
    text = re.sub(r"{{- range .*?{{- else }}\n", "", text, flags=re.DOTALL)
    text = re.sub(r"{{- (if|end).*}}\n", "", text)
    text = re.sub(r"{{- toYaml (\S+) \| nindent \d+ }}", lambda found: " " + json.dumps(at(found[1])), text)
    text = re.sub(r"{{ (\S+)( \| quote)? }}", lambda found: json.dumps(at(found[1])), text)
    rendered = [each for each in yaml.safe_load_all(text) if each]
    # Helm makes the namespace of the release itself.
    expected = [each for each in build_manifests(Options()) if each != build_namespace()]
    assert sorted(map(str, rendered)) == sorted(map(str, expected))


@pytest.mark.parametrize(
    ("values", "valid"),
    [
        pytest.param(DEFAULTS, True, id="the defaults"),
        pytest.param({}, True, id="none"),
        pytest.param({"controller": {"replicas": 3}, "global": {"a": 1}}, True, id="one of them"),
        pytest.param({"controler": {}}, False, id="a misspelt one"),
        pytest.param({"gateway": {"replica": 1}}, False, id="a misspelt one within another"),
        pytest.param({"gateway": {"serviceType": "ExternalName"}}, False, id="a type that leads nowhere"),
        pytest.param({"teamNamespaces": "a"}, False, id="a text for a list"),
    ],
)
def test_the_schema_knows_a_wrong_value(values, valid):
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert jsonschema_rs.is_valid(schema, values) is valid


def test_a_manifest_that_would_be_taken_for_a_template_is_refused(helm_chart):
    with pytest.raises(ValueError, match=r"a manifest contains \{\{"):
        helm_chart._documents([{"note": "{{ .Values.image }}"}])
