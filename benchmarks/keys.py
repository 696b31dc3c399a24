"""Time the change of one API key among many, up to what the controllers publish.

    python benchmarks/keys.py --keys 100000 --json

Prints one JSON line, in seconds of CPU: `first_table_seconds` and `first_secrets_seconds` from the ModelKeys
to the content of `keys.json`, and from there to the Secrets of an installation; `table_seconds` and
`secrets_seconds`, the medians of rounds in which one key changed; `new_secrets`, the greatest number of
chunks that a change made anew, of `secrets`; `longest_wait_ms` of an event loop meanwhile.
"""

import argparse
import asyncio
import hashlib
import json
import statistics
import sys
import time
from typing import Any

from modelplane.api.inference_gateway import KeyGrant
from modelplane.controllers.process_settings import collect_seldom
from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyTable, build_key_table
from modelplane.kube.resources import Object
from modelplane.proxy.publication import Channel, Published, build_objects

OF_A_NAMESPACE = 100
ROUNDS = 7
GRANTS = (KeyGrant(namespace="*", services=("shared/*",), requests_per_minute=1000),)


def key(number: int, requests: int = 60) -> Object:
    """Return a ModelKey."""
    namespace = f"team-{number // OF_A_NAMESPACE}"
    made = f"2026-01-01T{number % 24:02}:{number % 60:02}:00Z"
    spec = {
        "hashes": [{"sha256": hashlib.sha256(str(number).encode()).hexdigest()}],
        "services": [f"{namespace}/*", "shared/qwen"],
        "requestsPerMinute": requests,
        "streams": 4,
    }
    metadata = {"name": f"key-{number}", "namespace": namespace, "creationTimestamp": made}
    return {"metadata": metadata, "spec": spec}


def change(keys: list[Object], table: KeyTable, secrets: Published | None) -> tuple[KeyTable, Published, Any]:
    """Return the table and the Secrets of keys, and the seconds of CPU that each took."""
    begun = time.thread_time()
    table = build_key_table(keys, GRANTS, table)
    text = table.file.encode().decode()
    between = time.thread_time()
    secrets = build_objects({KEYS: text}, "any", Channel.PRIVATE, former=secrets)
    return table, secrets, (between - begun, time.thread_time() - between)


async def measure(number: int) -> dict[str, Any]:
    """Return what is printed."""
    keys = [key(each) for each in range(number)]
    collect_seldom()
    table, secrets, first = await asyncio.to_thread(change, keys, KeyTable(), None)
    rounds, waits, new = [], [0.0], []

    async def beat() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.005)
            waits.append(time.perf_counter() - begun - 0.005)

    beating = asyncio.create_task(beat())
    for each in range(ROUNDS):
        known = {chunk["metadata"]["name"] for chunk in secrets.chunks}
        keys[each * number // ROUNDS] = key(each * number // ROUNDS, 61)
        table, secrets, took = await asyncio.to_thread(change, keys, table, secrets)
        rounds.append(took)
        new.append(len({chunk["metadata"]["name"] for chunk in secrets.chunks} - known))
    beating.cancel()
    return {
        "keys": len(table.file.keys),
        "first_table_seconds": round(first[0], 3),
        "first_secrets_seconds": round(first[1], 3),
        "table_seconds": round(statistics.median(each[0] for each in rounds), 3),
        "secrets_seconds": round(statistics.median(each[1] for each in rounds), 3),
        "new_secrets": max(new),
        "secrets": len(secrets.chunks),
        "longest_wait_ms": round(max(waits) * 1000),
    }


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="Print JSON, as always.")
    options = parser.parse_args()
    sys.stdout.write(f"{json.dumps(asyncio.run(measure(options.keys)))}\n")


if __name__ == "__main__":
    main()
