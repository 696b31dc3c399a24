"""Sizes of models on the hardware of the catalogue, or on the pools of a fleet."""

from collections.abc import Sequence
from typing import Final

from modelplane.api.meta import Object
from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.catalogue.inference_classes import build_class
from modelplane.checkpoints.checkpoint import Checkpoint, build_model
from modelplane.offline.models import size_report
from modelplane.offline.models.size_report import Size
from modelplane.sizing.memory import Load, Model
from modelplane.user_error import UserError

ELEMENT_BYTES: Final = {"auto": 2, "fp8": 1}
"""Bytes of an element of the KV cache, by its type."""


def size_model(
    checkpoint: Checkpoint,
    *,
    quantization: str | None,
    tokens: int | None,
    concurrency: int,
    kv_cache_dtype: str,
    fleet: Sequence[Object] | None,
    option: str,
) -> Size:
    """Return the size of a model, compared with the catalogue unless objects of a fleet are given.

    ``option`` names what sets ``tokens``, for messages. Raises ``UserError`` and ``InvalidObject``.
    """
    model = build_model(checkpoint, quantization)
    length = choose_context(model, tokens, option)
    load = Load(length, concurrency, ELEMENT_BYTES[kv_cache_dtype])
    if fleet is None:
        catalogue = load_catalogue()
        classes = [build_class(catalogue, machine) for machine in catalogue.machines.values()]
        hardware = size_report.size_classes(model, load, classes)
    else:
        hardware = size_report.size_pools(model, load, fleet)
    return size_report.size(checkpoint.name, model, load, hardware)


def choose_context(model: Model, tokens: int | None, option: str) -> int:
    """Return the tokens of a sequence: as given, else the maximum of the model. Raises ``UserError``."""
    most = model.architecture.max_positions
    if not tokens and not most:
        raise UserError(f"the model's config.json doesn't contain max_position_embeddings: set {option}")
    if tokens and most and tokens > most:
        raise UserError(f"the model supports at most {most:,} positions: lower {option}")
    return tokens or most
