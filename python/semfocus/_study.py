"""Training and comparing: studies, run by the library in a thread of its own, so that Ctrl-C and callbacks work."""
from __future__ import annotations

import ctypes
import os
import queue
import re
import signal
import threading
import warnings
from ctypes import byref, c_int
from typing import Any, Callable, Sequence

from . import _library, _parts
from ._progress import KINDS, open_progress
from ._store import CURVE, READ, WRITE, Run, Store
from ._table import html_table, table

Callback = Callable[[dict], Any]


def _spell(name: str, value: Any) -> str:
    """The value of a setting as the command line has it; a list is an axis of the grid."""
    if hasattr(value, "tolist"):  # numbers and arrays of NumPy and its like
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple, range)):
        if not value:
            raise ValueError(f"{name} is an empty list; give at least one value")
        return ",".join(_spell(name, one) for one in value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, int, os.PathLike)):
        return str(value)
    raise ValueError(f"{name} is {value!r} but must be a number, text, or a list of them")


# What the commands take besides the settings of runs: obeyed here, or refused with what to do instead.
_OBEYED = {"train": {"threads", "device", "checkpoint-seconds", "every", "name", "plugin"}}
_OBEYED["compare"] = _OBEYED["train"] | {"seeds", "add-seeds"}
_ON_SEVERAL_PROCESSES = "the program trains on several processes: 'mpirun semfocus train', 'srun semfocus compare'"
_INSTEAD = {
    "seeds": "train() takes the seeds themselves: seed=[1, 2, 3]",
    "add-seeds": "only compare() adds seeds; train() takes the seeds themselves: seed=[1, 2, 3]",
    "converged-at": "only compare() looks for it",
    "tensorboard": "'semfocus export --format tensorboard --out DIR' writes event files of stored runs",
    "figures": "Comparison.plot() draws, and 'semfocus report --figures DIR' writes the figures of the report",
    "plot": "Comparison.plot() draws",
    "out": "Comparison.report(path) writes the report",
    "json": "results are Python objects here",
    "quiet": "progress=False shows no progress",
    "dry-run": "'semfocus compare --dry-run' shows what would be trained",
    "shard": "'semfocus compare --shard' trains a part of the runs",
    "keep-going": "other runs are always trained when one fails; an exception of callback= stops them",
    "fail-fast": "other runs are always trained when one fails; an exception of callback= stops them",
    "data-parallel": _ON_SEVERAL_PROCESSES,
    "rank-timeout": _ON_SEVERAL_PROCESSES,
}


def _check_settings(command: str, given: dict[str, Any]) -> dict[str, Any]:
    """The settings by their names in the program; those that would have no effect are refused."""
    options = {row["name"] for row in settings() if row["in"] == "study"}
    named = {name.replace("_", "-"): value for name, value in given.items()}
    for name, value in named.items():
        if name in options - _OBEYED[command]:
            instead = _INSTEAD.get(name, "it belongs to other commands of the program")
            raise ValueError(f"{name.replace('-', '_')} is not a setting of {command}(); {instead}")
    if not isinstance(named.get("name", ""), str):
        raise ValueError(f"name is {named['name']!r} but must be one text, the name of all these runs")
    return named


def _open_study(task: str | Sequence[str], named: dict[str, Any], store: str) -> _library.Handle:
    study = _library.Handle("sf_study_destroy", "sf_study_create")
    if "plugin" in named:  # before anything that may name its parts
        _library.call("sf_plugin_load_all", _spell("plugin", named["plugin"]).encode(), b",")
    for name, value in {"store": store, **named}.items():
        _library.call("sf_study_set", study, name.encode(), _spell(name.replace("-", "_"), value).encode())
    _library.call("sf_study_add_tasks", study, _spell("task", task).encode())
    return study


