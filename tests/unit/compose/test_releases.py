from typing import Any

import pytest

from modelplane.compose.releases import merge_values, problem, progress


def test_values_are_merged_by_key_and_everything_else_is_replaced() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}, "f": 1}
    over = {"a": {"c": [3]}, "d": 2, "f": {"g": 1}}
    assert merge_values(base, over) == {"a": {"b": 1, "c": [3]}, "d": 2, "f": {"g": 1}}
    assert base["a"] == {"b": 1, "c": [1, 2]}


def _release(*conditions: tuple[str, str, str], **reported: Any) -> dict[str, Any]:
    written = [{"type": type_, "status": status, "message": said} for type_, status, said in conditions]
    return {"status": {"conditions": written, "atProvider": reported}}


@pytest.mark.parametrize(
    ("release", "error", "doing"),
    [
        pytest.param({}, "", "", id="nothing is reported yet"),
        pytest.param({"status": {"conditions": None, "atProvider": None}}, "", "", id="nothing at all"),
        pytest.param(_release(("Synced", "False", "no chart")), "no chart", "", id="not carried out"),
        pytest.param(
            _release(("Ready", "False", ""), state="failed", releaseDescription="timed out"),
            "timed out",
            "timed out",
            id="it failed",
        ),
        pytest.param(_release(state="failed"), "the release failed", "", id="it failed without a word"),
        pytest.param(
            _release(("Synced", "True", ""), ("Ready", "False", "installing"), state="pending-install"),
            "",
            "installing",
            id="it is being installed",
        ),
    ],
)
def test_what_a_release_reports(release: dict[str, Any], error: str, doing: str) -> None:
    assert (problem(release), progress(release)) == (error or None, doing)
