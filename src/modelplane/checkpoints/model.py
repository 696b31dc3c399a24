"""The model of a checkpoint, as it is sized."""

from modelplane.checkpoints.checkpoint import Checkpoint
from modelplane.sizing.architecture import architecture
from modelplane.sizing.loaded_weights import weights
from modelplane.sizing.memory import Model
from modelplane.sizing.precision import PRECISIONS


def model_of(checkpoint: Checkpoint, quantization: str | None) -> Model:
    """Return the model, as if it were converted to a quantization. Raises ``Unsizable``."""
    found = architecture(checkpoint.config)
    precision = PRECISIONS[quantization] if quantization else None
    return Model(
        found,
        weights(found, checkpoint.tensors, precision),
        precision.quantization if precision else found.quantization,
    )
