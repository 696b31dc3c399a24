"""A cloud's cluster loses no resource, whatever is seen of it and of what it requires, in any order."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.api.decode import decode_as
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Blocked, Desired, Request, Unknown
from modelplane.compose.kinds import COMPOSERS

FOLDER = Path(__file__).parents[1] / "golden" / "composition"
FOLDERS = ("inference_cluster", *(recipe.type.__module__.rpartition(".")[2] for recipe in RECIPES.values()))
CASES = [
    path
    for folder in FOLDERS
    for path in sorted(FOLDER.glob(f"{folder}/*/input.yaml"))
    if "source: Existing" not in path.read_text()
]
STATUSES: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"conditions": None},
    {"conditions": [{"type": "Ready", "status": "False", "reason": "Deleting"}]},
    {"conditions": [{"type": "Synced", "status": "False", "message": "quota exceeded"}]},
    {"conditions": [{"type": "Ready", "status": "True"}], "atProvider": None},
    {"conditions": [{"type": "Ready", "status": "True"}], "atProvider": {"member": "m", "id": "i-1"}},
)
"""What may be seen of a child; None is an object that a reader has lost sight of."""


@pytest.mark.parametrize("path", CASES, ids=lambda path: str(path.parent.relative_to(FOLDER)))
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_nothing_once_composed_is_withdrawn(path: Path, data: st.DataObject) -> None:
    case = yaml.safe_load(path.read_text())
    composer = COMPOSERS[case["owner"]["kind"]]
    owner = decode_as(composer.type, case["owner"])
    keys = [each.key for each in composer.requirements(owner)]
    existing: dict[str, Any] = copy.deepcopy(case.get("observed", {}))
    for _ in range(6):
        observed = {}
        for key, child in existing.items():
            status = data.draw(st.sampled_from(STATUSES))
            if status is not None:
                observed[key] = {**child, "status": status}
        required: dict[str, Any] = {}
        for key in keys:
            usual = tuple(case.get("required", {}).get(key, ()))
            required[key] = data.draw(st.sampled_from([usual, usual, (), Unknown("the server is down")]))
        composition = composer.compose(Request(owner, observed, required))
        if isinstance(composition, Blocked):
            continue
        assert set(observed) - {child.key for child in composition.children} == set()
        existing |= {
            child.key: child.manifest for child in composition.children if isinstance(child, Desired)
        }
