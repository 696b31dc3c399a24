from typing import Any

import pytest

from modelplane.api.model_cache import CacheEstimate, ModelCache
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cache import cache_size
from modelplane.compose.cache.staging_sources import find_source

SPEC = {"source": "HuggingFace", "huggingFace": {"repo": "team/model"}}
CACHE = decode_as(ModelCache, {"metadata": {"name": "weights"}, "spec": SPEC})
JOB = {"metadata": {"name": "measure"}}


def pod(message: str, code: int = 66, job: str = "measure") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "message": message}}
    metadata = {"name": "x", "labels": {"batch.kubernetes.io/job-name": job}}
    return {"metadata": metadata, "status": {"containerStatuses": [{"name": "hydrate", "state": state}]}}


def reported(*pods: dict[str, Any]) -> CacheEstimate | str | None:
    source = find_source(CACHE.spec)
    assert source is not None
    return cache_size.read_estimate(source, JOB, pods)


@pytest.mark.parametrize(
    ("size", "gib", "told"),
    [
        (0, 1, "0.0 GiB in 3 files"),
        (900 << 20, 1, "0.9 GiB in 3 files"),
        (1 << 30, 2, "1.0 GiB in 3 files"),
        (100 << 30, 111, "100.0 GiB in 3 files"),
    ],
)
def test_a_volume_has_a_tenth_more_than_the_source_reports(size: int, gib: int, told: str) -> None:
    found = reported(pod(f"a warning\n{size} bytes in 3 files"))
    assert isinstance(found, CacheEstimate)
    assert (found.size_gib, found.message) == (gib, f"estimated: team/model reports {told}")


def test_a_source_that_is_larger_than_any_volume_is_said() -> None:
    assert reported(pod(f"{10**17} bytes in 1 files")) == (
        "team/model reports 93132257 GiB, and a volume can have at most 100000 GiB"
    )


@pytest.mark.parametrize(
    "other",
    [
        pod("1 bytes in 1 files", code=65),
        pod("1 bytes in 1 files", job="of another source"),
        pod("1 bytes in 1 files, or so"),
        pod("-1 bytes in 1 files"),
        pod(""),
        {"metadata": {"name": "x"}},
    ],
)
def test_nothing_else_is_an_answer(other: dict[str, Any]) -> None:
    assert reported(other) is None
