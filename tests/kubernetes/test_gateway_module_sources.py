"""The sources of the gateway's module: their own tests pass, and the fuzzers find nothing in a short time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.local import build, gateway_module

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(not gateway_module.can_build(), reason="there is no cargo on PATH"),
]

FUZZ_SECONDS = 2
"""Time for each reader of hostile bytes; ``make fuzz`` takes a minute."""


def test_the_tests_of_the_crate_pass_and_its_fuzzers_find_nothing() -> None:
    # What was compiled is kept, as the library is: only the crate itself is compiled anew.
    products = build.find_cache() / "gateway-module" / "target"
    done = subprocess.run(
        ["cargo", "test", "--target-dir", str(products)],
        cwd=gateway_module.SOURCES,
        env=os.environ | {"MODELPLANE_FUZZ_SECONDS": str(FUZZ_SECONDS)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    fuzzers = (gateway_module.SOURCES / "src" / "fuzz.rs").read_text().count("#[test]")
    assert len(re.findall(r"^test fuzz::\w+ \.\.\. ok$", done.stdout, re.MULTILINE)) == fuzzers > 0


def test_the_library_that_the_repository_carries_is_that_of_its_sources() -> None:
    recorded = gateway_module.read_record().rustc
    here = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if here != recorded:
        pytest.skip(f"{recorded} built it, and here is {here}")
    done = subprocess.run(
        [sys.executable, "package/gateway_module.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
