"""Output that ``plan`` and ``explain`` share: refusals, free capacity of the pools, and assumptions.

For a large fleet only the rows that concern the deployments are printed, and the rest is counted.
``--all`` and ``-o json`` print everything.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from modelplane.offline.plan.placements import Deployment, ExclusionReport, Plan

NOT_PLACED: Final = 2
"""Exit status if a replica is not placed."""

MOST: Final = 20
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
    from modelplane.cli.output import print_table
    from modelplane.offline.plan import placement_tables

    click.echo(placement_tables.describe_placed(deployments))
    places = placement_tables.list_places(deployments)
    print_table(placement_tables.REPLICAS.tabulate("Replicas", places))


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
    from modelplane.cli.output import print_table
    from modelplane.offline.plan import placement_tables

    print_table(placement_tables.tabulate_refusals(title, refusals, None if everything else MOST))


def print_cost(deployments: "Sequence[Deployment]") -> None:
    """Print the cost of deployments, if a pool of the fleet has a price."""
    from modelplane.offline.plan import placement_tables

    if costs := [cost for deployment in deployments if (cost := placement_tables.describe_cost(deployment))]:
        click.echo("\nCost:\n" + "\n".join(costs))


def print_fleet(result: "Plan", deployments: "Sequence[Deployment]", *, everything: bool) -> None:
    """Print the free capacity of the pools, those that do not exist yet, and the clusters assumed ready."""
    from modelplane.cli.output import print_table
    from modelplane.offline.plan import placement_tables

    pools = result.pools
    told = pools if everything else placement_tables.select_pools(pools, deployments, MOST)
    amounts = placement_tables.list_amounts(told)
    print_table(placement_tables.CAPACITY.tabulate("Remaining capacity", amounts))
    if len(told) < len(pools):
        rest = f"{len(pools) - len(told):,}"
        counted = f"and {rest} other pools" if told else f"\nRemaining capacity: {rest} pools"
        click.echo(f"{counted}, in which none of these replicas is: --all shows them")
    if notes := [*placement_tables.describe_pools(told, result.assumed_ready)]:
        click.echo("\n" + "\n".join(notes))
