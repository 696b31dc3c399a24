"""The ScaledObject that a page shows is one by KEDA's own schema, and scales what it says."""

from pathlib import Path
from typing import Any

import yaml

from modelplane.api.kinds import kind_of
from modelplane.api.model_deployment import ModelDeployment
from support.third_party_crds import problems, schemas

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scale-to-zero.md"


def _shown() -> dict[str, Any]:
    blocks = [each.split("```")[0] for each in PAGE.read_text().split("```yaml\n")[1:]]
    [shown] = [found for found in map(yaml.safe_load, blocks) if found["kind"] == "ScaledObject"]
    return dict(shown)


def test_replicas_follow_requests_and_not_tokens() -> None:
    [trigger] = _shown()["spec"]["triggers"]
    parts = trigger["metadata"]["query"].split("+ ")
    tokens = [each for each in parts if "tokens_total" in each]
    assert tokens
    assert all("> bool 0" in each for each in tokens), "tokens only tell that there are requests"
    assert int(trigger["metadata"]["threshold"]) > 1, "one request does not take a replica of its own"


def test_the_scaled_object_of_the_page_passes_kedas_schema() -> None:
    shown = _shown()
    assert list(problems(shown, schemas("keda")[shown["apiVersion"], shown["kind"]])) == []
    kind = kind_of(ModelDeployment)
    target = shown["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"], bool(kind.scale)) == (kind.api_version, kind.name, True)
