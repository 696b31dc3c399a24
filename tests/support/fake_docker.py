"""A stand-in for a container runtime: a program that reads Docker's command line and runs real processes.

It keeps everything in one folder and has no server, so that it can be told to be slow, away or wrong by
a file (see ``FakeDocker.fault``). What a container calls its own address is where its port is published: the
network of its processes is the machine's. What it calls the target of a mount is its source.

    fake_docker.py FOLDER COMMAND [ARGUMENT ...]
"""
# ruff: noqa: T201 - what a program answers is printed

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

IMAGE = "example.com/py:1"
"""An image of Python, whose entry point it is."""

_NEVER = "0001-01-01T00:00:00Z"
_POLL_S = 0.02


class FakeDocker:
    """The stand-in as a test controls it: its path and its faults."""

    def __init__(self, folder: Path, name: str = "docker") -> None:
        self.state = folder / "state"
        self.path = folder / "bin"
        for made in (self.state / "containers", self.state / "images", self.state / "registry", self.path):
            made.mkdir(parents=True, exist_ok=True)
        program = self.path / name
        arguments = f"{sys.executable} -I -S {__file__} {self.state}"
        program.write_text(f'#!/bin/sh\nexec {arguments} "$@"\n')
        program.chmod(0o755)

    def has(self, image: str, **config: Any) -> None:
        """Let an image be there."""
        _write(self.state / "images" / _hash(image), _image(image, config))

    def publish(self, image: str, **about: Any) -> None:
        """Let an image be in a registry: how many ``seconds`` it takes, ``layers``, the ``token`` for it."""
        _write(self.state / "registry" / _hash(image), about)

    def fault(self, **faults: Any) -> None:
        """Set what is wrong from now on; without arguments, nothing.

        ``away``: nothing answers. ``latency_s``: everything takes so long. ``fail``: commands and what they
        say. ``after``: commands that do their work and then are killed, so that nobody hears of it.
        """
        _write(self.state / "faults", faults)

    def calls(self, command: str = "") -> list[list[str]]:
        """Return the command lines so far, those of one command if it is named."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.state / "calls").read_text().splitlines()
            return [call for call in map(json.loads, lines) if not command or call[0] == command]
        return []

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return every container by its name, as ``inspect`` shows it."""
        found = (_read(path) for path in (self.state / "containers").glob("*/container"))
        return {each["Name"]: each for each in found if each}

    def stop(self) -> None:
        """End whatever still runs."""
        for container in self.containers().values():
            _signal(container, signal.SIGKILL)


def _hash(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}{zlib.adler32(text.encode()):08x}"


def _image(image: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"Id": f"sha256:{_hash(image)}", "RepoDigests": [], "Config": config}


def _write(path: Path, value: Any) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(value))
    unfinished.replace(path)


