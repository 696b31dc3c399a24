"""Plans of deployments that stand by for one another."""

from pathlib import Path
from typing import Any

from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.offline.plan.fleet_of_files import sort_by_preference

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "topologies" / "standby"


def _plan(*, hopper: int, tmp_path: Path) -> str:
    fleet = tmp_path / "fleet.yaml"
    text = (EXAMPLE / "fleet.yaml").read_text()
    before, after = text.split("className: h100-1x\n      nodeCount: 2")
    fleet.write_text(f"{before}className: h100-1x\n      nodeCount: {hopper}{after}")
    # The last choice first: a plan finds the order itself.
    paths = [str(EXAMPLE / name) for name in ("3-int4.yaml", "2-bf16.yaml", "1-fp8.yaml")]
    return CliRunner().invoke(main, ["plan", "--fleet", str(fleet), *paths]).output


def test_a_plan_places_no_standby_while_the_first_choice_fits(tmp_path: Path) -> None:
    output = _plan(hopper=2, tmp_path=tmp_path)
    assert "1 of 1 replicas placed" in output
    assert 'gemma-bf16": standby: no replicas run while "gemma-fp8" has capacity' in output


def test_a_plan_places_the_second_choice_if_the_first_does_not_fit(tmp_path: Path) -> None:
    output = _plan(hopper=0, tmp_path=tmp_path)
    assert "1 of 2 replicas placed" in output
    assert 'standby: the replicas run, because "gemma-fp8" could not place all its replicas' in output
    assert 'gemma-int4": standby: no replicas run while "gemma-bf16" has capacity' in output


def _deployment(name: str, preferred: str = "") -> dict[str, Any]:
    spec = {"standbyFor": {"name": preferred}} if preferred else {}
    return {"metadata": {"namespace": "ml", "name": name}, "spec": spec}


def test_each_comes_after_the_one_that_it_stands_by_for_and_a_cycle_comes_last() -> None:
    given = [_deployment(*each) for each in (("x", "y"), ("c", "b"), ("y", "x"), ("b", "a"), ("a",), ("d",))]
    names = [each["metadata"]["name"] for each in sort_by_preference(given)]
    assert names == ["a", "d", "b", "c", "x", "y"]
