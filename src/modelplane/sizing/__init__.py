"""Sizing: the memory that a model needs, and the hardware that can serve it.

Inputs are a parsed ``config.json`` and the headers of safetensors files; weights are never read. Headers
decide the weights (``weights``), the configuration decides the KV cache (``memory``) and the legal splits
(``splits``). Bytes are exact integers, where a formula is exact.
"""
