"""LiteLLM's proxy in front of the backend of ``gateway.py``, to compare it with the gateway.

LiteLLM (MIT license) is no dependency: install it elsewhere with ``python -m venv DIRECTORY`` and
``DIRECTORY/bin/pip install 'litellm[proxy]'``, and name ``DIRECTORY/bin/litellm``. It runs with one worker,
one model, no key and no database, so it does less than the gateway: no keys, limits or usage records.
"""

import os
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

PATIENCE_S = 180.0
ROUNDS = 5
MODEL = "ml/qwen"
ENVIRONMENT = {
    # Its price list is part of the package; it fetches another one unless told not to.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    # It listens on loopback only, and a key would be more work for it.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


class Turn(Protocol):
    """Figures of a server in its turn."""

    requests_per_s: float
    processor_s: float
    p50_s: float


Measure = Callable[[int, int], Awaitable[Turn]]
"""Have clients ask a port without a pause; with the process that answers."""


def configuration(upstream: int) -> str:
    return f"""
model_list:
  - model_name: {MODEL}
    litellm_params:
      model: openai/qwen
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: none
litellm_settings:
  telemetry: false
  num_retries: 0
"""


@contextmanager
def running(program: Path, port: int, upstream: int) -> Iterator[int]:
    """Run the proxy until it answers; yield its process."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "config.yaml").write_text(configuration(upstream))
        environment = os.environ | ENVIRONMENT
        command = [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--num_workers", "1"], cwd=directory, env=environment, stdout=log, stderr=log
            )
            try:
                _until_ready(process, port, directory / "log")
                yield process.pid
            finally:
                process.terminate()
                process.wait()


def _until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError(f"LiteLLM does not answer:\n{log.read_text()[-3000:]}")


async def compare(
    program: Path, port: int, upstream: int, gateway: Callable[[], Awaitable[Turn]], measure: Measure
) -> dict[str, Any]:
    """Return the figures of LiteLLM, and the gateway's ratios to them, medians of turns in alternation."""
    requests, processor, theirs = [], [], []
    with running(program, port, upstream) as pid:
        for number in range(-1, ROUNDS):
            its, ours = await measure(port, pid), await gateway()
            if number < 0:
                continue  # connections and caches fill up
            theirs.append(its)
            requests.append(ours.requests_per_s / its.requests_per_s)
            processor.append(its.processor_s / ours.processor_s)
    return {
        "version": _version(program),
        "rounds": ROUNDS,
        "requests per second": round(statistics.median(each.requests_per_s for each in theirs), 1),
        "processor ms per request": round(statistics.median(each.processor_s for each in theirs) * 1e3, 3),
        "p50 ms": round(statistics.median(each.p50_s for each in theirs) * 1e3, 2),
        "the gateway's requests per second to its": round(statistics.median(requests), 1),
        "its processor time per request to the gateway's": round(statistics.median(processor), 1),
    }


def _version(program: Path) -> str:
    python = program.parent / "python"
    code = "import importlib.metadata as m; print(m.version('litellm'))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
