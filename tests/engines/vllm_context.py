"""Print the longest context of each model, as JSON: for vLLM's own Python. Its arguments are folders."""

import json
import logging
import re
import sys

from vllm.config import ModelConfig

_TOO_LONG = 10_000_000
_DERIVED = re.compile(r"\(\w+=([\d.]+) or model_max_length=(\d+|None)")


def longest(folder: str) -> int:
    """Return the length that vLLM names when it refuses a longer one."""
    try:
        ModelConfig(model=folder, tokenizer=folder, max_model_len=_TOO_LONG)
    except ValueError as error:
        found = _DERIVED.search(str(error))
        if found is None:
            raise
        return max(int(float(found[1])), 0 if found[2] == "None" else int(found[2]))
    raise AssertionError("no length is refused")


if __name__ == "__main__":
    logging.disable()
    print("\n" + json.dumps([longest(each) for each in sys.argv[1:]]))  # noqa: T201 - what a program answers
