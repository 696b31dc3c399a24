"""Sources of usage records: the files of this machine's Envoy, or the logs of the gateway's pods."""

from dataclasses import dataclass, field
from pathlib import Path

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.gateway.usage.usage_sums import Usage, record_of
from modelplane.install import gateway_deployment, installation_options
from modelplane.kube.client import Client
from modelplane.operations import pod_logs
from modelplane.operations.pod_logs import Container, LogOptions
from modelplane.proxy import envoy_directory


@dataclass(slots=True)
class Read:
    """Outcome of reading records."""

    damaged: int = 0
    """Number of lines of a file that are no records."""
    problems: list[str] = field(default_factory=list)
    """Sentences about logs that cannot be read."""


def read_files(directory: Path, sums: Usage) -> Read:
    """Add the records of an Envoy on this machine. Raises ``FileNotFoundError`` if it has never had any."""
    outcome = Read()
    for line in envoy_directory.read_lines(directory):
        record = record_of(line)
        if record is None:
            outcome.damaged += 1
        else:
            sums.add(record)
    return outcome


async def read_pods(client: Client, sums: Usage, since_s: int | None) -> Read:
    """Add the records in the logs of the gateway's pods, also of a container before its last restart.

    Envoy logs other lines too: they are skipped.
    """
    outcome = Read()

    def add(_container: Container, line: bytes) -> None:
        if record := record_of(line):
            sums.add(record)

    labels = installation_options.build_selector(gateway_deployment.GATEWAY_COMPONENT)
    pods = await pod_logs.list_containers("", client, SYSTEM_NAMESPACE, labels)
    containers = [container for container in pods if container.name == gateway_deployment.ENVOY]
    if not containers:
        outcome.problems.append(
            f'namespace "{SYSTEM_NAMESPACE}" contains no gateway pod: install a gateway, or select a fleet '
            "on this machine with --home"
        )
    restarted = [container for container in containers if container.restarts]
    note = outcome.problems.append
    await pod_logs.show(restarted, LogOptions(since_s=since_s, previous=True), add, note)
    await pod_logs.show(containers, LogOptions(since_s=since_s), add, note)
    return outcome
