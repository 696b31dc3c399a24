"""What the library could do to a process, or an author with it."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from modelplane import cel
from modelplane.cel import Match, NoMatch, functions
from modelplane.scheduler import Device, Version

SELECTOR = (
    'device.attributes["gpu.nvidia.com"].index == {0} && '
    'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("{0}"))'
)


def gpu(**attributes: Any) -> Device:
    published: dict[str, Any] = {"version": Version("9.0.0"), "index": 3, **attributes}
    return Device("gpu", "gpu.nvidia.com", 1, attributes=published, capacity={"memory": "80Gi"})


VERSION = "device.attributes['gpu.nvidia.com'].version"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f"{VERSION} == 'v9.0.0'", id="equal to the text that it is kept as"),
        pytest.param(f"{VERSION} == '9.0.0'", id="equal to its own text"),
        pytest.param(f"!({VERSION} == '9.0.0')", id="not equal to its own text"),
        pytest.param(f"{VERSION} in ['9.0.0']", id="one of several texts"),
        pytest.param(f"!({VERSION} in ['9.0.0'])", id="none of several texts"),
        pytest.param(f"{VERSION} == device.attributes['gpu.nvidia.com'].index", id="equal to a number"),
        pytest.param(f"size({VERSION}) > 0", id="its size"),
        pytest.param(f"{VERSION} <= {VERSION}", id="its order as bytes"),
        pytest.param(f"{VERSION}.startsWith('v')", id="its first letter"),
        pytest.param(f"{VERSION}.matches('.*')", id="its letters"),
        pytest.param(f"[{VERSION}].exists(x, x == 'v9.0.0')", id="equal in a loop"),
        pytest.param(f"(true ? {VERSION} : {VERSION}) == 'v9.0.0'", id="equal as a choice"),
        pytest.param("device.attributes['gpu.nvidia.com'].?version.orValue('a') == 'v9.0.0'", id="a default"),
        pytest.param(f"{VERSION}.isLessThan(quantity('1'))", id="compared with a quantity"),
        pytest.param(VERSION, id="as a result"),
    ],
)
def test_the_bytes_of_a_version_cannot_be_seen(expression: str) -> None:
    verdict = cel.compile(expression).evaluate(gpu())
    assert isinstance(verdict, NoMatch)
    assert verdict.failed


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(f"{VERSION} == b'v9.0.0'", id="a literal"),
        pytest.param(f"{VERSION} == bytes('v9.0.0')", id="a conversion"),
        pytest.param("b'q1 0 '.isInteger()", id="a quantity"),
        pytest.param('@plain("a") == "a"', id="a function of the rewritten tree"),
        pytest.param('"a".@plain() == "a"', id="a method of the rewritten tree"),
        pytest.param("device.capacity['gpu.nvidia.com'].memory.size() > 0", id="the size of a quantity"),
    ],
)
def test_bytes_cannot_be_written(expression: str) -> None:
    with pytest.raises(cel.SelectorError):
        cel.compile(expression)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("a\0b", id="a null character, at which the library would end the text"),
        pytest.param("\ud800", id="half a surrogate pair, which it would take for no text at all"),
        pytest.param(2**63, id="a number of more than 64 bits"),
    ],
)
def test_a_value_that_the_library_does_not_read_is_malformed(value: Any) -> None:
    verdict = cel.compile("true").evaluate(gpu(odd=value))
    assert isinstance(verdict, NoMatch)
    assert verdict.failed


def test_threads_evaluate_the_same_selector() -> None:
    selectors = [cel.compile(SELECTOR.format(number)) for number in range(5)]
    devices = [gpu(index=number) for number in range(5)]
    ready = threading.Barrier(4)

    def evaluate_all() -> list[bool]:
        ready.wait()
        bound = [cel.bind(device) for device in devices]
        return [
            isinstance(selector.evaluate(device), Match)
            for _ in range(50)
            for selector in selectors
            for device in bound
        ]

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(evaluate_all) for _ in range(4)]
        expected = [one == other for _ in range(50) for one in range(5) for other in range(5)]
        assert [result.result() for result in results] == [expected] * 4


def test_a_forked_process_evaluates_a_selector_of_its_parent() -> None:
    script = (
        "import os, sys\n"
        "from modelplane import cel\n"
        "from modelplane.scheduler import Device\n"
        "device = Device('gpu', 'gpu.nvidia.com', 1)\n"
        "selector = cel.compile('device.driver.startsWith(\"gpu\")')\n"
        "selector.evaluate(device)\n"
        "if (child := os.fork()) == 0:\n"
        "    other = cel.compile('device.driver.endsWith(\"com\")')\n"
        "    answers = (selector.evaluate(device), other.evaluate(device))\n"
        "    os._exit(0 if answers == (cel.Match(), cel.Match()) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, env=os.environ).returncode == 0


def test_an_interrupt_within_a_function_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    selector = cel.compile('quantity(device.driver).isInteger() || device.driver == "gpu.nvidia.com"')
    monkeypatch.setitem(functions._CALLS, ("quantity", str), interrupt)
    with pytest.raises(KeyboardInterrupt):
        selector.evaluate(gpu())
    monkeypatch.undo()
    assert selector.evaluate(gpu()) == Match()


def test_evaluations_of_one_device_keep_no_memory() -> None:
    costly = cel.compile(f"[{','.join('1' * 90)}].all(x, [{','.join('1' * 90)}].all(y, x == y))")
    device = cel.bind(gpu())
    costly.evaluate(device)
    gc.collect()
    before = resident_kib()
    for _ in range(30):
        costly.evaluate(device)
    assert resident_kib() - before < 20_000


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
