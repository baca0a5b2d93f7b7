"""The shared library through ctypes: its functions with their types, and statuses as exceptions."""
from __future__ import annotations

import ctypes
import json
import os
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Error(RuntimeError):
    """What the library could not do, in its own words; bad input is a ValueError instead."""


class RunFailed(Error):
    """A run ended with a failure, for instance because a part written in Python raised an exception."""


def find_library() -> str:
    """The library of the package, or the one that SEMFOCUS_LIBRARY names (a build folder's, for development)."""
    named = os.environ.get("SEMFOCUS_LIBRARY")
    if named:
        return named
    found = sorted((HERE / "lib").glob("libsemfocus.so*"))
    if not found:
        raise ImportError(f"the package at {HERE} lacks its library; install it again with 'pip install .'")
    return str(found[0])


EVENT = CFUNCTYPE(None, c_void_p, c_int, c_size_t, c_char_p, c_char_p, c_size_t, c_double, c_double, c_double, c_double,
                  c_size_t, c_size_t)
STARTED, STEP, EPOCH, FINISHED, STOPPED, FAILED, WAITING, NOTE = range(8)


class HeadInput(ctypes.Structure):
    """sf_head_input of semfocus/plugin.h, whose members are only ever appended to."""
    _fields_ = [("T", c_size_t), ("D", c_size_t), ("k", c_size_t), ("arguments", POINTER(c_double)),
                ("block", c_size_t), ("head", c_size_t), ("heads", c_size_t), ("causal", c_bool),
                ("queries", POINTER(c_double)), ("keys", POINTER(c_double)), ("stride", c_size_t),
                ("sequence_draws", c_void_p), ("step_draws", c_void_p), ("scores", c_void_p),
                ("score_scale", c_double)]


class WeighingMatrix(ctypes.Structure):
    """sf_weighing_matrix of semfocus/plugin.h."""
    _fields_ = [("T", c_size_t), ("offsets", c_void_p), ("keys", c_void_p), ("arguments", POINTER(c_double)),
                ("scratch", c_void_p)]


_PLACES = POINTER(c_void_p)  # one per sequence
PREPARE = CFUNCTYPE(None, _PLACES, POINTER(HeadInput), c_size_t)
WEIGH = CFUNCTYPE(None, _PLACES, _PLACES, POINTER(WeighingMatrix), c_size_t)
WEIGH_BACKWARD = CFUNCTYPE(None, _PLACES, _PLACES, _PLACES, _PLACES, POINTER(WeighingMatrix), c_size_t)

# name: (result, arguments)
_STATUS = object()
_HANDLE = c_void_p
_OUT = POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "sf_version": (c_char_p, []),
    "sf_message": (c_char_p, []),
    "sf_text_release": (None, [c_void_p]),
    "sf_settings_json": (_STATUS, [_OUT]),
    "sf_parts_json": (_STATUS, [_OUT]),
    "sf_study_create": (_STATUS, [_OUT]),
    "sf_study_destroy": (None, [_HANDLE]),
    "sf_study_add_tasks": (_STATUS, [_HANDLE, c_char_p]),
    "sf_study_set": (_STATUS, [_HANDLE, c_char_p, c_char_p]),
    "sf_study_converge_at": (_STATUS, [_HANDLE, c_char_p]),
    "sf_study_add_seeds": (_STATUS, [_HANDLE, _HANDLE, c_size_t]),
    "sf_study_plan": (_STATUS, [_HANDLE]),
    "sf_study_check_stops": (_STATUS, [_HANDLE]),
    "sf_study_plan_stored": (_STATUS, [_HANDLE, _HANDLE, c_char_p]),
    "sf_study_judge": (_STATUS, [_HANDLE, _HANDLE]),
    "sf_study_train": (c_int, [_HANDLE, _HANDLE, POINTER(c_int), EVENT, c_void_p]),
    "sf_study_runs_json": (_STATUS, [_OUT, _HANDLE]),
    "sf_study_results_json": (_STATUS, [_OUT, _HANDLE]),
    "sf_report_write": (_STATUS, [_HANDLE, _HANDLE, c_char_p, c_char_p]),
    "sf_store_open": (_STATUS, [_OUT, c_char_p, c_int]),
    "sf_store_close": (None, [_HANDLE]),
    "sf_store_show_archived": (None, [_HANDLE]),
    "sf_store_runs_json": (_STATUS, [_OUT, _HANDLE, c_char_p]),
    "sf_store_curve_numbers": (_STATUS, [_OUT, POINTER(c_size_t), _HANDLE, c_char_p]),
    "sf_store_measures_json": (_STATUS, [_OUT, _HANDLE, c_char_p]),
    "sf_store_write_weights": (_STATUS, [_HANDLE, c_char_p, c_bool, c_char_p]),
    "sf_predictor_open": (_STATUS, [_OUT, _HANDLE, c_char_p, c_int, c_size_t]),
    "sf_predictor_json": (_STATUS, [_OUT, _HANDLE]),
    "sf_predictor_classes": (c_size_t, [_HANDLE]),
    "sf_predictor_positions": (c_size_t, [_HANDLE]),
    "sf_predictor_labels": (c_size_t, [_HANDLE]),
    "sf_predictor_lay_out": (_STATUS, [POINTER(c_int32), _HANDLE, POINTER(c_int32), c_size_t]),
    "sf_predictor_run": (_STATUS, [POINTER(c_float), _HANDLE, POINTER(c_int32), POINTER(c_size_t), c_size_t]),
    "sf_predictor_close": (None, [_HANDLE]),
    "sf_plugin_load_all": (_STATUS, [c_char_p, c_char]),
    "sf_foreign_selector": (_STATUS, [c_char_p, c_char_p, c_char_p, c_bool, c_bool, c_bool, PREPARE]),
    "sf_foreign_weighting": (_STATUS, [c_char_p, c_char_p, c_char_p, c_bool, WEIGH, WEIGH_BACKWARD]),
}

