"""The sources of the gateway's module: their own tests pass, and the fuzzers find nothing in a short time."""

import os
import re
import subprocess

import pytest

from modelplane.local import build, gateway_module

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
        ["cargo", "test", "--offline", "--target-dir", str(products)],
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
