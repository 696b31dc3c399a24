"""Print the longest context of each model, as JSON: for SGLang's own Python. Its arguments are folders."""

import json
import sys

from sglang.srt.utils.hf_transformers_utils import get_context_length
from transformers import AutoConfig

if __name__ == "__main__":
    found = [get_context_length(AutoConfig.from_pretrained(each).get_text_config()) for each in sys.argv[1:]]
    print("\n" + json.dumps(found))  # noqa: T201 - what a program answers
