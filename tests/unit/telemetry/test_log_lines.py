"""Log lines for machines."""

import io
import json
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from modelplane.telemetry.traces import JsonFormatter, make_fields

SECRETS = ("s3cret-token", "s3cret-password", "s3cret-in-yaml", "czNjcmV0LWtleQ==", "s3cret-exec")


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    # Apart from all others: pytest's own copy of a line would have to be valid Unicode.
    logger = logging.Logger("modelplane.test", logging.INFO)  # noqa: LOG001  (apart is the point)
    logger.addHandler(handler)
    return logger


def _lines(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_line_has_its_time_level_logger_message_and_fields(
    log: logging.Logger, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 0.5)
    monkeypatch.setattr("time.time_ns", lambda: 500_000_000)
    log.info("%s is %s", "a", "b", extra=make_fields(kind="ModelReplica", name="a", duration_s=0.25))
    assert _lines(written) == [
        {
            "time": "1970-01-01T00:00:00.500000Z",
            "level": "INFO",
            "logger": "modelplane.test",
            "message": "a is b",
            "kind": "ModelReplica",
            "name": "a",
            "duration_s": 0.25,
        }
    ]


def test_an_exception_is_a_field_and_the_line_stays_one(log: logging.Logger, written: io.StringIO) -> None:
    try:
        int("first\nsecond")
    except ValueError:
        log.exception("failed")
    [line] = _lines(written)
    assert line["message"] == "failed"
    assert line["exception"].endswith("first\\nsecond'")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a\nb", id="two lines"),
        pytest.param("\u2028", id="a line separator"),
        pytest.param("\ud800", id="half a surrogate pair"),
        pytest.param('quote " and \\', id="a quote and a backslash"),
        pytest.param("\x00", id="a zero byte"),
    ],
)
def test_any_text_is_one_line(log: logging.Logger, written: io.StringIO, text: str) -> None:
    log.info("%s", text)
    assert [line["message"] for line in _lines(written)] == [text]
    assert written.getvalue().isascii()


def test_a_value_that_json_does_not_have_is_written_as_text(
    log: logging.Logger, written: io.StringIO
) -> None:
    log.info("a", extra=make_fields(at=ValueError("b")))
    assert _lines(written)[0]["at"] == "b"


def test_a_field_takes_the_place_of_none_of_the_line_itself(
    log: logging.Logger, written: io.StringIO
) -> None:
    log.info("a", extra=make_fields(message="b", level="c"))
    [line] = _lines(written)
    assert (line["message"], line["level"]) == ("a", "INFO")


def _run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


LOGS = """
import logging, sys
from modelplane.cli.processes.long_running import log_to_stderr
log_to_stderr(format=sys.argv[1])
logging.getLogger("a").info("b")
logging.getLogger("httpx2").info("a request")
"""


COMPRESSES = """
import h2.config, h2.connection
from modelplane.cli.processes.long_running import log_to_stderr
log_to_stderr(debug=True)
connection = h2.connection.H2Connection(h2.config.H2Configuration(normalize_outbound_headers=False))
connection.initiate_connection()
own = [(b":method", b"GET"), (b":path", b"/"), (b":scheme", b"https"), (b":authority", b"a")]
connection.send_headers(1, [*own, (b"authorization", b"Bearer s3cret")])
"""


def test_compressing_headers_logs_no_credential() -> None:
    assert "s3cret" not in _run(COMPRESSES, "")


def test_a_command_logs_for_people_or_for_machines() -> None:
    text, line = (_run(LOGS, format_) for format_ in ("text", "json"))
    assert text.endswith(" INFO a: b\n")
    assert (json.loads(line)["logger"], json.loads(line)["message"]) == ("a", "b")


CONNECTS = """
import asyncio, base64, logging, sys
import yaml
from modelplane.cli.processes.long_running import log_to_stderr
from modelplane.controllers.clusters.connections import Clusters
from modelplane.kube import resources

def kubeconfig(user, server="https://127.0.0.1:1", **cluster):
    return yaml.safe_dump({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }).encode()

EXEC = {
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "command": "false",
    "args": ["--token", "s3cret-exec"],
    "env": [{"name": "TOKEN", "value": "s3cret-token"}],
}
CONTENTS = [
    b"users:\\n- token: 's3cret-in-yaml",
    b"- s3cret-in-yaml",
    kubeconfig({"token": "s3cret-token"}),
    kubeconfig({"token": "s3cret-token"}, "https://user:s3cret-password@127.0.0.1:1"),
    kubeconfig({"token": "s3cret-token"}, "nonsense://s3cret-password"),
    kubeconfig({"token": "s3cret-token\\n"}),
    kubeconfig({"username": "u", "password": "s3cret-password"}),
    kubeconfig({"client-certificate-data": "bm8=", "client-key-data": "czNjcmV0LWtleQ=="}),
    kubeconfig({"token": "s3cret-token"}, **{"certificate-authority-data": "czNjcmV0LWtleQ=="}),
    kubeconfig({"exec": EXEC}),
    kubeconfig({"exec": EXEC | {"command": "echo"}}),
]

async def main():
    clusters = Clusters(lambda *_: None, lambda _: None)
    for number, content in enumerate(CONTENTS):
        secret = {"data": {"kubeconfig": base64.b64encode(content).decode()}}
        clusters.connect(f"c{number}", secret, "kubeconfig", "Secret")
        connection = clusters.get(f"c{number}")
        if connection is not None:
            while connection.loading:
                await asyncio.sleep(0.01)
            logging.warning("%s", connection.problem)
    logging.warning("%d connected", len(list(clusters)))
    await clusters.close()

log_to_stderr(debug=True, format=sys.argv[1])
asyncio.run(main())
"""


@pytest.mark.parametrize("format_", ["text", "json"])
def test_credentials_are_not_logged_whatever_is_wrong_with_a_kubeconfig(format_: str) -> None:
    logged = _run(CONNECTS, format_)
    assert [secret for secret in SECRETS if secret in logged] == []
    assert "cannot connect to cluster c0" in logged
    assert "connected" in logged
