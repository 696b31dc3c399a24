"""Compositions of clusters of clouds, where the providers are installed."""

from typing import Any

from modelplane.api.schema.decode import decode_as
from modelplane.compose.clouds import flow
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.composition import Composition, Desired, NoFacts, Request


def definitions(recipe: Recipe) -> dict[str, Any]:
    """Return the definitions that stand for the providers, by the keys of their requirements."""
    return {
        flow.DEFINITION_KEY + provider.package: ({"metadata": {"name": provider.kinds[0].definition}},)
        for provider in recipe.providers
        if provider.kinds
    }


def composed(
    recipe: Recipe,
    spec: dict[str, Any],
    observed: dict[str, Any] | None = None,
    required: dict[str, Any] | None = None,
    name: str = "starter",
) -> Composition:
    """Return the composition of a cluster; what is not required is not there."""
    owner = decode_as(
        recipe.type, {"metadata": {"name": name, "namespace": "modelplane-system"}, "spec": spec}
    )
    found = definitions(recipe) | (required or {})
    for requirement in flow.requirements(recipe, owner):
        found.setdefault(requirement.key, ())
    return flow.compose(recipe, Request(owner, observed or {}, found, NoFacts()))


def said(composition: Composition) -> tuple[str, str]:
    """Return the reason and the message of the one condition."""
    [condition] = composition.conditions
    assert composition.ready == condition.holds
    return condition.reason, condition.message


def manifests(composition: Composition) -> dict[str, Any]:
    """Return every child that is composed, by key."""
    return {each.key: each.manifest for each in composition.children if isinstance(each, Desired)}
