"""Connectors: what is added to the pods of the two phases, and what is refused."""

import pytest

from modelplane.api.fields.pods.containers import Container
from modelplane.api.fields.pods.engines import Connector, Phase
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.replica.backends.prefill_decode import (
    CONNECTORS,
    check_arguments,
    list_arguments,
)
from modelplane.offline.files.engine_commands import parse_commands
from modelplane.offline.lint import engine_advice
from support.replicas import engine, manifest, member

IMAGES = {Connector.SGLANG: "lmsysorg/sglang:v0.5.12.post1"}
COMMANDS = {Connector.SGLANG: ("python3", "-m", "sglang.launch_server")}
NIXL = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}'


def replica(connector=None, **container):
    chosen = {"connector": connector} if connector else {}
    engines = [
        engine(phase.lower(), member(**container), phase=phase) for phase in (Phase.PREFILL, Phase.DECODE)
    ]
    written = manifest(*engines, serving={"mode": "PrefillDecode", **chosen})
    return decode_as(ModelReplica, written)


def test_every_connector_has_a_row():
    assert set(CONNECTORS) == set(Connector)


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("connector", list(Connector))
def test_the_parser_of_the_engine_accepts_what_is_added(connector, phase):
    row = CONNECTORS[connector]
    container = Container(
        name="engine",
        image=IMAGES.get(connector, "vllm/vllm-openai:v0.23.0"),
        command=COMMANDS.get(connector, ()),
        args=row.prefill if phase is Phase.PREFILL else row.decode,
    )
    (command,) = parse_commands(container)
    assert [release.version for release in command.releases] == [command.version]
    assert list(engine_advice.check_flags(command)) == []
    assert [each.written for each in command.given[0]] == [each.partition("=")[0] for each in container.args]


@pytest.mark.parametrize(
    ("connector", "args", "added"),
    [
        pytest.param(None, (), (), id="none is chosen, so the flags are the author's"),
        pytest.param("NIXL", (), (NIXL,), id="the flag of the chosen one"),
        pytest.param("NIXL", ("--kv-transfer-config", "{}"), (), id="the flag that the author set"),
        pytest.param(
            "SGLang",
            ("--disaggregation-transfer-backend=mooncake",),
            ("--disaggregation-mode=prefill",),
            id="only the flags that the author has not set",
        ),
    ],
)
def test_arguments(connector, args, added):
    container = Container(name="engine", image="i", args=args)
    assert list_arguments(replica(connector), Phase.PREFILL, container) == added
    assert list_arguments(replica(connector), None, container) == ()


SCRIPT = {"command": ["sh", "-c", "exec vllm serve m"]}


@pytest.mark.parametrize(
    ("connector", "container", "message"),
    [
        pytest.param("NIXL", {}, None, id="added"),
        pytest.param(None, SCRIPT, None, id="nothing to add"),
        pytest.param(
            "NIXL",
            SCRIPT,
            f'engine "prefill": connector NIXL needs {NIXL}, which cannot be added to a script: '
            "write it there",
            id="a script gets no arguments",
        ),
        pytest.param(
            "NIXL",
            {"command": ["sh", "-c", "exec vllm serve m --kv-transfer-config '{}'"]},
            None,
            id="a script with the flag",
        ),
        pytest.param(
            "SGLang",
            {"args": ["--disaggregation-bootstrap-port=9000"]},
            'engine "prefill": the routing sidecar requests the KV cache on port 8998: '
            "remove --disaggregation-bootstrap-port",
            id="a port that the sidecar does not ask",
        ),
        pytest.param(
            "Mooncake",
            {"env": [{"name": "VLLM_MOONCAKE_BOOTSTRAP_PORT", "value": "9000"}]},
            'engine "prefill": the routing sidecar requests the KV cache on port 8998: '
            "remove VLLM_MOONCAKE_BOOTSTRAP_PORT",
            id="a port that the sidecar does not ask, in a variable",
        ),
        pytest.param(
            "Mooncake",
            {"env": [{"name": "VLLM_MOONCAKE_BOOTSTRAP_PORT", "value": "8998"}]},
            None,
            id="the port that the sidecar asks",
        ),
        pytest.param(
            "Mooncake",
            {
                "env": [
                    {"name": "VLLM_MOONCAKE_BOOTSTRAP_PORT", "value": "9000"},
                    {"name": "VLLM_MOONCAKE_BOOTSTRAP_PORT", "value": "8998"},
                ]
            },
            None,
            id="of a variable that is set twice, the last one is in force",
        ),
    ],
)
def test_refusals(connector, container, message):
    of = replica(connector, **container)
    found = check_arguments(of, of.spec.engines[0])
    assert (found.message if found else None) == message
