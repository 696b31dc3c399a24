"""Regions: the names by which region rules, clusters and endpoints know them.

A name is the value of the label ``modelplane.ai/region`` of an InferenceCluster. It is compared exactly.
"""

from collections.abc import Iterable
from typing import Annotated

from modelplane.api.listing import listing
from modelplane.api.schema.fields import LABEL_VALUE, about

Region = Annotated[str, about("Name of a region.", min_length=1, max_length=63, pattern=LABEL_VALUE)]

MOST_REGIONS = 32
"""Maximum of regions of a rule."""


def describe_place(region: str | None) -> str:
    """Return where something of a region is, for messages."""
    return f'in region "{region}"' if region else "in no region"


def format_regions(regions: Iterable[str]) -> str:
    """Return regions for messages."""
    return listing(f'"{region}"' for region in regions)
