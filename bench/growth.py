"""How time and memory of a training step grow with the length: T = 600, 1200, ..., batch 1, 2 blocks, one thread.

    python3 bench/growth.py [--attention banded:5,block:5,topk:5,full] [--longest 19200]"""
import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHORTEST = 600
FEWEST_ROUNDS, MOST_ROUNDS, ENOUGH_SECONDS = 2, 5, 40
EPOCHS = 3
SEQUENCES = 4  # of the longest, trained and evaluated in an epoch, and a quarter as many held out


def measure(program, attention, length, sequences, folder):
    """Seconds of all epochs but the first, which is the first to touch the memory, and peak MiB, never less than Python's own
    (the system counts what a process held before it became the program)."""
    words = [program, "train", "even-pairs", "--attention", attention, "--length", str(length), "--batch", "1", "--blocks", "2",
             "--train-count", str(sequences), "--heldout-count", str(sequences // 4), "--epochs", str(EPOCHS), "--pad", "none",
             "--threads", "1", "--store", folder, "--quiet"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {' '.join(words)}")
    with contextlib.closing(sqlite3.connect(f"file:{folder}/runs.db?mode=ro", uri=True)) as store:
        return [row[0] for row in store.execute("SELECT seconds FROM epochs WHERE epoch > 1")], usage.ru_maxrss / 1024


def measure_all(program, attention, lengths):
    """Milliseconds and MiB by length. Epochs have the same number of tokens at any length, so that the noise of a
    shared machine affects them equally; lengths alternate, and the fastest epoch counts."""
    seconds, memory, rounds, start = {length: [] for length in lengths}, {}, 0, time.monotonic()
    sequences = {length: SEQUENCES * lengths[-1] // length for length in lengths}
    while rounds < FEWEST_ROUNDS or (rounds < MOST_ROUNDS and time.monotonic() - start < ENOUGH_SECONDS):
        rounds += 1
        print(f"{attention}: round {rounds}", file=sys.stderr)
        for length in lengths:
            with tempfile.TemporaryDirectory() as folder:
                found, memory[length] = measure(program, attention, length, sequences[length], folder)
            seconds[length] += found
    return [(1e3 * min(seconds[length]) / sequences[length], memory[length]) for length in lengths]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--attention", default="banded:5,block:5,topk:5,full")
    parser.add_argument("--longest", type=int, default=19200)
    parser.add_argument("--semfocus", default=str(ROOT / "build" / "semfocus"))
    options = parser.parse_args()
    lengths = [SHORTEST << i for i in range((options.longest // SHORTEST).bit_length())]
    if not lengths:
        parser.error(f"--longest {options.longest}: at least {SHORTEST}")
    print(f"{'attention':10} {'T':>6} {'ms per sequence':>15} {'growth':>7} {'MiB':>8} {'growth':>7}")
    for attention in options.attention.split(","):
        before = None
        for length, now in zip(lengths, measure_all(options.semfocus, attention, lengths)):
            growth = [f"{a / b:7.2f}" for a, b in zip(now, before)] if before else [" " * 7] * 2
            print(f"{attention:10} {length:6} {now[0]:15.1f} {growth[0]} {now[1]:8.0f} {growth[1]}", flush=True)
            before = now


if __name__ == "__main__":
    main()
