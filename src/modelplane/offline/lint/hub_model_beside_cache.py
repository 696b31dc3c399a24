"""An engine that downloads its model although a cache is mounted."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.fields.pods.containers import Container
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.replica.engine_flags import model
from modelplane.offline.files.diagnostics import quote
from modelplane.offline.lint.advice import Advice
from modelplane.offline.lint.deployment_parts import find_settings, walk_members


def check(deployment: ModelDeployment) -> Iterator[Advice]:
    """Warn of an engine that downloads its model although a cache is mounted."""
    _, settings = find_settings(deployment)
    if settings.model_cache_ref is None:
        return
    for path, _, member in walk_members(deployment):
        container = member.template.spec.engine
        if repository := _hub_model(container):
            message = (
                f"the engine downloads {quote(repository)} and does not read ModelCache "
                f"{quote(settings.model_cache_ref.name)}: leave the model out of args, or name a path of the "
                "cache"
            )
            field = "args" if container.args else "command"
            yield Advice((*path, "template", "spec", "containers", 0, field), message, at_key=True)


_HUB_ID: Final = r"[A-Za-z0-9_][-A-Za-z0-9_.]*/[A-Za-z0-9_][-A-Za-z0-9_.]*(:\S+)?"


def _hub_model(container: Container) -> str | None:
    """Return the model of the Hugging Face hub that an engine serves; None if it is not from there."""
    named = model(container)
    if named is None:
        words = [*container.command, *container.args]
        served = words.index("serve") + 1 if "serve" in words else len(words)
        named = words[served] if served < len(words) else ""
    return named if re.fullmatch(_HUB_ID, named) else None
