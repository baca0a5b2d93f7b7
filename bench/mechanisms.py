"""How much faster than full attention are the mechanisms beyond the paper? One long sequence at a time, 2 blocks, in turns.

    python3 bench/mechanisms.py [--length 4096] [--attention blocktopk:64:4,full/fastmax,kmeans:32:2,lsh:64:2] [--rounds 3]

Every mechanism takes turns with full attention under the same settings; fastmax and its partner run without dropout. Two ratios:
of the fastest epochs (seconds of the clock), and of the processor time of whole runs, which a busy machine disturbs less."""
import argparse
import contextlib
import os
import sqlite3
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def measure(options, attention, dropout):
    """Seconds of the fastest epoch, and processor time of the run."""
    with tempfile.TemporaryDirectory() as folder:
        words = [options.semfocus, "train", "even-pairs", "--attention", attention, "--length", str(options.length), "--batch", "1",
                 "--blocks", "2", "--train-count", "4", "--heldout-count", "1", "--epochs", str(options.epochs), "--pad", "none",
                 "--dropout", dropout, "--threads", str(options.threads), "--store", folder, "--quiet"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(f"failed: {' '.join(words)}")
        with contextlib.closing(sqlite3.connect(f"file:{folder}/runs.db?mode=ro", uri=True)) as store:
            (seconds,) = store.execute("SELECT min(seconds) FROM epochs").fetchone()
    return seconds, usage.ru_utime


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--attention", default="blocktopk:64:4,full/fastmax,kmeans:32:2,lsh:64:2,kmeans:4:2,lsh:8:2")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--semfocus", default=str(ROOT / "build" / "semfocus"))
    options = parser.parse_args()
    print(f"{'attention':16} {'full, s':>8} {'this, s':>8} {'times faster':>12} {'by processor time':>17}")
    for attention in options.attention.split(","):
        dropout = "0" if attention.endswith("/fastmax") else "0.1"
        full, ours = zip(*((measure(options, "full", dropout), measure(options, attention, dropout)) for _ in range(options.rounds)))
        (seconds_full, cpu_full), (seconds, cpu) = (map(min, zip(*found)) for found in (full, ours))
        print(f"{attention:16} {seconds_full:8.3f} {seconds:8.3f} {seconds_full / seconds:12.2f} {cpu_full / cpu:17.2f}", flush=True)


if __name__ == "__main__":
    main()
