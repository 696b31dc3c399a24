"""A gateway with one URL for all models: an Envoy with the module, and with the control plane's own files."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from modelplane.api.inference_gateway import KeyGrant, ModelAlias
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table
from modelplane.gateway.module_files.models import ModelTable, build_model_table
from modelplane.gateway.route_table import Front, Route
from support.envoys import Gateway, running_envoy

CREATED = 1_790_000_000
_CREATED = "2026-09-21T14:13:20Z"
_SETTLED = {"x-api-key": "sk-settled"}
"""Header of the requests that find out whether routes are in force, for which a key is needed."""


def keys(services: Mapping[str, tuple[str, ...]]) -> KeyFile:
    """Return a key for each namespace, ``sk-NAMESPACE``, with the services that it may use."""
    objects = [
        {
            "metadata": {"name": "ci", "namespace": namespace},
            "spec": {"hashes": [{"sha256": hashlib.sha256(f"sk-{namespace}".encode()).hexdigest()}]}
            | {"services": list(patterns)},
        }
        for namespace, patterns in services.items()
    ]
    grants = [KeyGrant(namespace=namespace, services=each) for namespace, each in services.items()]
    return build_key_table(objects, grants, KeyTable()).file


def front(
    services: Mapping[str, Sequence[str]],
    granted: Sequence[ModelAlias],
    key_file: KeyFile | None,
) -> Front:
    """Return what the control plane tells the module; ``services`` have the names of their own."""
    objects = [
        {
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": _CREATED},
            "spec": {"endpoints": [{"selector": {"matchLabels": {}}}], "aliases": list(aliases)},
        }
        for service, aliases in services.items()
        for namespace, _, name in [service.partition("/")]
    ]
    models = build_model_table(objects, granted, ModelTable(), with_keys=key_file is not None).file
    return Front(keys=key_file, models=models)


@asynccontextmanager
async def gateway_of(
    directory: Path,
    library: Path,
    settings: Front,
    *routes: Route,
) -> AsyncIterator[Gateway]:
    """Run an Envoy with the module, and routes that are in force."""
    async with running_envoy(directory, front=settings, library=library) as running:
        running.own_headers = _SETTLED
        await running.apply(*routes)
        yield running
