"""Reads safetensors files of f32, f64, i32 and i64 tensors; the package needs no other reader."""
from __future__ import annotations

import json
import os

import numpy

_TYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}


def read_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, numpy.ndarray], dict[str, str]]:
    """The tensors by name, and the metadata."""
    with open(path, "rb") as file:
        content = file.read()
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise ValueError(f"{os.fspath(path)!r} is not a safetensors file, or is cut short")
    try:
        header = json.loads(content[8:8 + size])
        metadata = header.pop("__metadata__", {})
        tensors = {}
        for name, entry in header.items():
            begin, end = (8 + size + at for at in entry["data_offsets"])
            if entry["dtype"] not in _TYPES:
                raise ValueError(f"the tensor {name!r} is {entry['dtype']}, but this reader knows {', '.join(_TYPES)} alone")
            tensors[name] = numpy.frombuffer(content[begin:end], _TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{os.fspath(path)!r} cannot be read as a safetensors file: {problem}") from None
    return tensors, metadata
