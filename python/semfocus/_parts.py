"""Selectors and weightings written in Python, over NumPy arrays, for prototypes: one call per block, head and sequence.

The functions are called by the library's threads, one at a time, because a call holds Python's lock. The text of the
function is part of the identity of a run, so that a changed function is a new run."""
from __future__ import annotations

import ctypes
import inspect
import textwrap
import traceback
from typing import Any, Callable

import numpy

from . import _library

SENTENCE = 448  # SF_FOREIGN_SENTENCE
_alive: dict[str, Any] = {}  # what the library may call, until the process ends
_earlier: list[Any] = []
_failure: list[BaseException | None] = [None]


def forget_failure() -> None:
    _failure[0] = None


def last_failure() -> BaseException | None:
    """The exception that a part raised last."""
    return _failure[0]


def _sentence(problem: BaseException) -> bytes:
    """The exception and the lines that led to it, the innermost first, as far as there is room."""
    words = f"{type(problem).__name__}: {problem}".replace("\n", " ")
    for frame in reversed(traceback.extract_tb(problem.__traceback__)[1:]):
        words += f" | line {frame.lineno} of {frame.filename.rsplit('/', 1)[-1]}, in {frame.name}: {frame.line or ''}"
    return words.encode("ascii", "replace")[:400]


def _write_failure(scratch: int, problem: BaseException) -> None:
    if _failure[0] is None:
        _failure[0] = problem
    text = _sentence(problem) + b"\0"
    ctypes.memmove(scratch, text, len(text))


def _source_of(function: Callable, given: str | None) -> str:
    if given is not None:
        return given
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise ValueError(f"the source of {function!r} is not known, but runs depend on it; give it as source=...") from None


def _summary_of(function: Callable) -> str:
    first = (inspect.getdoc(function) or "").strip().split("\n", 1)[0]
    return (first or "a part written in Python")[:200]


def _dense(pointer: Any, *shape: int) -> numpy.ndarray:
    return numpy.ctypeslib.as_array(pointer, shape)


def selector(name: str, *, takes_k: bool | None = None, keeps_k: bool = False, causal: bool = True,
             source: str | None = None) -> Callable[[Callable], Callable]:
    """Makes a function a selector, to be used as ``attention="NAME"`` or ``"NAME:K"``.

    The function gets the scores of one head, an array [T, T] of queries and keys, and k if it has a parameter ``k``. It
    returns which keys each query keeps: a boolean array [T, T], or an integer array [T, n] of keys. In a causal model,
    keys after the query are left out of what it returns, and their scores are 0; ``causal=False`` refuses such models.
    ``keeps_k=True`` promises exactly min(k, T) keys per query, which saves memory and time.

    >>> import numpy
    >>> @selector("nearest")
    ... def nearest(scores, k):
    ...     "the k keys with the nearest scores to the query's own"
    ...     own = numpy.diag(scores)[:, None]
    ...     return numpy.argsort(abs(scores - own), axis=1, kind="stable")[:, :k]
    >>> train("even-pairs", attention="nearest:3", seed=1, store=STORE, **SMALL)["status"]
    'done'
    """
    def register(function: Callable) -> Callable:
        with_k = takes_k if takes_k is not None else "k" in inspect.signature(function).parameters

        def prepare(scratch: int, head: Any) -> None:
            try:
                h = head.contents
                scores = _dense(h.scores, h.T, h.T)
                scores.flags.writeable = False
                kept = numpy.asarray(function(scores, k=h.k) if with_k else function(scores))
                mask = numpy.frombuffer((ctypes.c_ubyte * (h.T * h.T)).from_address(scratch + SENTENCE),
                                        numpy.uint8).reshape(h.T, h.T)
                _fill(mask, kept, h.causal)
                ctypes.memset(scratch, 0, 1)
            except BaseException as problem:  # no exception may pass through C
                _write_failure(scratch, problem)
        hook = _library.PREPARE(prepare)
        _library.call("sf_foreign_selector", name.encode(), _summary_of(function).encode(),
                      _source_of(function, source).encode(), with_k, keeps_k, not causal, hook)
        _keep_alive(name, hook)
        return function
    return register


