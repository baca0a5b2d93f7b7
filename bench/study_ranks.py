"""How much faster is a study on several MPI ranks than on one? Ranks of one thread each, turn by turn.

python3 bench/study_ranks.py [--ranks N] [--rounds N] [--program PATH] [--mpirun PATH]"""
import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seconds(arguments, ranks, folder):
    store = Path(folder) / f"on-{ranks}"
    words = [arguments.mpirun, "-n", ranks] if ranks > 1 else []
    words += [arguments.program, "compare", "even-pairs", "--attention", "full,topk:5", "--seeds", arguments.seeds, "--epochs", arguments.epochs,
              "--train-count", "2000", "--heldout-count", "500", "--threads", "1", "--quiet", "--store", store, "--out", Path(folder) / "report.html"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    start = time.monotonic()
    subprocess.run([str(word) for word in words], env=environment, check=True, stdout=subprocess.DEVNULL)
    elapsed = time.monotonic() - start
    shutil.rmtree(store)
    return elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--program", default=ROOT / "build" / "semfocus")
    parser.add_argument("--mpirun", default="mpirun")
    arguments = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            one, several = seconds(arguments, 1, folder), seconds(arguments, arguments.ranks, folder)
            ratios.append(one / several)
            print(f"one rank {one:.2f} s, {arguments.ranks} ranks {several:.2f} s: {ratios[-1]:.2f} times faster", flush=True)
    print(f"median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
