"""semfocus in PyTorch: every mechanism as a trainable operator, and stored models as plain modules.

>>> import torch
>>> from semfocus.torch import attention
>>> q, k, v = (torch.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
>>> attention(q, k, v, "topk:3").sum().backward()
>>> q.grad.shape
torch.Size([2, 4, 10, 8])
"""
from __future__ import annotations

import contextlib
import ctypes
from ctypes import byref, c_bool, c_char_p, c_double, c_size_t, c_uint32, c_void_p
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _library
from ._torch_model import Model

__all__ = ["Model", "attention"]


class _Request(ctypes.Structure):
    """sf_raw_request of semfocus/raw_attention.h."""
    _fields_ = [("attention", c_char_p), ("scale", c_double), ("N", c_size_t), ("H", c_size_t), ("T", c_size_t),
                ("D", c_size_t), ("threads", c_size_t), ("seed", c_uint32), ("causal", c_bool), ("on_gpu", c_bool),
                ("device", c_size_t), ("stream", c_void_p)]


def _heads(q: torch.Tensor) -> int:
    return q.shape[-3] if q.dim() >= 4 else 1


def _sequences(q: torch.Tensor) -> int:
    """How many there are; a symbol where torch.compile asks."""
    count = 1
    for size in q.shape[:-3] if q.dim() >= 4 else q.shape[:-2]:
        count = count * size
    return count if _heads(q) != 0 else 0


def _request(q: torch.Tensor, mechanism: str, causal: bool, scale: float, seed: int, count: int) -> _Request:
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed is {seed} but must lie in 0 to {2**32 - 1}")
    return _Request(_library.text(mechanism), scale, count, int(_heads(q)) or 1, int(q.shape[-2]), int(q.shape[-1]),
                    torch.get_num_threads(), seed, causal, q.device.type == "cuda", q.device.index or 0)


def _on_its_stream(q: torch.Tensor, request: _Request) -> contextlib.AbstractContextManager[Any]:
    """Where the work of real tensors is done; fake ones on a GPU need none."""
    if not request.on_gpu:
        return contextlib.nullcontext()
    request.stream = torch.cuda.current_stream(q.device).cuda_stream
    return torch.cuda.device(q.device)


for _name, _count in (("forward", 5), ("backward", 9), ("forward_double", 4), ("backward_double", 7)):
    _library.declare("sf_raw_attention_" + _name, *[c_void_p] * _count, ctypes.POINTER(_Request))
_library.declare("sf_raw_attention_trace", ctypes.POINTER(c_size_t), ctypes.POINTER(_Request))


def _trace_size(q: torch.Tensor, mechanism: str, causal: bool, scale: float) -> tuple[int, int]:
    """Of what forward leaves for backward: the keys that were kept, and their weights. torch.compile need not know how
    many sequences there are, nor the seed."""
    size = c_size_t()
    if q.dtype == torch.float32 and _heads(q) != 0:
        _library.call("sf_raw_attention_trace", byref(size), byref(_request(q, mechanism, causal, scale, 0, 1)))
    return _sequences(q), size.value


@torch.library.custom_op("semfocus::attention", mutates_args=(), device_types=("cpu", "cuda"))
def _forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mechanism: str, causal: bool, scale: float,
             seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    request = _request(q, mechanism, causal, scale, seed, _sequences(q))
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    size = _trace_size(q, mechanism, causal, scale)
    trace = torch.zeros(size, dtype=torch.uint8, device=q.device)  # parts of it may not be written
    with _on_its_stream(q, request):
        if q.dtype == torch.float64:
            _library.call("sf_raw_attention_forward_double", *_places(out, q, k, v), byref(request))
        elif request.N > 0:
            _library.call("sf_raw_attention_forward", *_places(out, trace, q, k, v), byref(request))
    return out, trace


@_forward.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mechanism: str, causal: bool, scale: float,
      seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), torch.empty(
        _trace_size(q, mechanism, causal, scale), dtype=torch.uint8, device=q.device)