def _fill(mask: numpy.ndarray, kept: numpy.ndarray, causal: bool) -> None:
    T = len(mask)
    if kept.dtype == bool:
        if kept.shape != (T, T):
            raise ValueError(f"a selector returned a mask of shape {kept.shape}; it must be ({T}, {T})")
        mask[:] = kept
    elif kept.ndim == 2 and kept.shape[0] == T and numpy.issubdtype(kept.dtype, numpy.integer):
        if kept.size and (kept.min() < 0 or kept.max() >= T):
            raise ValueError(f"a selector returned key {kept.min() if kept.min() < 0 else kept.max()}; keys are 0 to {T - 1}")
        mask[:] = 0
        numpy.put_along_axis(mask, kept, 1, axis=1)
    else:
        raise ValueError(f"a selector returned {kept.dtype} of shape {kept.shape}; it must be a boolean array ({T}, {T}) "
                         f"or keys ({T}, n)")
    if causal:
        mask[:] = numpy.tril(mask)


def weighting(name: str, *, backward: Callable, causal: bool = True,
              source: str | None = None) -> Callable[[Callable], Callable]:
    """Makes a function a weighting, to be used as ``attention="full/NAME"``.

    The function gets ``scores`` and ``kept``, arrays [T, T] of one head, and returns weights [T, T]; only those of kept
    keys count. ``backward(dweights, weights, scores, kept)`` returns the gradient of the scores, [T, T].

    >>> import numpy
    >>> def through_squares(dweights, weights, scores, kept):
    ...     total = (numpy.where(kept, scores, 0) ** 2 + 1).sum(1, keepdims=True, where=kept)
    ...     return 2 * scores * (dweights - (dweights * weights).sum(1, keepdims=True)) / total
    >>> @weighting("squares", backward=through_squares)
    ... def squares(scores, kept):
    ...     "1 + s^2, divided by its sum"
    ...     weights = numpy.where(kept, scores ** 2 + 1, 0)
    ...     return weights / weights.sum(1, keepdims=True)
    >>> train("even-pairs", attention="full/squares", seed=1, store=STORE, **SMALL)["status"]
    'done'
    """
    def register(function: Callable) -> Callable:
        def places(rows: Any) -> tuple[Any, ...]:
            r = rows.contents
            offsets = _dense(r.offsets, r.T + 1).astype(numpy.intp)
            count = int(offsets[-1])
            return r, numpy.repeat(numpy.arange(r.T), numpy.diff(offsets)), _dense(r.keys, count).astype(numpy.intp), count

        def spread(pointer: Any, r: Any, queries: Any, keys: Any, count: int) -> numpy.ndarray:
            out = numpy.zeros((r.T, r.T))
            out[queries, keys] = _dense(pointer, count)
            return out

        def collect(out: Any, result: Any, r: Any, queries: Any, keys: Any, count: int) -> None:
            result = numpy.asarray(result, numpy.float64)
            if result.shape != (r.T, r.T):
                raise ValueError(f"a weighting returned an array of shape {result.shape}; it must be ({r.T}, {r.T})")
            _dense(out, count)[:] = result[queries, keys]

        def guarded(out: Any, rows: Any, compute: Callable) -> None:
            try:
                at = places(rows)
                kept = numpy.zeros((at[0].T, at[0].T), bool)
                kept[at[1], at[2]] = True
                ctypes.memset(at[0].scratch, 0, 1)
                collect(out, compute(at, kept), *at)
            except BaseException as problem:
                _write_failure(rows.contents.scratch, problem)
                r = rows.contents
                _dense(out, max(1, int(r.offsets[r.T])))[:] = numpy.nan

        def weigh(weights: Any, scores: Any, rows: Any) -> None:
            guarded(weights, rows, lambda at, kept: function(spread(scores, *at), kept))

        def weigh_backward(dscores: Any, dweights: Any, weights: Any, scores: Any, rows: Any) -> None:
            guarded(dscores, rows, lambda at, kept: backward(spread(dweights, *at), spread(weights, *at),
                                                             spread(scores, *at), kept))
        hooks = _library.WEIGH(weigh), _library.WEIGH_BACKWARD(weigh_backward)
        text = source if source is not None else _source_of(function, None) + _source_of(backward, None)
        _library.call("sf_foreign_weighting", name.encode(), _summary_of(function).encode(), text.encode(), not causal,
                      *hooks)
        _keep_alive(name, hooks)
        return function
    return register


def _keep_alive(name: str, hooks: Any) -> None:
    if name in _alive:
        _earlier.append(_alive[name])  # a mechanism that was parsed earlier may still point to it
    _alive[name] = hooks