class _Interrupts:
    """Ctrl-C while the library works in another thread: it asks for a stop, and KeyboardInterrupt waits until that thread
    has ended, however often the key is pressed. A callback is interrupted at once, but not again."""

    def __init__(self, stop: c_int):
        self.stop, self.asked, self.in_callback = stop, False, False

    def __enter__(self) -> "_Interrupts":
        self.ours = (threading.current_thread() is threading.main_thread() and
                     signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        if self.ours:
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_: Any) -> None:
        first, self.asked = not self.asked, True
        self.stop.value = 1
        if first and self.in_callback:
            raise KeyboardInterrupt

    def __exit__(self, *_: Any) -> None:
        if self.ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _Session:
    """Trains a planned study. The library works in another thread and puts its events into a queue; the calling thread
    shows progress and calls the callback, so that both may do what Python allows in the main thread only."""

    def __init__(self, study: _library.Handle, folder: str, callback: Callback | None):
        self.study, self.callback = study, callback
        self.store = _library.Handle("sf_store_close", "sf_store_open", folder.encode(), WRITE)
        self.planned = _library.rows_of("sf_study_runs_json", study)
        self.stop = c_int(0)
        self.events: queue.SimpleQueue = queue.SimpleQueue()
        self.status, self.message = _library.OK, ""
        self.failures: list[str] = []

    def _work(self) -> None:
        def on_event(_: Any, kind: int, run: int, id_: bytes, message: bytes, epoch: int, *numbers: Any) -> None:
            self.events.put((kind, run, message.decode(errors="replace") if message else None, epoch, numbers))
        hook = _library.EVENT(on_event)
        self.status = _library.call("sf_study_train", self.study, self.store, byref(self.stop), hook, None)
        self.message = _library.message() if self.status != _library.OK else ""  # belongs to this thread
        self.events.put(None)

    def _event(self, kind: int, run: int, message: str | None, epoch: int, numbers: tuple) -> dict[str, Any]:
        planned = self.planned[run] if run < len(self.planned) else {}
        names = ("train_loss", "train_accuracy", "heldout_loss", "heldout_accuracy", "step", "steps")
        return {"kind": KINDS[kind], "run": run, "message": message, "epoch": epoch, **dict(zip(names, numbers)),
                **{name: planned.get(name) for name in ("id", "task", "attention", "seed", "epochs")}}

    def _handle(self, event: dict[str, Any], interrupts: _Interrupts) -> None:
        if event["kind"] == "failed":
            self.failures.append(f"run {event['id']} ({event['attention']}, seed {event['seed']}): {event['message']}")
        if event["kind"] == "note":
            warnings.warn(event["message"], stacklevel=5)
        if self.callback is not None:
            interrupts.in_callback = True
            try:
                self.callback(event)
            finally:
                interrupts.in_callback = False

    def _follow(self, shown: Any, interrupts: _Interrupts) -> BaseException | None:
        """Shows what happens until the library has ended. Returns what was raised meanwhile."""
        raised: BaseException | None = None
        while True:
            try:
                item = self.events.get(timeout=0.2)
                if item is None:
                    return raised
                if raised is None and not interrupts.asked:
                    event = self._event(*item)
                    shown.tell(event)
                    self._handle(event, interrupts)
            except queue.Empty:
                continue
            except BaseException as problem:  # of the callback: checkpoint, then let it through
                raised = raised or problem
                self.stop.value = 1

    def run(self, progress: bool | None) -> None:
        shown = open_progress(progress, sum(run["epochs"] for run in self.planned))
        _parts.forget_failure()
        thread = threading.Thread(target=self._work, name="semfocus", daemon=True)
        with _Interrupts(self.stop) as interrupts:
            thread.start()
            raised = self._follow(shown, interrupts)
            thread.join()
            shown.close()
            self.store.close()
        if raised is not None:
            raise raised
        if interrupts.asked:
            raise KeyboardInterrupt
        self._judge()

    def _judge(self) -> None:
        if self.status == _library.OK:
            return
        if self.failures:
            raise _library.RunFailed("; ".join(self.failures)) from _parts.last_failure()
        raise _library.fail(self.status, self.message)


def train(task: str | Sequence[str], *, store: str | os.PathLike[str] = "semfocus-runs", progress: bool | None = None,
          callback: Callback | None = None, **settings: Any) -> Run | list[Run]:
    """Trains what is missing and returns the run, or a list of runs if a setting is a list.

    Settings are those of 'semfocus train --help', with underscores; those that only the program obeys are refused.
    Finished runs are found in the store, unfinished ones continue. Ctrl-C writes a checkpoint and raises
    KeyboardInterrupt. ``callback`` is called in this thread with a dict for every event; its exceptions stop training in
    the same way and come through. Its "kind" is "started", "step", "epoch", "finished", "stopped", "failed", "waiting" or
    "note".

    >>> run = train("even-pairs", attention="topk:3", seed=1, store=STORE, **SMALL)
    >>> run["epochs"], run["status"]
    (2, 'done')
    >>> train("even-pairs", atention="topk:3", store=STORE)
    Traceback (most recent call last):
    ValueError: unknown setting 'atention'; did you mean 'attention'?
    """
    store, named = os.fspath(store), _check_settings("train", settings)
    with _open_study(task, {"attention": "full", "seed": _default("seed"), **named}, store) as study:
        _library.call("sf_study_plan", study)
        session = _Session(study, store, callback)
        session.run(progress)
        found = {run.id: run for run in Store(store).select(archived=True)}
        runs = [found[planned["id"]] for planned in session.planned]
    return runs[0] if len(runs) == 1 else runs


def _default(name: str) -> str:
    return next(row["default"] for row in settings() if row["name"] == name)


def settings() -> list[dict[str, Any]]:
    """The table of settings: name, default, choices, help.

    >>> [row["default"] for row in settings() if row["name"] == "optimizer"]
    ['sgd']
    """
    return _library.rows_of("sf_settings_json")


def parts() -> dict[str, list[dict[str, str]]]:
    """Tasks, and the parts of mechanisms: selectors, extras, weightings, score transforms.

    >>> "even-pairs" in [task["name"] for task in parts()["tasks"]]
    True
    """
    return _library.rows_of("sf_parts_json")


