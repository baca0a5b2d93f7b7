"""Stores and their runs."""
from __future__ import annotations

import ctypes
import os
import re
import tempfile
from ctypes import POINTER, byref, c_float, c_int32, c_size_t, c_void_p
from typing import Any, Iterable, Iterator, Sequence

import numpy

from . import _library
from ._safetensors import read_safetensors
from ._table import html_table, table

READ, WRITE = 0, 1
CURVE = ("epoch", "train_loss", "train_accuracy", "heldout_loss", "heldout_accuracy", "seconds")
MEASURE = ("epoch", "block", "measure", "q0", "q1", "q5", "q10", "q25", "q50", "q75", "q90", "q95", "q99", "q100")
RUN = ("id", "task", "attention", "seed", "status", "message", "epochs", "converged_epoch", "train_accuracy",
       "heldout_accuracy", "best_epoch", "best_heldout_accuracy", "diverged_epoch", "weights", "name", "tags", "note",
       "archived")
WEIGHTS = {"last": 0, "best": 1, "init": 2}


def _weights_at(at: str) -> int:
    if at not in WEIGHTS:
        raise ValueError(f"at is {at!r} but must be one of {', '.join(WEIGHTS)}")
    return WEIGHTS[at]


class Run:
    """A stored run.

    >>> run = Store(STORE).run("topk")
    >>> run["attention"], run["status"]
    ('topk:3', 'done')
    >>> run.predict([[0, 1, 0], [1, 1, 1]]).shape
    (2, 2)
    >>> run.weights()["embedding.weight"].shape
    (3, 16)
    """

    def __init__(self, store: "Store", row: dict[str, Any]):
        self.store, self.row = store, row
        self._predictors: dict[str, _library.Handle] = {}

    @property
    def id(self) -> str:
        return self.row["id"]

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting, by its name in Python."""
        return {name.replace("-", "_"): value for name, value in self.row["settings"].items()}

    def __getitem__(self, name: str) -> Any:
        return self.row[name] if name in self.row else self.settings[name]

    def __repr__(self) -> str:
        return (f"<Run {self.id}: {self.row['task']}, {self.row['attention']}, seed {self.row['seed']}, "
                f"{self.row['status']} after {self.row['epochs']} epochs>")

    def _repr_html_(self) -> str:
        return html_table([{name: value for name, value in self.row.items() if name != "settings"}])

    def curve(self) -> Any:
        """Losses and accuracies (percent) after every epoch."""
        return table(self._curve_rows(), CURVE)

    def _curve_rows(self) -> list[dict[str, Any]]:
        out, rows = c_void_p(), c_size_t()
        _library.call("sf_store_curve_numbers", byref(out), byref(rows), self.store._handle(), self.id.encode())
        try:
            numbers = [] if rows.value == 0 else numpy.ctypeslib.as_array(
                ctypes.cast(out, POINTER(ctypes.c_double)), (rows.value, len(CURVE))).tolist()
        finally:
            _library.call("sf_text_release", out)
        return [{**dict(zip(CURVE, row)), "epoch": int(row[0])} for row in numbers]

    def measures(self) -> Any:
        """What training with ``every`` recorded: quantiles of each measure, by epoch and block (-1: all)."""
        return table(self._measure_rows(), MEASURE)

    def _measure_rows(self) -> list[dict[str, Any]]:
        return _library.rows_of("sf_store_measures_json", self.store._handle(), self.id.encode())

    def weights(self, at: str = "last") -> dict[str, numpy.ndarray]:
        """The weights as arrays, by their published names; ``at`` is "last" or "best"."""
        return self.export(at)[0]

    def export(self, at: str = "last") -> tuple[dict[str, numpy.ndarray], dict[str, str]]:
        """The weights and what else one must know to build the model again (the metadata of 'semfocus export')."""
        if at not in ("last", "best"):
            raise ValueError(f"at is {at!r} but must be last or best")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights.safetensors")
            _library.call("sf_store_write_weights", self.store._handle(), self.id.encode(), at == "best", path.encode())
            return read_safetensors(path)

    def _predictor(self, at: str) -> _library.Handle:
        if at not in self._predictors or not self._predictors[at].is_ours():
            self._predictors[at] = _library.Handle("sf_predictor_close", "sf_predictor_open", self.store._handle(),
                                                   self.id.encode(), _weights_at(at), 0)
        return self._predictors[at]

    def describe(self, at: str = "last") -> dict[str, str]:
        """What the model is: mechanism, widths, scales, epsilons, positions."""
        return _library.rows_of("sf_predictor_json", self._predictor(at))

    def lay_out(self, tokens: Sequence[Any]) -> numpy.ndarray:
        """What the model reads of the sequences: CLS, their tokens, padding, global tokens."""
        predictor = self._predictor("last")
        out = numpy.empty((len(tokens), _library.call("sf_predictor_positions", predictor)), numpy.int32)
        for row, sequence in zip(out, _sequences(tokens)):
            _library.call("sf_predictor_lay_out", _pointer(row, c_int32), predictor, _pointer(sequence, c_int32),
                          len(sequence))
        return out

    def predict(self, tokens: Any, at: str = "last") -> numpy.ndarray:
        """Logits, one row per sequence; one per sequence and position for the readout "each". Sequences may differ in
        length; ``at`` is "last", "best" or "init"."""
        sequences = _sequences(tokens)
        predictor = self._predictor(at)
        labels, classes = (_library.call(f"sf_predictor_{what}", predictor) for what in ("labels", "classes"))
        each = self.settings.get("readout") == "each"
        logits = numpy.empty((len(sequences), labels, classes) if each else (len(sequences), classes), numpy.float32)
        if not sequences:
            return logits
        joined = numpy.concatenate(sequences)
        lengths = numpy.array([len(sequence) for sequence in sequences], numpy.uintp)
        _library.call("sf_predictor_run", _pointer(logits, c_float), predictor, _pointer(joined, c_int32),
                      _pointer(lengths, c_size_t), len(sequences))
        return logits


def _pointer(array: numpy.ndarray, kind: Any) -> Any:
    return array.ctypes.data_as(POINTER(kind))


def _sequences(tokens: Iterable[Any]) -> list[numpy.ndarray]:
    sequences = [numpy.asarray(sequence) for sequence in tokens]
    for sequence in sequences:
        if sequence.ndim != 1 or (sequence.size and not numpy.issubdtype(sequence.dtype, numpy.integer)):
            raise ValueError("tokens must be a list of sequences of whole numbers, or an array of two dimensions")
        if sequence.size and (sequence.min() < 0 or sequence.max() >= 2**31):
            raise ValueError(f"tokens must lie in 0 to {2**31 - 1}")
    return [numpy.ascontiguousarray(sequence, numpy.int32) for sequence in sequences]


def _names_of_settings() -> list[str]:
    return [row["name"].replace("-", "_") for row in _library.rows_of("sf_settings_json") if row["in"] == "run"]


def _names_archived(where: str) -> bool:
    """Whether a condition looks at the column ``archived``; text in quotes is not meant."""
    return re.search(r"\barchived\b", re.sub(r"'[^']*'", "", where), re.IGNORECASE) is not None


class Store:
    """A folder of runs, as 'semfocus train' writes it.

    Runs that were archived with 'semfocus runs archive' are left out of lists, unless ``archived=True`` is given or the
    condition looks at the column ``archived``.

    >>> store = Store(STORE)
    >>> len(store.runs()), len(store.runs(where="attention = 'full'"))
    (2, 1)
    >>> len(store.curves())
    4
    """

    def __init__(self, path: str | os.PathLike[str] = "semfocus-runs"):
        self.path = os.fspath(path)
        self._open: _library.Handle | None = None
        self._handle()

    def _handle(self) -> _library.Handle:
        if self._open is None or not self._open.is_ours():
            self._open = _library.Handle("sf_store_close", "sf_store_open", self.path.encode(), READ)
            _library.call("sf_store_show_archived", self._open)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def __repr__(self) -> str:
        return f"<Store {self.path!r}>"

    def _repr_html_(self) -> str:
        return html_table([{name: value for name, value in row.items() if name != "settings"} for row in self._rows("")])

    def _rows(self, where: str, archived: bool = False) -> list[dict[str, Any]]:
        rows = _library.rows_of("sf_store_runs_json", self._handle(), where.encode())
        return [row for row in rows if archived or not row["archived"] or _names_archived(where)]

    def __iter__(self) -> Iterator[Run]:
        return iter([Run(self, row) for row in self._rows("")])

    def select(self, where: str = "", *, archived: bool = False) -> list[Run]:
        """The runs for which an SQL condition holds; columns as for 'semfocus runs --where'."""
        return [Run(self, row) for row in self._rows(where, archived)]

    def run(self, name: str) -> Run:
        """The one run whose id or mechanism begins with this; an archived one is found by its id."""
        found = [run for run in self.select(archived=True)
                 if run.id.startswith(name) or (run["attention"].startswith(name) and not run["archived"])]
        if len(found) != 1:
            raise ValueError(f"{len(found)} runs of {self.path!r} are called {name!r}; give more of an id")
        return found[0]

    def runs(self, where: str = "", *, archived: bool = False) -> Any:
        """One row per run, with its name, tags ("one, other") and note, and a column for every setting."""
        return table(({**{name: value for name, value in row.items() if name != "settings"},
                       **{name.replace("-", "_"): value for name, value in row["settings"].items()
                          if name.replace("-", "_") not in row}} for row in self._rows(where, archived)),
                     (*RUN, *(name for name in _names_of_settings() if name not in RUN)))

    def _long(self, where: str, archived: bool, of: Any, columns: tuple[str, ...]) -> Any:
        return table(({"id": run.id, "task": run["task"], "attention": run["attention"], "seed": run["seed"], **row}
                      for run in self.select(where, archived=archived) for row in of(run)),
                     ("id", "task", "attention", "seed", *columns))

    def curves(self, where: str = "", *, archived: bool = False) -> Any:
        """The learning curves of all runs, one row per run and epoch."""
        return self._long(where, archived, Run._curve_rows, CURVE)

    def measures(self, where: str = "", *, archived: bool = False) -> Any:
        """The measures of all runs, one row per run, epoch, block and measure."""
        return self._long(where, archived, Run._measure_rows, MEASURE)
