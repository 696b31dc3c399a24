"""The example and the how-to of outside providers lead to the path that they say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.gateway_api.route_tree import ROUTE, build_routes
from modelplane.gateway.services import find_rewriting, select

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "concepts" / "model-endpoint.yaml"
PAGES = (EXAMPLE, EXAMPLE.parent / "README.md", ROOT / "docs" / "how-to" / "external-providers.md")
SERVICE = decode_as(
    ModelService,
    {
        "metadata": {"name": "kimi-k2", "namespace": "ml-team"},
        "spec": {
            "endpoints": [{"selector": {"matchLabels": {"modelplane.ai/external-provider": "together"}}}]
        },
    },
)


def _endpoint(rewrite_path: str) -> ModelEndpoint:
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    manifest["spec"]["rewritePath"] = rewrite_path
    return decode_as(ModelEndpoint, manifest)


def _sent(rewrite_path: str, asked: str) -> str:
    """Return the path that a provider is sent by a gateway of Gateway API, which takes the longest match."""
    selected = select(SERVICE, [_endpoint(rewrite_path)], Destinations())
    rules = build_routes(SERVICE, selected, per_backend=True)[ROUTE]["spec"]["rules"]
    matching = {
        match["path"]["value"]: rule
        for rule in rules
        for match in rule["matches"]
        if asked.startswith(match["path"]["value"])
    }
    prefix = max(matching, key=len)
    [reference] = matching[prefix]["backendRefs"]
    [rewrite] = reference["filters"]
    return str(rewrite["urlRewrite"]["path"]["replacePrefixMatch"]) + asked.removeprefix(prefix)


def test_the_example_replaces_the_prefix_and_leaves_the_version_to_the_client() -> None:
    assert yaml.safe_load(EXAMPLE.read_text())["spec"]["rewritePath"] == "/"


@pytest.mark.parametrize(
    ("rewrite_path", "asked", "sent"),
    [
        pytest.param("/", "v1/chat/completions", "/v1/chat/completions", id="the example"),
        pytest.param("/v1/", "v1/chat/completions", "/v1/chat/completions", id="a version is not repeated"),
        pytest.param("/v1/", "models", "/v1/models", id="a version is added where it is missing"),
        pytest.param("/", "models", "/models", id="no version is added"),
        pytest.param("/openai/v1/", "v1/models", "/openai/v1/models", id="a base path comes first"),
    ],
)
def test_a_provider_is_sent_the_path_that_the_pages_say(rewrite_path: str, asked: str, sent: str) -> None:
    assert _sent(rewrite_path, f"/ml-team/kimi-k2/{asked}") == sent
    # The Envoy gateway is given the same two parts; test_external_providers.py asks it.
    assert find_rewriting(_endpoint(rewrite_path)) == (
        rewrite_path,
        "v1" if rewrite_path.endswith("v1/") else "",
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_says_that_a_version_doubles(page: Path) -> None:
    text = " ".join(re.sub(r"^#", "", line).strip() for line in page.read_text().splitlines())
    assert "/v1/v1" not in text
    assert re.search(r"is(?: not|n't) repeated", text)
