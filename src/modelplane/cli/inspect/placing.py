"""Output that ``plan`` and ``explain`` share: refusals, free capacity of the pools, and assumptions.

For a large fleet only the rows that concern the deployments are printed, and the rest is counted.
``--all`` and ``-o json`` print everything.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from modelplane.offline.plan.placements import Deployment, ExclusionReport, Explanation, Plan

NOT_PLACED: Final = 2
"""Exit status if a replica is not placed."""

_MOST: Final = 20
"""Number of pools, and of a deployment's refusals, up to which all are printed."""


def print_placements(deployments: "Sequence[Deployment]", *, everything: bool) -> None:
    """Print how many replicas are placed, and where, and what refused the others."""
    print_replicas(deployments)
    for deployment in deployments:
        if deployment.diagnosis:
            click.echo(f"\n{deployment.name}: {deployment.diagnosis}")
            print_refusals("", deployment.refusals, everything=everything)


def print_replicas(deployments: "Sequence[Deployment]") -> None:
    """Print how many replicas are placed, and where."""
    from modelplane.cli import tables
    from modelplane.offline.plan import placement_tables

    click.echo(placement_tables.describe_placed(deployments))
    places = placement_tables.list_places(deployments)
    tables.show(placement_tables.REPLICAS.tabulate("Replicas", places))


def print_rollout(deployments: "Sequence[Deployment]") -> None:
    """Print the progress of rollouts."""
    for deployment in deployments:
        if deployment.rollout:
            click.echo(f"\n{deployment.name}: rollout: {deployment.rollout}")


def print_standby(deployments: "Sequence[Deployment]") -> None:
    """Print why the replicas of standbys run or do not."""
    for deployment in deployments:
        if deployment.standby:
            click.echo(f"\n{deployment.name}: standby: {deployment.standby}")


def print_refusals(title: str, refusals: "Sequence[ExclusionReport]", *, everything: bool) -> None:
    """Print the refusals of a deployment; of many, those closest to a fit."""
    from modelplane.cli import tables
    from modelplane.offline.plan import placement_tables

    told = refusals if everything else placement_tables.select_closest(refusals, _MOST)
    tables.show(placement_tables.REFUSALS.tabulate(title, told))
    if len(told) < len(refusals):
        rest = len(refusals) - len(told)
        click.echo(f"and {rest:,} other refusals, none of them closer to a fit: --all shows them")


def print_cost(deployments: "Sequence[Deployment]") -> None:
    """Print the cost of deployments, if a pool of the fleet has a price."""
    from modelplane.offline.plan import placement_tables

    if costs := [cost for deployment in deployments if (cost := placement_tables.describe_cost(deployment))]:
        click.echo("\nCost:\n" + "\n".join(costs))


def print_alternatives(result: "Explanation", *, everything: bool) -> None:
    """Print where one more replica would fit, if costs make a difference."""
    from modelplane.cli import tables
    from modelplane.offline.plan import placement_tables

    if result.deployment.cost is None:
        return
    told = result.alternatives if everything else result.alternatives[:_MOST]
    tables.show(placement_tables.ALTERNATIVES.tabulate("One more replica would fit on", told))
    if rest := len(result.alternatives) - len(told):
        click.echo(f"and on {rest:,} other clusters: --all shows them")


def print_fleet(
    result: "Plan | Explanation", deployments: "Sequence[Deployment]", *, everything: bool
) -> None:
    """Print the free capacity of the pools, those that do not exist yet, and the clusters assumed ready."""
    from modelplane.cli import tables
    from modelplane.offline.files.diagnostics import join_choices
    from modelplane.offline.plan import placement_tables

    pools = result.pools
    told = pools if everything else placement_tables.select_pools(pools, deployments, _MOST)
    amounts = placement_tables.list_amounts(told)
    tables.show(placement_tables.CAPACITY.tabulate("Remaining capacity", amounts))
    if len(told) < len(pools):
        rest = f"{len(pools) - len(told):,}"
        counted = f"and {rest} other pools" if told else f"\nRemaining capacity: {rest} pools"
        click.echo(f"{counted}, in which none of these replicas is: --all shows them")
    for pool in told:
        if pool.why:
            click.echo(f"{pool.cluster}/{pool.pool}: {pool.why}")
    if absent := [f"{pool.cluster}/{pool.pool}" for pool in told if not pool.provisioned]:
        click.echo(f"\nYet to be provisioned: {join_choices(absent)}")
    if result.assumed_ready:
        click.echo(f"\nAssumed ready (no status in the manifest): {join_choices(result.assumed_ready)}")
