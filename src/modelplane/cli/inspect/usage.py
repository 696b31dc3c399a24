"""``modelplane usage``: sum the gateway's usage records."""

import datetime as dt
import json
from typing import TYPE_CHECKING

import click

from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.options import Duration, format_example
from modelplane.cli.output import TEXT, add_output_option, print_document
from modelplane.cli.target import Target, add_target_options, read
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.gateway.usage.costs import Tariff
    from modelplane.gateway.usage.usage_sums import Group, Usage
    from modelplane.local.home import Home
    from modelplane.operations.usage_records import Read

_BY = ("key", "service", "model", "backend", "namespace")
_OTHERS = "(others)"


@click.command(epilog=format_example("modelplane usage --by key --since 1h"))
@click.option("--by", type=click.Choice(_BY), default="service", help="Field to group by. Default: service.")
@click.option(
    "--since",
    "since_s",
    type=Duration("omit --since to include all records"),
    help=("Include only requests that started within a duration such as 1h or 7d. Default: all records."),
)
@add_target_options
@add_output_option
def usage(*, by: str, since_s: int | None, target: Target, output: str) -> None:
    """Report requests, tokens, and latency at the gateway.

    The command reads the records of the local fleet from files, and the records of another control plane from
    the logs of the gateway pods. The exit status is 1 if a log can't be read.
    """
    from modelplane.gateway.usage.usage_sums import By, Usage
    from modelplane.operations import usage_records

    since = None if since_s is None else dt.datetime.now(dt.UTC) - dt.timedelta(seconds=since_s)
    tariff, problem = _tariff(target)
    sums = Usage(By(by), since, tariff.compute_cost_of_record)
    home = target.find_local_home()
    if home is not None:
        outcome = _of_this_machine(home, sums)
    else:
        outcome = read(
            target, "the gateway's pods", lambda client: usage_records.read_pods(client, sums, since_s)
        )
    if output != TEXT:
        print_document(
            {
                "by": by,
                "since": since.isoformat(timespec="seconds") if since else None,
                "currency": tariff.currency or None,
                "groups": [{by: name} | _format_sums(group, tariff.currency) for name, group in sums.groups],
                "others": _format_sums(sums.others, tariff.currency) if sums.others.requests else None,
                "damagedLines": outcome.damaged,
                "problems": list(outcome.problems),
            },
            output,
        )
    else:
        _print_groups(by, sums, tariff.currency)
    notes = list(outcome.problems)
    if outcome.damaged:
        notes.append(
            "Skipped 1 damaged line" if outcome.damaged == 1 else f"Skipped {outcome.damaged:,} damaged lines"
        )
    if not sums.groups:
        notes.append("No requests")
    for note in (*notes, *filter(None, [problem])):
        click.echo(note, err=True)
    if outcome.problems:
        raise click.exceptions.Exit(FAILED)


def _tariff(target: Target) -> "tuple[Tariff, str]":
    """Return the prices of the gateway; none, and why, where they cannot be read."""
    from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway
    from modelplane.api.schema.decode import InvalidObject, decode_as
    from modelplane.cli.machine.running import is_running
    from modelplane.controllers.fleet_resources import resource_of_kind
    from modelplane.gateway.usage.costs import Tariff

    home = target.find_local_home()
    if home is not None and not is_running(home):
        return Tariff(None), ""
    try:
        gateway = read(
            target, "the prices", lambda client: client.get(resource_of_kind(InferenceGateway), DEFAULT_NAME)
        )
        spec = decode_as(InferenceGateway, gateway).spec if gateway else None
    except (UserError, InvalidObject) as error:
        return Tariff(None), f"costs are unknown: {error}"
    return Tariff(spec.pricing if spec else None), ""


def _of_this_machine(home: "Home", sums: "Usage") -> "Read":
    from modelplane.operations import usage_records

    try:
        return usage_records.read_files(home.envoy, sums)
    except FileNotFoundError:
        raise UserError(
            f"no usage records in {home.envoy}: run `modelplane up` and send a request, or select another "
            "control plane with --kubeconfig"
        ) from None


def _print_groups(by: str, sums: "Usage", currency: str) -> None:
    from modelplane.api.report_tables import Columns
    from modelplane.cli.output import print_table
    from modelplane.gateway.usage.costs import format_rounded

    cost = ((f"COST {currency}", lambda row: format_rounded(row[1].cost, 4)),) if currency else ()
    columns = Columns[tuple[str, "Group"]](
        (by.upper(), lambda row: row[0]),
        ("REQUESTS", lambda row: f"{row[1].requests:,}"),
        ("ERRORS", lambda row: f"{row[1].errors:,}"),
        ("INPUT TOKENS", lambda row: f"{row[1].prompt_tokens:,}"),
        ("OUTPUT TOKENS", lambda row: f"{row[1].completion_tokens:,}"),
        ("ESTIMATED", lambda row: f"{row[1].estimated_tokens:,}"),
        *cost,
        ("TTFT P50", lambda row: _format_ms(row[1].first_token.find_percentile(0.5))),
        ("TTFT P95", lambda row: _format_ms(row[1].first_token.find_percentile(0.95))),
        ("DURATION P50", lambda row: _format_ms(row[1].duration.find_percentile(0.5))),
        ("DURATION P95", lambda row: _format_ms(row[1].duration.find_percentile(0.95))),
    )
    others = [(_OTHERS, sums.others)] if sums.others.requests else []
    print_table(
        columns.tabulate("", [*((_format_name(name), group) for name, group in sums.groups), *others])
    )


def _format_ms(ms: int | None) -> str:
    return "" if ms is None else f"{ms:,} ms"


def _format_name(name: str) -> str:
    """Return a value that a client may have chosen, without what would change a terminal."""
    if not name:
        return "-"
    return name if name.isprintable() else json.dumps(name)


def _format_sums(group: "Group", currency: str) -> dict[str, object]:
    from modelplane.gateway.usage.costs import format_amount

    def list_percentiles(of: str) -> dict[str, int | None]:
        histogram = getattr(group, of)
        return {"p50": histogram.find_percentile(0.5), "p95": histogram.find_percentile(0.95)}

    return {
        "requests": group.requests,
        "errors": group.errors,
        "promptTokens": group.prompt_tokens,
        "completionTokens": group.completion_tokens,
        "estimatedTokens": group.estimated_tokens,
        "cost": format_amount(group.cost) if currency else None,
        "tokensWithoutPrice": group.unpriced_tokens if currency else None,
        "firstTokenMs": list_percentiles("first_token"),
        "durationMs": list_percentiles("duration"),
    }
