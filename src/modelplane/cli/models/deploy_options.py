"""The MODEL of ``size`` and ``deploy``, and the options of ``deploy`` that describe the deployment."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from modelplane.cli.target import add_namespace_option
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.checkpoints.checkpoint import Checkpoint

F = TypeVar("F", bound=Callable[..., Any])

TOKENS_OPTION: Final = "--context-length"

_MODEL_OPTIONS = (
    click.argument("model", metavar="MODEL|./FOLDER"),
    click.option(
        "--revision", default="", metavar="NAME", help="Branch, tag, or commit on the hub. Default: main."
    ),
    click.option(
        TOKENS_OPTION,
        type=click.IntRange(1, 2**31),
        metavar="TOKENS",
        help=("Tokens per sequence, prompt and response together. Default: the maximum of the model."),
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 1_000_000),
        default=1,
        metavar="NUMBER",
        help="Number of concurrent sequences of this length. Default: 1.",
    ),
)


def add_model_options(command: F) -> F:
    """Give a command MODEL, its revision, and the load that it serves."""
    for option in reversed(_MODEL_OPTIONS):
        command = option(command)
    return command


def is_folder(model: str) -> bool:
    """Return True if MODEL is the path of a folder, not a repository of the hub."""
    return model.startswith((".", "/", "~"))


def read_checkpoint(model: str, revision: str) -> "Checkpoint":
    """Return the checkpoint of a folder or of the hub. Raises ``UserError``."""
    from modelplane.checkpoints import checkpoint
    from modelplane.checkpoints.folder import Folder
    from modelplane.checkpoints.hub import Hub

    if model.endswith(".gguf"):
        raise UserError(
            "the size of a GGUF file cannot be computed: name the original safetensors checkpoint"
        )
    if is_folder(model):
        if revision:
            raise click.UsageError("--revision applies only to models on the hub: omit it for a folder")
        return checkpoint.read(Folder(Path(model).expanduser()))
    if model.count("/") != 1:
        hint = f": for a folder, write ./{model}" if Path(model).is_dir() else ""
        raise click.UsageError(f'"{model}" is not OWNER/NAME{hint}')
    return checkpoint.read(Hub(model, revision))


TOKEN_SECRET: Final = "hf-token"  # noqa: S105  the name of a Secret


@dataclass(frozen=True, slots=True)
class DeployOptions:
    """Values of the options; each field has the name of an option's parameter."""

    model: str
    revision: str
    context_length: int | None
    concurrency: int
    quantization: str | None
    name: str
    namespace: str
    replicas: int
    engine: str
    image: str
    use_cache: bool
    claim: str
    token_secret: str

    @property
    def is_folder(self) -> bool:
        """True if the model is a folder."""
        return is_folder(self.model)

    @property
    def models_name(self) -> str:
        """The name of the model, or of its folder."""
        return Path(self.model).expanduser().resolve().name if self.is_folder else self.model

    def check(self) -> None:
        """Refuse what can be told before anything is read."""
        from modelplane.api.names import MAX_LENGTH
        from modelplane.offline.models.model_manifests import LONGEST_NAME

        _check_name("--name", self.name, LONGEST_NAME)
        _check_name("--namespace", self.namespace, MAX_LENGTH)
        if self.claim and not self.is_folder:
            raise click.UsageError("--claim applies only to a folder: omit it for a model on the hub")
        if self.token_secret and self.is_folder:
            raise click.UsageError("--token-secret applies only to models on the hub: omit it for a folder")


def _check_name(option: str, name: str, most: int) -> None:
    from modelplane.api.schema.fields import DNS_LABEL

    if name and (len(name) > most or not re.fullmatch(DNS_LABEL, name)):
        raise click.BadParameter(
            f'"{name}" is not a valid name: use at most {most} lower-case letters, digits, and "-"',
            param_hint=option,
        )


_OPTIONS = (
    add_model_options,
    click.option(
        "--quantization",
        type=click.Choice(["fp8"]),
        help=("Format to which the engine converts a 16-bit checkpoint when loading. Default: as stored."),
    ),
    click.option(
        "--name",
        default="",
        metavar="NAME",
        help="Name of the objects. Default: derived from the model name.",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1, 10_000),
        default=1,
        metavar="NUMBER",
        help="Number of replicas. Default: 1.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["vllm", "sglang"]),
        default="vllm",
        help="Inference engine. Default: vllm.",
    ),
    click.option(
        "--image",
        default="",
        metavar="IMAGE",
        help=("Container image of the engine. Default: a tested image for the engine and the devices."),
    ),
    click.option(
        "--cache/--no-cache",
        "use_cache",
        default=True,
        help=("Stage the weights with a ModelCache if a cluster has storage for it. Default: --cache."),
    ),
    click.option(
        "--claim",
        default="",
        metavar="NAME",
        help=("PersistentVolumeClaim that contains the files of ./FOLDER. Default: the value of --name."),
    ),
    click.option(
        "--token-secret",
        default="",
        metavar="NAME",
        help=f"Secret that contains HF_TOKEN. Default: {TOKEN_SECRET} for a gated or private model.",
    ),
    add_namespace_option,
)


def add_deploy_options(command: F) -> F:
    """Give a command MODEL and the options, together as ``options``."""

    @wraps(command)
    def call_with_options(**given: Any) -> Any:
        return command(
            options=DeployOptions(**{field.name: given.pop(field.name) for field in fields(DeployOptions)}),
            **given,
        )

    for option in reversed(_OPTIONS):
        call_with_options = option(call_with_options)
    return cast("F", call_with_options)