def _read(path: Path) -> dict[str, Any]:
    with contextlib.suppress(FileNotFoundError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {}


def _now() -> str:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def _signal(container: dict[str, Any], number: int) -> None:
    if container["State"]["Status"] == "running":
        send = os.killpg if number == signal.SIGKILL else os.kill
        with contextlib.suppress(ProcessLookupError):
            send(container["State"]["Pid"], number)


def _on_machine(text: str, places: dict[str, str]) -> str:
    for place, own in places.items():
        text = text.replace(place, own)
    return text


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(1)


def _options(arguments: list[str], flags: tuple[str, ...]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options that a command line begins with, and the rest."""
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        option = rest.pop(0).removeprefix("--")
        options.setdefault(option, []).extend([] if option in flags else [rest.pop(0)])
    return options, rest


class _Program:
    """One call of the program."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def run(self, arguments: list[str]) -> None:
        """Do what a command line says."""
        with self._locked(), (self.state / "calls").open("a") as calls:
            calls.write(json.dumps(arguments) + "\n")
        faults = _read(self.state / "faults")
        time.sleep(faults.get("latency_s", 0))
        if faults.get("away"):
            _fail("Cannot connect to the Docker daemon at unix:///nowhere. Is the docker daemon running?")
        command, *rest = arguments
        if command in {"container", "image", "network"}:
            command = f"{command}-{rest.pop(0)}"
        if command in faults.get("fail", {}):
            _fail(faults["fail"][command])
        commands: dict[str, Callable[[list[str]], None]] = {
            "version": lambda _: print("1.24"),
            "network-ls": lambda _: print("\n".join(_read(self.state / "networks"))),
            "network-create": self._create_network,
            "network-rm": self._remove_network,
            "image-inspect": self._inspect_image,
            "container-inspect": lambda names: print(json.dumps([self._find(names[0])])),
            "pull": self._pull,
            "create": self._create,
            "start": self._start,
            "wait": self._wait,
            "kill": self._kill,
            "stop": self._stop,
            "rm": self._remove,
            "logs": self._logs,
            "exec": self._execute,
            "ps": self._list,
        }
        commands[command](rest)
        if command in faults.get("after", ()):
            sys.stdout.flush()
            os.kill(os.getppid(), signal.SIGKILL)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.state / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _find(self, name: str) -> dict[str, Any]:
        for path in sorted((self.state / "containers").glob("*/container")):
            found = _read(path)
            if found and (found["Name"] == name or found["Id"].startswith(name)):
                return found
        _fail(f"Error response from daemon: No such container: {name}")

    def _save(self, container: dict[str, Any]) -> None:
        _write(self.state / "containers" / container["Id"] / "container", container)

    def _create_network(self, arguments: list[str]) -> None:
        with self._locked():
            known = _read(self.state / "networks")
            if arguments[-1] in known:
                _fail(f"Error response from daemon: network with name {arguments[-1]} already exists")
            _write(self.state / "networks", {**known, arguments[-1]: arguments[:-1]})

    def _remove_network(self, names: list[str]) -> None:
        with self._locked():
            if self._records():
                _fail(f"Error response from daemon: network {names[0]} has active endpoints")
            _write(self.state / "networks", {})

    def _inspect_image(self, names: list[str]) -> None:
        found = _read(self.state / "images" / _hash(names[0]))
        if not found:
            _fail(f"Error response from daemon: no such image: {names[0]}")
        print(json.dumps([found]))

    def _pull(self, names: list[str]) -> None:
        about = _read(self.state / "registry" / _hash(names[0]))
        if not about:
            _fail(f"Error response from daemon: manifest for {names[0]} not found: manifest unknown")
        if about.get("token"):
            shown = _read(Path(os.environ.get("DOCKER_CONFIG", "/nowhere")) / "config.json")
            tokens = [auth.get("auth") for auth in shown.get("auths", {}).values()]
            if about["token"] not in tokens:
                _fail("Error response from daemon: pull access denied")
        layers = [_hash(f"{names[0]}{number}")[:12] for number in range(about.get("layers", 1))]
        for layer in layers:
            print(f"{layer}: Pulling fs layer", flush=True)
        for layer in layers:
            time.sleep(about.get("seconds", 0) / len(layers))
            print(f"{layer}: Pull complete", flush=True)
        _write(self.state / "images" / _hash(names[0]), _image(names[0], about.get("config", {})))

    def _create(self, arguments: list[str]) -> None:
        options, (image_name, *command) = _options(arguments, flags=("read-only",))
        image = _read(self.state / "images" / _hash(image_name))
        if not image:
            _fail(f"Error response from daemon: No such image: {image_name}")
        identity = os.urandom(16).hex() * 2
        name = options["name"][0]
        places = self._places(options)
        entry = options.get("entrypoint") or image["Config"].get("Entrypoint", ["python3"])
        passed = options.get("env", [])
        environment = {variable: os.environ[variable] for variable in passed if variable in os.environ}
        for file in options.get("env-file", []):
            environment |= dict(line.split("=", 1) for line in Path(file).read_text().splitlines())
        container = {
            "Id": identity,
            "Name": name,
            "Image": image["Id"],
            "Config": {
                "Labels": dict(label.split("=", 1) for label in options.get("label", [])),
                "StopSignal": image["Config"].get("StopSignal", ""),
                "Cmd": [_on_machine(part, places) for part in [*entry, *command]],
                "Env": {variable: _on_machine(value, places) for variable, value in environment.items()},
            },
            "HostConfig": options,
            "State": {
                "Status": "created",
                "ExitCode": 0,
                "Error": "",
                "OOMKilled": False,
                "StartedAt": _NEVER,
                "FinishedAt": _NEVER,
                "Pid": 0,
            },
        }
        with self._locked():
            if any(_read(path).get("Name") == name for path in self._records()):
                _fail(f'Error response from daemon: Conflict. The container name "{name}" is in use')
            (self.state / "containers" / identity).mkdir()
            self._save(container)
        print(identity)

    def _places(self, options: dict[str, list[str]]) -> dict[str, str]:
        """Return where on this machine a container's address and its mounts are."""
        network = options["network"][0]
        if network.startswith("container:"):
            held = self._find(network.partition(":")[2])
            if options.keys() & {"hostname", "publish", "ip"}:
                _fail("Error response from daemon: conflicting options: hostname and the network mode")
            holder = held["HostConfig"]
        elif network in _read(self.state / "networks"):
            holder = options
        else:
            _fail(f"Error response from daemon: network {network} not found")
        own = holder["publish"][0].partition(":")[0] if "publish" in holder else "127.0.0.1"
        mounts = (
            dict(field.partition("=")[::2] for field in each.split(",")) for each in options.get("mount", ())
        )
        return {
            holder["ip"][0]: own,
            **{each["target"]: each["source"] for each in mounts if "source" in each},
        }

    def _records(self) -> list[Path]:
        return list((self.state / "containers").glob("*/container"))

    def _start(self, names: list[str]) -> None:
        container = self._find(names[0])
        if container["State"]["Status"] == "running":
            return
        network = container["HostConfig"]["network"][0]
        if network.startswith("container:"):
            holder = self._find(network.partition(":")[2])
            if holder["State"]["Status"] != "running":
                _fail(
                    f"Error response from daemon: cannot join network of a non running container: {network}"
                )
        if container["State"]["Status"] == "exited":
            container["State"]["Status"] = "created"
            self._save(container)
        if os.fork() == 0:
            os.setsid()
            self._supervise(container)
            os._exit(0)
        while (state := self._find(container["Id"])["State"])["Status"] == "created" and not state["Error"]:
            time.sleep(_POLL_S)
        if state["Error"]:
            _fail(f"Error response from daemon: {state['Error']}")
        print(names[0])

    def _supervise(self, container: dict[str, Any]) -> None:
        """Be the process that runs a container, logs it and says how it ended."""
        import subprocess  # noqa: PLC0415 - slow to import, and every call is a new process

        for descriptor in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        command = [sys.executable if part == "python3" else part for part in container["Config"]["Cmd"]]
        state = container["State"]
        # The path is the machine's, as is everything else in the image.
        environment = {"PATH": os.environ["PATH"], **container["Config"]["Env"]}
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            state |= {"Error": f'exec: "{command[0]}": {error.strerror}', "ExitCode": 127}
            self._save(container)
            return
        state |= {"Status": "running", "StartedAt": _now(), "FinishedAt": _NEVER, "Pid": process.pid}
        self._save(container)
        with (self.state / "containers" / container["Id"] / "log").open("ab", buffering=0) as log:
            for line in process.stdout or ():
                log.write(f"{_now()} ".encode() + line.rstrip(b"\n") + b"\n")
        code = process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        state |= {"Status": "exited", "ExitCode": code if code >= 0 else 128 - code, "FinishedAt": _now()}
        # Removed by force meanwhile, it leaves nothing.
        with contextlib.suppress(FileNotFoundError):
            self._save(container)

    def _wait(self, names: list[str]) -> None:
        while self._find(names[0])["State"]["Status"] == "running":
            if _read(self.state / "faults").get("away"):
                _fail("error during connect: unexpected EOF")
            time.sleep(_POLL_S)
        print(self._find(names[0])["State"]["ExitCode"])

    def _kill(self, arguments: list[str]) -> None:
        container = self._find(arguments[-1])
        if container["State"]["Status"] != "running":
            _fail(f"Error response from daemon: Container {container['Id']} is not running")
        word = arguments[1].removeprefix("SIG")
        number = signal.Signals(int(word)) if word.isdecimal() else signal.Signals[f"SIG{word}"]
        _signal(container, number)

    def _stop(self, arguments: list[str]) -> None:
        deadline = time.monotonic() + float(arguments[1])
        for name in arguments[2:]:
            _signal(self._find(name), signal.SIGTERM)
        for name in arguments[2:]:
            while (found := self._find(name))["State"]["Status"] == "running":
                if time.monotonic() > deadline:
                    _signal(found, signal.SIGKILL)
                time.sleep(_POLL_S)

    def _remove(self, arguments: list[str]) -> None:
        container = self._find(arguments[-1])
        if container["State"]["Status"] == "running":
            if "--force" not in arguments:
                _fail(f"Error response from daemon: You cannot remove a running container {container['Id']}")
            _signal(container, signal.SIGKILL)
            while self._find(container["Id"])["State"]["Status"] == "running":
                time.sleep(_POLL_S)
        folder = self.state / "containers" / container["Id"]
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    def _logs(self, arguments: list[str]) -> None:
        options, (called,) = _options(arguments, flags=("timestamps", "follow"))
        container = self._find(called)
        since = options.get("since", [""])[0]
        path = self.state / "containers" / container["Id"] / "log"
        sent = 0
        while True:
            running = "follow" in options and self._find(called)["State"]["Status"] == "running"
            lines = path.read_text().splitlines() if path.exists() else []
            if sent == 0 and "tail" in options:
                sent = max(len(lines) - int(options["tail"][0]), 0)
            for line in lines[sent:]:
                stamp, _, text = line.partition(" ")
                if stamp >= since:
                    print(line if "timestamps" in options else text, flush=True)
            sent = len(lines)
            if not running:
                return
            time.sleep(_POLL_S)

    def _execute(self, arguments: list[str]) -> None:
        if self._find(arguments[0])["State"]["Status"] != "running":
            _fail("Error response from daemon: container is not running")
        os.execvp(arguments[1], arguments[1:])  # noqa: S606 - as an engine does, without a shell

    def _list(self, arguments: list[str]) -> None:
        key, _, value = arguments[-1].removeprefix("label=").partition("=")
        for path in self._records():
            container = _read(path)  # empty if it was removed meanwhile
            if container and container["Config"]["Labels"].get(key) == value:
                print(container["Id"])


if __name__ == "__main__":
    _Program(Path(sys.argv[1])).run(sys.argv[2:])