OK, BAD_INPUT, NO_MEMORY, IO_ERROR, UNSUPPORTED, INTERRUPTED = range(6)


def message() -> str:
    return _library.sf_message().decode(errors="replace")


def fail(status: int, sentence: str) -> Exception:
    """The exception that a status stands for."""
    if status == BAD_INPUT:
        return ValueError(sentence)
    if status == NO_MEMORY:
        return MemoryError(sentence)
    return Error(sentence)


def check(status: int) -> None:
    if status != OK:
        raise fail(status, message())


def _checked(status: int, function: Any, arguments: Any) -> int:
    check(status)
    return status


_library = ctypes.CDLL(find_library())


def declare(name: str, *arguments: Any, result: Any = _STATUS) -> None:
    """The types of a function; by default it returns an sf_status, which is checked."""
    function = getattr(_library, name)
    function.argtypes = arguments
    function.restype = c_int if result is _STATUS else result
    if result is _STATUS:
        function.errcheck = _checked


for _name, (_result, _arguments) in _FUNCTIONS.items():
    declare(_name, *_arguments, result=_result)


def text(value: str) -> bytes:
    """Text for the library, where a zero ends it."""
    return _whole(value.encode())


def _whole(argument: Any) -> Any:
    if isinstance(argument, bytes) and b"\0" in argument:
        raise ValueError(f"{argument.decode(errors='replace')!r} has a character of code 0; leave it out")
    return argument


def call(name: str, *arguments: Any) -> Any:
    """Calls a function of the library; a status that is not SF_OK becomes an exception with the library's sentence."""
    return getattr(_library, name)(*map(_whole, arguments))


def text_of(name: str, *arguments: Any) -> str:
    """Calls a function whose first parameter receives text."""
    out = c_void_p()
    call(name, byref(out), *arguments)
    try:
        return ctypes.string_at(out.value).decode(errors="replace")  # type: ignore[arg-type]
    finally:
        call("sf_text_release", out)


def rows_of(name: str, *arguments: Any) -> Any:
    """The same for JSON."""
    return json.loads(text_of(name, *arguments))


class Handle:
    """Something that the library made and that has to be closed, by the process that opened it."""

    def __init__(self, close: str, make: str, *arguments: Any):
        self._as_parameter_: c_void_p | None = None
        self._process = os.getpid()
        out = c_void_p()
        call(make, byref(out), *arguments)
        self._as_parameter_, self._close = out, close

    def is_ours(self) -> bool:
        """Not in a forked process: SQLite's connections and OpenMP's threads stay with the process that made them."""
        return self._process == os.getpid()

    def close(self) -> None:
        handle, self._as_parameter_ = self._as_parameter_, None  # first: Ctrl-C may come before the call returns
        if handle is not None and self.is_ours():
            call(self._close, handle)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except (TypeError, AttributeError):  # the interpreter is ending
            pass


def version() -> str:
    return call("sf_version").decode()
