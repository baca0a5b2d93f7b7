"""Progress while runs are trained: a bar if tqdm is installed, nothing otherwise unless asked for lines."""
from __future__ import annotations

import sys
import warnings
from typing import Any

from . import _library


class Silent:
    def tell(self, event: "dict[str, Any]") -> None:
        pass

    def close(self) -> None:
        pass


class Bar(Silent):
    """One bar over the epochs of all runs."""

    def __init__(self, bar: Any):
        self.bar = bar
        self.done: dict[int, int] = {}

    def tell(self, event: "dict[str, Any]") -> None:
        kind, run = event["kind"], event["run"]
        if kind in ("started", "epoch"):
            self.bar.update(event["epoch"] - self.done.get(run, 0))
            self.done[run] = event["epoch"]
        if kind == "epoch":
            self.bar.set_postfix_str(f"{event['attention']}, seed {event['seed']}: {event['train_accuracy']:.1f} %")
        if kind == "finished":  # before its last epoch, or before this session
            self.bar.update(event["epochs"] - self.done.get(run, 0))
            self.done[run] = event["epochs"]

    def close(self) -> None:
        self.bar.close()


def open_progress(wanted: bool | None, epochs: int) -> Silent:
    """`wanted`: True or False; None: a bar in notebooks and terminals."""
    if wanted is False:
        return Silent()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets tqdm says so, and shows a bar of text
            from tqdm.auto import tqdm
    except ImportError:
        return Silent()
    in_notebook = "ipykernel" in sys.modules
    if wanted is None and not in_notebook and not sys.stderr.isatty():
        return Silent()
    return Bar(tqdm(total=epochs, unit="epoch", desc="training"))


KINDS = {_library.STARTED: "started", _library.STEP: "step", _library.EPOCH: "epoch", _library.FINISHED: "finished",
         _library.STOPPED: "stopped", _library.FAILED: "failed", _library.WAITING: "waiting", _library.NOTE: "note"}
