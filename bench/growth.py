"""How time and memory of a training step grow with the length: T = 600, 1200, ..., batch 1, 2 blocks, one thread.

    python3 bench/growth.py [--attention banded:5,block:5,topk:5,full] [--longest 19200]"""
import argparse
import os
import sqlite3
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEQUENCES = 4  # trained and evaluated in an epoch, at every length


def measure(program, attention, length, epochs, folder):
    """Milliseconds and MiB: the median of all epochs but the first, which is the first to touch the memory."""
    words = [program, "train", "even-pairs", "--attention", attention, "--length", str(length), "--batch", "1", "--blocks", "2",
             "--train-count", str(SEQUENCES), "--heldout-count", "1", "--epochs", str(epochs), "--pad", "none", "--threads", "1",
             "--store", folder, "--quiet"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(words)}")
    store = sqlite3.connect(f"file:{folder}/runs.db?mode=ro", uri=True)
    seconds = [row[0] for row in store.execute("SELECT seconds FROM epochs WHERE epoch > 1")]
    return 1e3 * statistics.median(seconds) / SEQUENCES, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--attention", default="banded:5,block:5,topk:5,full")
    parser.add_argument("--longest", type=int, default=19200)
    parser.add_argument("--semfocus", default=str(ROOT / "build" / "semfocus"))
    options = parser.parse_args()
    print(f"{'attention':10} {'T':>6} {'ms a sequence':>14} {'growth':>7} {'MiB':>8} {'growth':>7}")
    for attention in options.attention.split(","):
        before, length = None, 600
        while length <= options.longest:
            with tempfile.TemporaryDirectory() as folder:
                epochs = 5 * (options.longest // length)  # short ones more often: a moment's noise must not decide
                now = measure(options.semfocus, attention, length, epochs, folder)
            growth = [f"{a / b:7.2f}" for a, b in zip(now, before)] if before else [" " * 7] * 2
            print(f"{attention:10} {length:6} {now[0]:14.1f} {growth[0]} {now[1]:8.0f} {growth[1]}", flush=True)
            before, length = now, 2 * length


if __name__ == "__main__":
    main()
