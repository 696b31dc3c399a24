"""An engine that downloads its model although a cache is mounted."""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.replica.engine_command_lines import find_argument, find_model_argument
from modelplane.offline.files.diagnostics import quote
from modelplane.offline.lint.advice import Advice, find_settings, walk_members

_HUB_ID: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]*/[A-Za-z0-9_][-A-Za-z0-9_.]*(:\S+)?")
"""A model of the Hugging Face hub."""


def check(deployment: ModelDeployment) -> Iterator[Advice]:
    """Warn of an engine that downloads its model although a cache is mounted."""
    _, settings = find_settings(deployment)
    if settings.model_cache_ref is None:
        return
    for path, _, member in walk_members(deployment):
        container = member.template.spec.engine
        # The entry point of an image can be the program before "serve".
        named = find_model_argument(container) or find_argument(container, "serve")
        if named and _HUB_ID.fullmatch(named):
            message = (
                f"the engine downloads {quote(named)} instead of reading ModelCache "
                f"{quote(settings.model_cache_ref.name)}: remove the model from args, or use a path in the "
                "cache"
            )
            field = "args" if container.args else "command"
            yield Advice((*path, "template", "spec", "containers", 0, field), message, at_key=True)
