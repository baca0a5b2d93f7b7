"""Learning curves with matplotlib."""
from __future__ import annotations

from typing import Any

import numpy

# Okabe and Ito: distinguishable with every colour vision
COLOURS = ("#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
NAMES = {"train_loss": "training loss", "train_accuracy": "training accuracy, %", "heldout_loss": "held-out loss",
         "heldout_accuracy": "held-out accuracy, %", "seconds": "seconds per epoch"}


def plot(comparison: Any, column: str, axes: Any) -> Any:
    """Returns the axes. A run that ended early keeps its last value."""
    import matplotlib.pyplot

    if column not in NAMES:
        raise ValueError(f"column is {column!r} but must be one of {', '.join(NAMES)}")
    axes = axes if axes is not None else matplotlib.pyplot.subplots()[1]
    curves = {run.id: [row[column] for row in run._curve_rows()] for run in comparison.runs()}
    several = len({row["task"] for row in comparison.rows}) > 1
    for i, group in enumerate(comparison.rows):
        mine = [curves[id_] for id_ in group["ids"] if curves.get(id_)]
        if not mine:
            continue
        longest = max(map(len, mine))
        values = numpy.array([curve + curve[-1:] * (longest - len(curve)) for curve in mine])
        low, middle, high = numpy.percentile(values, (25, 50, 75), axis=0)
        epochs, colour = numpy.arange(1, longest + 1), COLOURS[i % len(COLOURS)]
        label = f"{group['task']}, {group['variant']}" if several else group["variant"]
        axes.plot(epochs, middle, color=colour, label=label, marker="o" if longest == 1 else None)
        axes.fill_between(epochs, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(NAMES[column])
    axes.set_title(comparison.rows[0]["task"] if not several else "")
    axes.legend()
    return axes
