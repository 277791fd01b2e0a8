"""The resume point of a run as plain values, so that tests can change it."""

import json

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pidual.learn.engine.checkpoint import state_digest


def read_state(path):
    """Tensors, and the values beside them."""
    with safe_open(path, framework="pt") as file:
        return load_file(path), json.loads(file.metadata()["state"])


def write_state(path, tensors, values):
    """A resume point of any values, with a digest that fits."""
    tensors, text = {name: value.contiguous() for name, value in tensors.items()}, json.dumps(values)
    save_file(tensors, path, metadata={"state": text, "digest": state_digest(tensors, text)})