@torch.library.custom_op("semfocus::attention_backward", mutates_args=(), device_types=("cpu", "cuda"))
def _backward(dout: torch.Tensor, out: torch.Tensor, trace: torch.Tensor, q: torch.Tensor, k: torch.Tensor,
              v: torch.Tensor, mechanism: str, causal: bool, scale: float,
              seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    request = _request(q, mechanism, causal, scale, seed, _sequences(q))
    dout, out, trace = dout.contiguous(), out.contiguous(), trace.contiguous()
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    with _on_its_stream(q, request):
        if q.dtype == torch.float64:
            _library.call("sf_raw_attention_backward_double", *_places(dq, dk, dv, dout, q, k, v), byref(request))
        elif request.N > 0:
            _library.call("sf_raw_attention_backward", *_places(dq, dk, dv, dout, out, trace, q, k, v), byref(request))
    return dq, dk, dv


@_backward.register_fake
def _(dout: torch.Tensor, out: torch.Tensor, trace: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
      mechanism: str, causal: bool, scale: float, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    return dq, dk, dv


def _places(*tensors: torch.Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def _save(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, *ctx.how = inputs
    ctx.save_for_backward(output[0], output[1], q, k, v)


def _gradients(ctx: Any, dout: torch.Tensor, _: Any) -> tuple:
    return (*_backward(dout, *ctx.saved_tensors, *ctx.how), None, None, None, None)


_forward.register_autograd(_gradients, setup_context=_save)


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    for name, x in (("query", q), ("key", k), ("value", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is of the type {type(x).__name__}; give a torch.Tensor")
        if not torch.compiler.is_compiling() and forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(f"{name} has a tangent of forward-mode differentiation (torch.func.jvp, jacfwd); "
                                      "semfocus.torch has gradients in backward mode alone: torch.autograd.grad, backward()")
    if q.dim() < 2 or q.shape != k.shape or q.shape != v.shape:
        raise ValueError(f"query, key and value have the shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}; "
                         "they must have the same, [..., T, D]")
    if q.dtype not in (torch.float32, torch.float64) or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"query, key and value are {q.dtype}, {k.dtype} and {v.dtype}; they must all be float32 or float64")
    if q.device.type not in ("cpu", "cuda", "meta") or k.device != q.device or v.device != q.device:
        raise ValueError(f"query, key and value are on {q.device}, {k.device} and {v.device}; semfocus.torch computes on the CPU and "
                         "on NVIDIA GPUs: give q.cpu(), k.cpu() and v.cpu(), through which gradients flow back")
    if q.device.type == "cuda" and q.dtype == torch.float64:
        raise ValueError(f"query, key and value are float64 on {q.device}; semfocus.torch computes float64 on the CPU: "
                         "give q.cpu(), k.cpu() and v.cpu(), through which gradients flow back")


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mechanism: str = "full", *,
              is_causal: bool = False, scale: float | None = None, seed: int = 0) -> torch.Tensor:
    """Attention by any mechanism of semfocus, shaped like scaled_dot_product_attention: [..., T, D] to [..., T, D].

    ``mechanism`` is spelled as for 'semfocus train --attention': "topk:32", "banded:5+global:1", "full/entmax15",
    "topk:32@rope". ``scale`` multiplies the products of queries and keys, 1/sqrt(D) by default. float32 is computed by
    the CPU kernels on torch.get_num_threads() threads, or on the GPU that has the tensors, with the same bits; float64 by
    the reference in double, on the CPU alone. Of tensors with at least four
    dimensions, the third from the end are the heads, which alibi depends on. ``seed`` chooses the draws of random and lsh:
    give each step its own. torch.compile compiles once per length, for any number of sequences and any seed.

    >>> import torch
    >>> x = torch.randn(1, 2, 6, 4)
    >>> torch.allclose(attention(x, x, x), torch.nn.functional.scaled_dot_product_attention(x, x, x), atol=2e-5)
    True
    """
    _check(query, key, value)
    if isinstance(scale, torch.Tensor):
        raise TypeError("scale is a tensor; give a number, or multiply query by the tensor, so that it has gradients")
    if scale is not None and not scale > 0:
        raise ValueError(f"scale is {scale} but must be positive")
    return _forward(query, key, value, mechanism, is_causal, scale or 0.0, seed)[0]
