"""Prometheus' own checks of the alerts and queries that the documents and the board have."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool: apt-get install prometheus")


def checked(tmp_path: Path, groups: list[dict[str, Any]]) -> str:
    """Return what promtool says of rules; it must accept them."""
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_recommended_alerts_are_rules(tmp_path):
    page = (ROOT / "docs" / "how-to" / "observe.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    [rules] = [each for each in map(yaml.safe_load, blocks) if each["kind"] == "PrometheusRule"]
    groups = rules["spec"]["groups"]

    assert f"{sum(len(group['rules']) for group in groups)} rules found" in checked(tmp_path, groups)


def test_every_query_of_the_board_is_one(tmp_path):
    board = json.loads((ROOT / "package" / "grafana" / "modelplane.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    for variable, value in {"$__rate_interval": "5m", "$__range": "1h", "$__interval": "1m"}.items():
        queries = [query.replace(variable, value) for query in queries]
    rules = [{"record": f"query:number{number}", "expr": query} for number, query in enumerate(queries)]

    assert f"{len(queries)} rules found" in checked(tmp_path, [{"name": "board", "rules": rules}])
