"""Time the program that fills a ModelCache from the Hugging Face hub against the hub's own library.

    python benchmarks/hydration.py --pairs 10 --files 4 --file-mib 256 --mib-per-s 1000 --json

A hub on loopback has one repository. Each pair downloads it with `snapshot_download` into a folder and with
the Job's program into a volume, in turns as to which is first, each with a Python of its own. The program
also checks every file against the hub's checksums and puts the files in place. `--mib-per-s` limits each
connection of the hub, as a network does; 0 is no limit. Prints the median seconds of both, and the median of
the ratios `ours / plain` with the least and the greatest.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from modelplane.compose.cache.staging_program import PROGRAM, REQUIREMENTS  # noqa: E402  as above
from modelplane.compose.cache.staging_sources import MARKER  # noqa: E402  as above
from support import hub  # noqa: E402  the folder is known only now

REPO = "team/model"
PLAIN = f"""
import sys
from huggingface_hub import snapshot_download
snapshot_download({REPO!r}, local_dir=sys.argv[1])
"""
MIB = 1 << 20


def seconds(program: str, arguments: list[str], variables: dict[str, str]) -> float:
    """Return how long a program takes in a Python of its own."""
    start = time.perf_counter()
    command = [sys.executable, "-c", program, *arguments]
    subprocess.run(command, check=True, env=os.environ | variables, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def pair(folder: Path, url: str, *, ours_first: bool) -> dict[str, float]:
    """Return the seconds of both, after one another."""
    times = {}
    for name in ("ours", "plain") if ours_first else ("plain", "ours"):
        with tempfile.TemporaryDirectory(dir=folder) as made:
            target, home = Path(made, "volume"), Path(made, "home")
            target.mkdir()
            variables = {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
            if name == "ours":
                variables |= {"REPO": REPO, "ARTIFACT": "a"}
                times[name] = seconds(PROGRAM, [str(target), MARKER, REQUIREMENTS, "65"], variables)
            else:
                times[name] = seconds(PLAIN, [str(target)], variables)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="how often each is run")
    parser.add_argument("--files", type=int, default=4, help="files of the repository")
    parser.add_argument("--file-mib", type=int, default=256, help="size of each")
    parser.add_argument("--mib-per-s", type=float, default=0, help="limit of each connection; 0 is none")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, hub.serve() as served:
        folder = Path(made)
        files = {f"model-{number:05}.safetensors": folder / str(number) for number in range(options.files)}
        for path in files.values():
            path.write_bytes(os.urandom(MIB) * options.file_mib)
        served.add(REPO, files)
        served.bytes_per_s, served.per_page = options.mib_per_s * MIB, 1000
        pair(folder, served.url, ours_first=True)  # the hub computes its checksums once
        pairs = [pair(folder, served.url, ours_first=bool(turn % 2)) for turn in range(options.pairs)]
    ratios = sorted(each["ours"] / each["plain"] for each in pairs)
    result = {
        "mib": options.files * options.file_mib,
        "ours_s": round(statistics.median(each["ours"] for each in pairs), 2),
        "plain_s": round(statistics.median(each["plain"] for each in pairs), 2),
        "ratio": round(statistics.median(ratios), 3),
        "least": round(ratios[0], 3),
        "greatest": round(ratios[-1], 3),
    }
    print(
        json.dumps(result) if options.json else "\n".join(f"{key}: {value}" for key, value in result.items())
    )


if __name__ == "__main__":
    main()
