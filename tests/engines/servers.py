"""An engine as a process of its own, and what a client reads from it."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

MODEL = "tiny"
_START_S = 600.0

SGLANG_ON_A_PROCESSOR = (
    "--device=cpu",
    "--attention-backend=torch_native",
    "--sampling-backend=pytorch",
    "--context-length=4096",
    "--max-total-tokens=8192",
    "--mem-fraction-static=0.05",
    "--disable-overlap-schedule",
    "--disable-radix-cache",
)
"""What lets SGLang run a small model without the kernels of its own."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    process: "subprocess.Popen[bytes]"
    url: str

    @property
    def client(self) -> openai.OpenAI:
        """A client that retries nothing."""
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    def stop(self) -> None:
        """Send the signal that the kubelet sends."""
        self.process.send_signal(signal.SIGTERM)

    def get(self, path: str) -> str:
        """Return what a path answers. Raises ``OSError`` if it does not answer or refuses."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def stream(self, tokens: int, **asked: Any) -> Iterator[dict[str, Any]]:
        """Yield the events of a stream that has exactly so many tokens.

        An event has several tokens if the client did not read the last one yet.
        """
        wanted = {
            "model": MODEL,
            "prompt": "hello",
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
            **asked,
        }
        request = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(wanted).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            for line in answer:
                data = line.decode().removeprefix("data: ").strip()
                if data and data != "[DONE]":
                    yield json.loads(data)


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def tokens_of(events: Iterable[dict[str, Any]]) -> int:
    """Return how many tokens some events have that were asked for with ``return_token_ids``."""
    return sum(len(choice["token_ids"]) for event in events for choice in event["choices"])


@contextmanager
def serve(vllm: Path, model: Path, port: int, log: Path, *arguments: str) -> Iterator[Server]:
    """Run ``vllm serve`` with Modelplane's port and name, and wait until it is ready."""
    command = (str(vllm / "vllm"), "serve", str(model), "--max-model-len=4096")
    variables = {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with _serve(vllm, command, variables, port, log, *arguments) as server:
        yield server


@contextmanager
def serve_sglang(sglang: Path, model: Path, port: int, log: Path, *arguments: str) -> Iterator[Server]:
    """Run SGLang's server with PyTorch's own operators, and wait until it is ready."""
    command = (str(sglang / "python"), "-m", "sglang.launch_server", f"--model-path={model}")
    with _serve(sglang, (*command, *SGLANG_ON_A_PROCESSOR), {}, port, log, *arguments) as server:
        yield server


@contextmanager
def _serve(
    programs: Path,
    command: tuple[str, ...],
    variables: dict[str, str],
    port: int,
    log: Path,
    *arguments: str,
) -> Iterator[Server]:
    common = (f"--served-model-name={MODEL}", "--host=127.0.0.1", f"--port={port}")
    path = f"{programs}:{os.environ['PATH']}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *common, *arguments],
            env=os.environ | {"HF_HUB_OFFLINE": "1", "PATH": path} | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(process, f"http://127.0.0.1:{port}")
    try:
        _until_ready(server, log)
        yield server
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until_ready(server: Server, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        assert server.process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        try:
            server.get("/health")
        except OSError:
            time.sleep(0.5)
        else:
            return
