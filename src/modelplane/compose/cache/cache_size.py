"""Size of a cache's volume where the author gives none: what its source reports, and a tenth more.

A Job measures the source and ends with the line ``BYTES bytes in FILES files``.
"""

import re
from collections.abc import Iterable

from modelplane.api.fields.cache_sources import LARGEST_GIB
from modelplane.api.meta import Object
from modelplane.api.model_cache import CacheEstimate, ModelCache
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.compose.cache.staging_sources import MEASURED, Source

_GIB = 1 << 30
_REPORT = re.compile(r"(?P<bytes>[0-9]{1,18}) bytes in (?P<files>[0-9]{1,9}) files")
_JOB_NAME = "batch.kubernetes.io/job-name"


def recorded(cache: ModelCache, source: Source) -> CacheEstimate | None:
    """Return the estimate that the status has for a source without a size."""
    estimate = cache.status.estimate
    known = estimate is not None and estimate.artifact == source.artifact
    return estimate if known and not source.size_gib else None


def read_estimate(source: Source, job: Object, pods: Iterable[Object]) -> CacheEstimate | str | None:
    """Return the estimate that a Job's pod ended with; why there is none; None if none has ended so."""
    for pod in pods:
        if pod["metadata"].get("labels", {}).get(_JOB_NAME) != job["metadata"]["name"]:
            continue
        for container in get_list(pod, "status", "containerStatuses"):
            ended = get_map(container, "state", "terminated")
            lines = str(ended.get("message", "")).splitlines() or [""]
            found = _REPORT.fullmatch(lines[-1])
            if ended.get("exitCode") == MEASURED and found:
                return _estimate(source, int(found["bytes"]), int(found["files"]))
    return None


def wire(estimate: CacheEstimate) -> Object:
    """Return the entry of the status."""
    return {"sizeGiB": estimate.size_gib, "artifact": estimate.artifact, "message": estimate.message}


def _estimate(source: Source, size: int, files: int) -> CacheEstimate | str:
    gib = size * 11 // (10 * _GIB) + 1
    if gib > LARGEST_GIB:
        return f"{source.name} reports {size / _GIB:.0f} GiB, and a volume can have at most {LARGEST_GIB} GiB"
    counted = "1 file" if files == 1 else f"{files} files"
    return CacheEstimate(
        size_gib=gib,
        artifact=source.artifact,
        message=f"estimated: {source.name} reports {size / _GIB:.1f} GiB in {counted}",
    )
