"""Contexts that are longer than the model's, if its ``config.json`` is at hand.

One rule: what engines would refuse is reported, and nothing where the model, its configuration or a value is
not known. A model is that of an engine's command line, else of the ModelCache among the objects.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from modelplane.api.fields.pods.containers import Container
from modelplane.api.kinds import MODEL_DEPLOYMENT
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.replica.engine_command_lines import find_model_argument, list_written_words
from modelplane.offline.files.diagnostics import Path, Problem, Severity, quote
from modelplane.offline.files.engine_commands import EngineCommand, Flags, parse_commands
from modelplane.offline.files.manifest_objects import Manifest
from modelplane.offline.lint.advice import Configs, find_settings, walk_members

Repo = tuple[str, str]
"""A repository of the hub, and its revision; empty for the default one."""


class _Rule(msgspec.Struct, frozen=True):
    """The length of an engine's context."""

    flags: tuple[str, ...]
    changes: tuple[str, ...]
    """Flags whose value, in JSON, changes the configuration."""
    allowed_by: str
    """A variable with which the engine accepts a longer one."""
    consequence: str
    remedy: str


_RULES: Final[Mapping[str, _Rule]] = {
    "vllm": _Rule(
        ("--max-model-len",),
        ("--hf-overrides", "--rope-scaling"),
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        "vLLM does not start",
        "lower it, or extend the context with --hf-overrides",
    ),
    "sglang": _Rule(
        ("--context-length",),
        ("--json-model-override-args",),
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        "SGLang does not start",
        "lower it, or extend the context with --json-model-override-args",
    ),
    "llama.cpp": _Rule(("-c", "--ctx-size"), (), "", "answers get worse beyond that length", "lower it"),
}
_ELSEWHERE: Final = ("--config",)
"""Flags with which some of an engine's flags are in a file."""
_EXTENDED: Final = ("--rope-scaling", "--rope-scale", "--yarn-orig-ctx", "--override-kv")
"""Flags with which llama.cpp extends the context."""
_UNITS: Final = {
    "": 1,
    **{letter: 1000 ** (power + 1) for power, letter in enumerate("kmgt")},
    **{letter: 1024 ** (power + 1) for power, letter in enumerate("KMGT")},
}


class EngineAt(msgspec.Struct, frozen=True):
    """One start of an engine, with its container."""

    container: Container
    path: Path
    """The container in the deployment."""
    command: EngineCommand

    def warn(self, cached: Repo | None, configs: Configs) -> Iterator[tuple[Path, str]]:
        """Yield the warnings; ``cached`` is the known content of the deployment's cache."""
        table, given = self.command.engine.table, self.command.flags
        rule = _RULES[table]
        length = given.find(*rule.flags)
        tokens = _tokens(length.value or "", self.command) if length else 0
        if length is None or not tokens or _is_open(self.container, rule, given):
            return
        repo, revision = _model(self.container, given, cached)
        config = configs(repo, revision) if repo else None
        longest = _longest(config, table, given) if config else 0
        if table == "llama.cpp" and not given.find("-kvu", "--kv-unified"):
            # It is divided among the sequences.
            tokens //= given.get_number("-np", "--parallel") or tokens
        if longest and tokens > longest:
            message = (
                f"{length.written} {length.value} exceeds the context length of {quote(repo)}, {longest} "
                f"tokens according to config.json, and {rule.consequence}: {rule.remedy}"
            )
            yield (*self.path, *length.path), message


def find_engines(deployment: ModelDeployment) -> Iterator[EngineAt]:
    """Yield each start of an engine."""
    for path, _, member in walk_members(deployment):
        spec = member.template.spec
        where = (*path, "template", "spec", "containers", spec.containers.index(spec.engine))
        for command in parse_commands(spec.engine):
            yield EngineAt(spec.engine, where, command)


def _tokens(value: str, command: EngineCommand) -> int:
    """Return a length as an engine reads it; 0 if it is not a plain number."""
    units = "[kmgtKMGT]?" if command.engine.table == "vllm" else ""
    match = re.fullmatch(rf"(\d{{1,12}}(?:\.\d{{1,6}})?)({units})", value, re.ASCII)
    return int(float(match[1]) * _UNITS[match[2]]) if match else 0


def _is_open(container: Container, rule: _Rule, given: Flags) -> bool:
    """Return True if the engine accepts a longer context, or may find the option elsewhere."""
    names = {variable.name for variable in container.env}
    words = [word for written in list_written_words(container) for word in written.words]
    allowed = rule.allowed_by and (
        rule.allowed_by in names or any(word.startswith(rule.allowed_by) for word in words)
    )
    by_key = any(word.startswith(f"{flag}.") for word in words for flag in rule.changes)
    extended = not rule.allowed_by and given.find(*_EXTENDED)
    return bool(allowed or by_key or extended or given.find(*_ELSEWHERE))


def _model(container: Container, given: Flags, cached: Repo | None) -> Repo:
    """Return the repository of an engine's model; empty if it is another path, or not known."""
    named = find_model_argument(container)
    if named is None or named.startswith("/mnt/models"):
        return cached or ("", "")
    revision = given.find("--revision")
    # llama.cpp writes a quantization behind the repository.
    return named.partition(":")[0], (revision.value or "") if revision else ""


def _longest(config: bytes, table: str, given: Flags) -> int:
    """Return the longest context of a model with an engine's changes; 0 if it is unknown."""
    from modelplane.sizing import context  # noqa: PLC0415  few configurations are at hand
    from modelplane.sizing.architecture import parse_architecture  # noqa: PLC0415  see above
    from modelplane.user_error import UserError  # noqa: PLC0415  see above

    try:
        for name in _RULES[table].changes:
            if changed := given.find(name):
                value = changed.value or ""
                changes = f'{{"rope_parameters": {value}}}' if name == "--rope-scaling" else value
                config = context.replace_settings(config, changes)
        return context.LONGEST[table](parse_architecture(config))
    except UserError:
        return 0


class Check(msgspec.Struct):
    """The deployments and caches of the objects read so far."""

    _deployments: "list[tuple[Manifest, ModelDeployment, list[EngineAt]]]" = msgspec.field(
        default_factory=list
    )
    _caches: "dict[tuple[str, str], Repo]" = msgspec.field(default_factory=dict)

    def read(self, manifest: Manifest, decoded: Any) -> None:
        """Remember a deployment, or a cache of a repository of the hub."""
        if manifest.kind is MODEL_DEPLOYMENT:
            self._deployments.append((manifest, decoded, list(find_engines(decoded))))
        elif hub := decoded.spec.hugging_face:
            key = (decoded.metadata.namespace or "", decoded.metadata.name)
            self._caches[key] = (hub.repo, hub.revision or "")

    def find_problems(self, configs: Configs) -> Iterator[Problem]:
        """Warn of each engine whose context is longer than its model's."""
        for manifest, deployment, engines in self._deployments:
            cached = self._cached(deployment)
            for engine in engines:
                for path, message in engine.warn(cached, configs):
                    yield replace(manifest.report(path, message), severity=Severity.WARNING)

    def _cached(self, deployment: ModelDeployment) -> "Repo | None":
        _, settings = find_settings(deployment)
        if settings.model_cache_ref is None:
            return None
        return self._caches.get((deployment.metadata.namespace or "", settings.model_cache_ref.name))
