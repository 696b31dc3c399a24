"""Readable objects: what an observed object says, or nothing if it cannot be read."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from modelplane.api.meta import Model
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.memo import per_version

M = TypeVar("M", bound=Model)


@cache
def readable(kind: type[M]) -> Callable[[Mapping[str, Any]], tuple[M, ...]]:
    """Return the function that decodes objects of a kind, once for each version.

    Its result is empty for an object that cannot be read, which the object's own conditions report.
    """

    def decoded(item: Mapping[str, Any]) -> tuple[M, ...]:
        try:
            return (decode_as(kind, item),)
        except InvalidObject:
            return ()

    return per_version(decoded)