class Comparison:
    """What a study says: groups of runs that differ only in the seed, compared with a baseline."""

    _shown = ("task", "variant", "finished", "converged", "epochs_median", "speedup", "p_corrected", "last_heldout",
              "accuracy_difference")

    def __init__(self, study: _library.Handle, store: str, rows: list[dict[str, Any]], command: str):
        self._study, self._command = study, command
        self.rows, self.store = rows, Store(store)

    def table(self) -> Any:
        """One row per group: epochs to the criterion, speed-up with its interval and p, accuracies, verdict."""
        return table({name: value for name, value in row.items() if name != "ids"} for row in self.rows)

    def verdicts(self) -> list[str]:
        """What was found, one sentence per group but the baselines."""
        return [row["verdict"] + "." for row in self.rows if row["verdict"]]

    def runs(self) -> list[Run]:
        """The stored runs of this comparison, archived ones too."""
        ids = {id_ for row in self.rows for id_ in row["ids"]}
        return [run for run in self.store.select(archived=True) if run.id in ids]

    def curves(self) -> Any:
        """The learning curves of the runs of this comparison, with the column ``variant``."""
        variants = {id_: row["variant"] for row in self.rows for id_ in row["ids"]}
        return table(({"variant": variants[run.id], "task": run["task"], "seed": run["seed"], "id": run.id, **row}
                      for run in self.runs() for row in run._curve_rows()), ("variant", "task", "seed", "id", *CURVE))

    def plot(self, column: str = "heldout_accuracy", axes: Any = None) -> Any:
        """Median and quartiles over seeds against epochs, one colour per variant; needs matplotlib."""
        from ._figure import plot
        return plot(self, column, axes)

    def report(self, path: str | os.PathLike[str] = "report.html") -> str:
        """Writes the page of 'semfocus compare' and returns its path."""
        handle = _library.Handle("sf_store_close", "sf_store_open", self.store.path.encode(), 0)
        _library.call("sf_report_write", self._study, handle, os.fspath(path).encode(), self._command.encode())
        handle.close()
        return os.fspath(path)

    def __repr__(self) -> str:
        lines = [f"{row['task']}, {row['variant']}: {row['finished']} of {row['runs']} runs done" for row in self.rows]
        return "\n".join(lines + self.verdicts())

    def _repr_html_(self) -> str:
        import html
        sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.verdicts())
        return html_table(self.rows, self._shown) + sentences


def _quote(word: str) -> str:
    """As a shell would take it again."""
    if re.fullmatch(r"[A-Za-z0-9\-_./:,+=@%]+", word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def _command(task: str | Sequence[str], named: dict[str, Any]) -> str:
    """The command of the program that makes the same comparison."""
    kinds = {row["name"]: row["kind"] for row in settings()}
    words = ["semfocus", "compare", _spell("task", task)]
    for name, value in named.items():
        text = _spell(name, value)
        if kinds[name] == "flag":  # on the command line, a flag takes its value behind "="
            words.append(f"--{name}" if text == "yes" else f"--{name}={text}")
        else:
            words += [f"--{name}", text]
    return " ".join(map(_quote, words))


def _add_seeds(study: _library.Handle, store: str, named: dict[str, Any]) -> None:
    for name in {"seed", "seeds"} & set(named):
        raise ValueError(f"add_seeds counts from the seeds that the store has; leave out {name}")
    handle = None
    if os.path.exists(os.path.join(store, "runs.db")):
        handle = _library.Handle("sf_store_close", "sf_store_open", store.encode(), READ)
    _library.call("sf_study_add_seeds", study, handle, int(named["add-seeds"]))
    if handle is not None:
        handle.close()


def compare(task: str | Sequence[str], *, store: str | os.PathLike[str] = "semfocus-runs", progress: bool | None = None,
            callback: Callback | None = None, converged_at: str | float = "95", **settings: Any) -> Comparison:
    """Trains the missing runs of a grid and says which mechanism learns faster and generalizes better.

    Every setting may be a list; ``seeds`` is how many seeds. As 'semfocus compare'.

    >>> result = compare("even-pairs", attention=["full", "topk:3"], seed=1, store=STORE, **SMALL)
    >>> [row["variant"] for row in result.rows]
    ['full', 'topk:3']
    """
    store, named = os.fspath(store), _check_settings("compare", settings)
    study = _open_study(task, named, store)
    if int(named.get("add-seeds", 0)) > 0:
        _add_seeds(study, store, named)
    _library.call("sf_study_converge_at", study, _spell("converged_at", converged_at).encode())
    _library.call("sf_study_plan", study)
    _library.call("sf_study_check_stops", study)
    _Session(study, store, callback).run(progress)
    with _library.Handle("sf_store_close", "sf_store_open", store.encode(), 0) as handle:
        _library.call("sf_study_judge", study, handle)
    goal = _spell("converged_at", converged_at)
    command = _command(task, {"store": store, **({} if goal == "95" else {"converged-at": goal}), **named})
    return Comparison(study, store, _library.rows_of("sf_study_results_json", study), command)
