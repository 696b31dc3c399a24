"""Flow: compose the cluster of a cloud, the same for every cloud.

Each child is a managed resource, which the cloud's provider makes. All are written at once, and the provider
waits for those that a resource refers to. Only a child with a value that another one reports is composed
later, and then stays.
"""

import re
from collections.abc import Iterator
from typing import Any

from modelplane.api.clouds.cloud_rows import Cloud, get_cache_storage
from modelplane.api.clouds.cloud_settings import Credentials, CredentialsKind
from modelplane.api.conditions.reasons import CloudClusterCondition as Type, CloudClusterReason as Reason
from modelplane.api.listing import in_order, listing
from modelplane.api.meta import Object
from modelplane.compose import guards
from modelplane.compose.clouds.kinds import Provider
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import ACCOUNT_KEY, Site, Waiting
from modelplane.compose.composition import Composition, Desired, Keep, Request, Requirement, Unknown, keep_all
from modelplane.compose.conditions import SYNCED, Condition, false, true
from modelplane.compose.definition_owner import CRD_API_VERSION
from modelplane.compose.readiness import condition_of

DEFINITION_KEY = "definition-"
"""Prefix of the keys of the requirements for definitions; the provider's package follows."""

_OF_ONE_REQUEST = re.compile(
    r'("?((request|correlation|operation|trace)[ _]?id|timestamp)"?: ?"?'
    r'[0-9a-z-]*[0-9][0-9a-z-]*( ?[0-9:.]+Z)?"?|\b(request|trace) = [\w-]+)[,.]?\s*',
    re.IGNORECASE,
)
"""Parts that differ each time in the same error of AWS (``RequestID: …``), Azure (``Correlation ID: …,
Timestamp: …``) or Nebius (``request = …``)."""


def requirements(recipe: Recipe, cluster: Any) -> tuple[Requirement, ...]:
    """Return the requirements of a cluster: its providers, its account if it is read, its users."""
    return (
        *(
            Requirement(
                DEFINITION_KEY + provider.package,
                CRD_API_VERSION,
                "CustomResourceDefinition",
                name=provider.kinds[0].definition,
            )
            for provider in _with_kinds(recipe)
        ),
        *([_account(recipe, cluster)] if recipe.needs_account(cluster) else []),
        *guards.requirements(recipe.kind, cluster.metadata),
    )


def _with_kinds(recipe: Recipe) -> Iterator[Provider]:
    return (provider for provider in recipe.providers if provider.kinds)


def _account(recipe: Recipe, cluster: Any) -> Requirement:
    credentials = cluster.spec.credentials or Credentials()
    return Requirement(
        ACCOUNT_KEY,
        recipe.account.api_version,
        str(credentials.type),
        namespace=cluster.metadata.namespace if credentials.type is CredentialsKind.PROVIDER_CONFIG else "",
        name=credentials.name,
    )


def compose(recipe: Recipe, request: Request[Any, Any]) -> Composition:
    """Compose a cluster; in doubt, keep every resource as it is."""
    site: Site[Any] = Site(request)
    condition = _not_installed(recipe, request)
    if condition is None and (problems := list(recipe.problems(site))):
        condition = false(Type.CLUSTER_READY, Reason.INVALID_SETTINGS, in_order(problems, separator="; "))
    if condition is not None:
        return _composition(recipe, site, keep_all(request.observed), condition)
    composed = [part for compose_part in recipe.parts for part in compose_part(site)]
    waiting = [part for part in composed if isinstance(part, Waiting)]
    desired = [part for part in composed if isinstance(part, Desired)]
    kept = tuple(Keep(part.key) for part in waiting if part.key in request.observed)
    condition = _progress(recipe, request, desired, waiting)
    return _composition(recipe, site, (*desired, *kept), condition)


def _composition(
    recipe: Recipe, site: Site[Any], children: tuple[Desired | Keep, ...], condition: Condition
) -> Composition:
    status: dict[str, Any] = {"secrets": list(recipe.secrets(site))}
    if storage := get_cache_storage(Cloud(recipe.source)):
        file_system = recipe.file_system(site)
        status["cache"] = {
            "storageClassName": storage,
            **({"fileSystem": file_system} if file_system else {}),
        }
    return Composition(
        children=children,
        status=status,
        conditions=(condition,),
        ready=condition.holds,
        guards=guards.find_guards(recipe.kind, site.request),
    )


def _not_installed(recipe: Recipe, request: Request[Any, Any]) -> Condition | None:
    """Return a condition that names the packages that are missing, or that cannot be looked for."""
    missing = []
    for provider in _with_kinds(recipe):
        found = request.required.get(DEFINITION_KEY + provider.package, Unknown("not fetched yet"))
        if isinstance(found, Unknown):
            message = f"cannot read CustomResourceDefinition {provider.kinds[0].definition}: {found.cause}"
            return false(Type.CLUSTER_READY, Reason.PROVIDER_NOT_INSTALLED, message)
        if not any("deletionTimestamp" not in item["metadata"] for item in found):
            missing.append(f"{provider.package}:v{provider.version}")
    if not missing:
        return None
    message = (
        f"the CRDs for {recipe.title} are not installed: install Crossplane's "
        f"{('package' if len(missing) == 1 else 'packages')} {listing(missing)}"
    )
    return false(Type.CLUSTER_READY, Reason.PROVIDER_NOT_INSTALLED, message)


def _progress(
    recipe: Recipe, request: Request[Any, Any], desired: list[Desired], waiting: list[Waiting]
) -> Condition:
    unready = [child for child in desired if not child.ready(request.observed.get(child.key, {}))]
    if not unready and not waiting:
        return true(Type.CLUSTER_READY, Reason.RESOURCES_READY, f"all {len(desired)} resources are ready")
    problems = [problem for child in unready if (problem := _problem(request, child))]
    total = len(desired) + len(waiting)
    message = f"{len(desired) - len(unready)} of {total} resources are ready"
    if problems:
        message = f"{message}: {in_order(problems, separator='; ')}"
    elif waiting and not unready:
        message = f"{message}: waiting for {listing({part.cause for part in waiting})}"
    elif unready:
        message = f"{message}: waiting for {listing(map(_named, unready))}"
    unknown = request.unknown(ACCOUNT_KEY) if recipe.needs_account(request.owner) else None
    if waiting and recipe.needs_account(request.owner) and (unknown or not request.found(ACCOUNT_KEY)):
        account = _account(recipe, request.owner)
        where = f' in namespace "{account.namespace}"' if account.namespace else ""
        cause = f"cannot be read: {unknown.cause}" if unknown else "does not exist: create it"
        message = f'{message}. {account.kind} "{account.name}"{where} of {account.api_version}: {cause}'
        return false(Type.CLUSTER_READY, Reason.WAITING_FOR_ACCOUNT, message)
    return false(Type.CLUSTER_READY, Reason.CREATING, message)


def _problem(request: Request[Any, Any], child: Desired) -> str | None:
    """Return the provider's error about a child; None if it reports none."""
    synced = condition_of(request.observed.get(child.key, {}), SYNCED)
    if synced.get("status") != "False":
        return None
    # The same error has the same text, although each request to a cloud has an id of its own.
    said = _OF_ONE_REQUEST.sub("", str(synced.get("message") or synced.get("reason"))).rstrip(", \r\n")
    return f"{_named(child)}: {said}"


def _named(child: Desired) -> str:
    manifest: Object = child.manifest
    return f'{manifest["kind"]} "{manifest["metadata"]["name"]}"'
