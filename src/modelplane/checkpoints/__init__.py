"""Checkpoints: the configuration and the tensors of a model, of a folder or of the Hugging Face hub.

Only ``config.json``, the index and the headers of safetensors files are read, each within a limit.
"""
