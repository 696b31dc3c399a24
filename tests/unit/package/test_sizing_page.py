"""The page of sizes says that predictions agree with what is published."""

import re
from pathlib import Path

import pytest

from support.checkpoint_shapes import CHECKPOINTS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sizes.md"


def rows(heading: str) -> list[list[str]]:
    _, _, section = PAGE.read_text().partition(f"## {heading}\n")
    lines = re.findall(r"^\| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return [line.split(" | ") for line in lines[2:]]


def test_parameters_are_exact_and_checkpoints_within_a_hundredth() -> None:
    found = rows("Parameters and weights")
    assert [row[0] for row in found] == list(CHECKPOINTS)
    assert {row[2] for row in found} == {"equal"}
    assert [row for row in found if abs(float(row[6].removesuffix(" %"))) > 1] == []


def test_cache_and_splits_are_the_published_ones() -> None:
    expected = [[f"{each.token:,}", ", ".join(map(str, each.tensor_sizes))] for each in CHECKPOINTS.values()]
    assert [[row[1], row[3]] for row in rows("KV cache and splits")] == expected


@pytest.mark.parametrize("row", rows("Published minima"), ids=lambda row: f"{row[0]} {row[1]}")
def test_a_published_minimum_is_placed_within_its_bounds(row: list[str]) -> None:
    weights, short, longest, published = (float(each.replace(",", "")) for each in row[3:7])
    assert weights < short <= longest
    place = {
        published < weights: "**below the weights**",
        weights <= published < short: "**below a short sequence**",
        short <= published <= longest: "within the bounds",
        longest < published: "above the bounds",
    }
    assert row[7] == place[True]
