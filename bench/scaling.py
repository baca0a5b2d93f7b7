"""Eight runs on one core and on all, alternately: medians and their ratio.

    python3 bench/scaling.py [--rounds 3] [--cores 2]"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seconds(program, threads):
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "compare", "even-pairs", "--attention", "full,topk:5", "--seeds", "4", "--epochs", "2", "--threads",
                 str(threads), "--quiet", "--store", f"{folder}/runs", "--out", f"{folder}/report.html"]
        start = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--semfocus", default=str(ROOT / "build" / "semfocus"))
    options = parser.parse_args()
    times = {1: [], options.cores: []}
    for _ in range(options.rounds):
        for cores, found in times.items():
            found.append(seconds(options.semfocus, cores))
    one, all_of_them = (statistics.median(times[cores]) for cores in (1, options.cores))
    print(f"8 runs of 2 epochs, even-pairs at full size: {one:.1f} s on 1 core, {all_of_them:.1f} s on {options.cores}: "
          f"{100 * all_of_them / one:.0f} %")


if __name__ == "__main__":
    main()
