"""Selectors and weightings written in Python, over NumPy arrays, for prototypes: one call per batch, block and head.

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
NOT_A_NUMBER = numpy.full(1, numpy.nan).tobytes()  # in a result: look for a sentence
_alive: dict[str, Any] = {}  # what the library may call, until the process ends
_earlier: list[Any] = []
_failure: list[BaseException | None] = [None]


def forget_failure() -> None:
    _failure[0] = None


def last_failure() -> BaseException | None:
    """The exception that a part raised last."""
    return _failure[0]


def _cut(words: str, size: int) -> str:
    """At most this many bytes of UTF-8."""
    whole = words.encode(errors="replace")
    return whole.decode() if len(whole) <= size else whole[:size - 3].decode(errors="ignore") + "..."


def _sentence(problem: BaseException) -> bytes:
    """The exception and the lines that led to it, the innermost first, as far as there is room."""
    words = _cut(f"{type(problem).__name__}: {problem}".replace("\n", " "), 200)
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename != __file__]
    for frame in reversed(frames):
        words += f" | line {frame.lineno} of {frame.filename.rsplit('/', 1)[-1]}, in {frame.name}: {frame.line or ''}"
    return _cut(words, 400).encode()


def _note_failure(problem: BaseException) -> bytes:
    if _failure[0] is None:
        _failure[0] = problem
    return _sentence(problem) + b"\0"


def _source_of(function: Callable, given: str | None) -> str:
    if given is not None:
        return given
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise ValueError(f"the source of {function!r} is not known, but runs depend on it; give it as source=...") from None


def _check_name(kind: str, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of the {kind} is {name!r} but must be text: @semfocus.{kind}(\"NAME\")")


def _summary_of(function: Callable) -> str:
    first = (inspect.getdoc(function) or "").strip().split("\n", 1)[0]
    return (first or "a part written in Python")[:200]


class _Place:
    """Memory of the library, for numpy.asarray."""

    def __init__(self, **interface: Any):
        self.__array_interface__ = {"version": 3, **interface}


def _at(addresses: list[int], shape: tuple[int, ...], dtype: Any, writeable: bool = False) -> numpy.ndarray:
    """One array per address, as an array with one more dimension; the addresses are at equal distances."""
    kind = numpy.dtype(dtype)
    strides = [kind.itemsize]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    apart = addresses[1] - addresses[0] if len(addresses) > 1 else strides[0] * shape[0]
    return numpy.asarray(_Place(data=(addresses[0], not writeable), shape=(len(addresses), *shape), typestr=kind.str,
                                strides=(apart, *strides)))


def selector(name: str, *, takes_k: bool | None = None, keeps_k: bool = False, causal: bool = True,
             source: str | None = None) -> Callable[[Callable], Callable]:
    """Makes a function a selector, to be used as ``attention="NAME"`` or ``"NAME:K"``.

    The function gets the scores of one head for all sequences of a batch, an array [N, T, T] of sequences, queries and
    keys, and k if it has a parameter ``k``. It returns which keys each query keeps: a boolean array [N, T, T], or an
    integer array [N, T, n] of keys. Sequences must not depend on each other: a batch may come in parts. In a causal
    model, the scores of keys after the query are -inf, and these keys are left out of what it returns;
    ``causal=False`` refuses such models.
    ``keeps_k=True`` promises exactly min(k, T) keys per query, which saves memory and time.

    >>> import numpy
    >>> @selector("nearest")
    ... def nearest(scores, k):
    ...     "the k keys with the nearest scores to the query's own"
    ...     own = numpy.diagonal(scores, axis1=-2, axis2=-1)[..., None]
    ...     return numpy.argsort(abs(scores - own), axis=-1, kind="stable")[..., :k]
    >>> train("even-pairs", attention="nearest:3", seed=1, store=STORE, **SMALL)["status"]
    'done'
    """
    _check_name("selector", name)

    def register(function: Callable) -> Callable:
        with_k = takes_k if takes_k is not None else "k" in inspect.signature(function).parameters

        def prepare(places: Any, heads: Any, count: int) -> None:
            scratch = places[:count]
            try:
                h = heads[0]
                scores = _at([heads[n].scores for n in range(count)], (h.T, h.T), numpy.float64)
                if h.causal:
                    scores = numpy.where(numpy.tri(h.T, dtype=bool), scores, -numpy.inf)
                kept = numpy.asarray(function(scores, k=h.k) if with_k else function(scores))
                _fill(_at([place + SENTENCE for place in scratch], (h.T, h.T), numpy.uint8, writeable=True), kept, h.causal)
                for place in scratch:
                    ctypes.memset(place, 0, 1)
            except BaseException as problem:  # no exception may pass through C
                text = _note_failure(problem)
                for place in scratch:
                    ctypes.memmove(place, text, len(text))
        hook = _library.PREPARE(prepare)
        _library.call("sf_foreign_selector", name.encode(), _summary_of(function).encode(),
                      _source_of(function, source).encode(), with_k, keeps_k, not causal, hook)
        _keep_alive(name, hook)
        return function
    return register


def _fill(mask: numpy.ndarray, kept: numpy.ndarray, causal: bool) -> None:
    N, T = mask.shape[:2]
    if kept.dtype == bool:
        if kept.shape != mask.shape:
            raise ValueError(f"a selector returned a mask of shape {kept.shape}; it must be {mask.shape}, as the scores")
        mask[:] = kept
    elif kept.ndim == 3 and kept.shape[:2] == (N, T) and numpy.issubdtype(kept.dtype, numpy.integer):
        if kept.size and (kept.min() < 0 or kept.max() >= T):
            raise ValueError(f"a selector returned key {kept.min() if kept.min() < 0 else kept.max()}; keys are 0 to {T - 1}")
        if kept.shape == mask.shape and T > 2 and kept.max() <= 1:
            raise ValueError(f"a selector returned a mask of {kept.dtype}; it must be boolean: mask.astype(bool)")
        mask[:] = 0
        numpy.put_along_axis(mask, kept, 1, axis=2)
    else:
        raise ValueError(f"a selector returned {kept.dtype} of shape {kept.shape}; it must be a boolean array {mask.shape} "
                         f"or keys ({N}, {T}, n)")
    if causal:
        mask[:] = numpy.tril(mask)


class _Rows:
    """Where the kept keys of N sequences are: numbers of the library lie in order of query and key, ours in [N, T, T]."""

    def __init__(self, rows: Any, count: int):
        self.rows, self.shape = rows, (count, rows[0].T, rows[0].T)
        T = rows[0].T
        offsets = _at([rows[n].offsets for n in range(count)], (T + 1,), numpy.uintp).astype(numpy.intp)
        totals = offsets[:, -1]
        self.listed = numpy.arange(totals.max()) < totals[:, None]  # [N, most]: which numbers are there
        queries = numpy.repeat(numpy.tile(numpy.arange(T), count), numpy.diff(offsets, axis=1).ravel())
        keys = self._numbers([rows[n].keys for n in range(count)], numpy.uint32)[self.listed]
        self.places = numpy.repeat(numpy.arange(count), totals), queries, keys.astype(numpy.intp)

    def _numbers(self, addresses: list[int], dtype: Any, writeable: bool = False) -> numpy.ndarray:
        return _at(addresses, (self.listed.shape[1],), dtype, writeable)

    def kept(self) -> numpy.ndarray:
        out = numpy.zeros(self.shape, bool)
        out[self.places] = True
        return out

    def spread(self, addresses: Any) -> numpy.ndarray:
        out = numpy.zeros(self.shape)
        out[self.places] = self._numbers(addresses[:self.shape[0]], numpy.float64)[self.listed]
        return out

    def collect(self, addresses: Any, result: Any) -> None:
        result = numpy.asarray(result, numpy.float64)
        if result.shape != self.shape:
            raise ValueError(f"a weighting returned an array of shape {result.shape}; it must be {self.shape}, as the scores")
        self._numbers(addresses[:self.shape[0]], numpy.float64, writeable=True)[self.listed] = result[self.places]


def weighting(name: str, *, backward: Callable, causal: bool = True,
              source: str | None = None) -> Callable[[Callable], Callable]:
    """Makes a function a weighting, to be used as ``attention="full/NAME"``.

    The function gets ``scores`` and ``kept``, arrays [N, T, T] of one head for all sequences of a batch, and returns
    weights of the same shape; only those of kept keys count, and the scores of others are 0.
    ``backward(dweights, weights, scores, kept)`` returns the gradient of the scores, of the same shape.

    >>> import numpy
    >>> def through_squares(dweights, weights, scores, kept):
    ...     total = (scores ** 2 + 1).sum(-1, keepdims=True, where=kept)
    ...     return 2 * scores * (dweights - (dweights * weights).sum(-1, keepdims=True)) / total
    >>> @weighting("squares", backward=through_squares)
    ... def squares(scores, kept):
    ...     "1 + s^2, divided by its sum"
    ...     weights = numpy.where(kept, scores ** 2 + 1, 0)
    ...     return weights / weights.sum(-1, keepdims=True)
    >>> train("even-pairs", attention="full/squares", seed=1, store=STORE, **SMALL)["status"]
    'done'
    """
    _check_name("weighting", name)

    def register(function: Callable) -> Callable:
        def guarded(out: Any, rows: Any, count: int, compute: Callable) -> None:
            scratch = [rows[n].scratch for n in range(count)]
            try:
                at = _Rows(rows, count)
                for place in scratch:
                    ctypes.memset(place, 0, 1)
                at.collect(out, compute(at))
            except BaseException as problem:
                text = _note_failure(problem)
                for place, first in zip(scratch, out[:count]):
                    ctypes.memmove(place, text, len(text))
                    ctypes.memmove(first, NOT_A_NUMBER, len(NOT_A_NUMBER))

        def weigh(weights: Any, scores: Any, rows: Any, count: int) -> None:
            guarded(weights, rows, count, lambda at: function(at.spread(scores), at.kept()))

        def weigh_backward(dscores: Any, dweights: Any, weights: Any, scores: Any, rows: Any, count: int) -> None:
            guarded(dscores, rows, count, lambda at: backward(at.spread(dweights), at.spread(weights), at.spread(scores),
                                                              at.kept()))
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
