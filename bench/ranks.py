"""One model on one rank and on several (--data-parallel), alternately: seconds per epoch, their ratio, and the same weights.

    python3 bench/ranks.py [--ranks 2] [--rounds 3] [--mpirun mpirun.openmpi] [--semfocus build/semfocus] [settings of train]

An epoch is its training steps and the evaluation after them, without sampling the data or starting the processes. Every
rank has one thread. A round runs each number of ranks once. The ratios are those of the medians and of the fastest epochs,
which differ where other work disturbs."""
import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TASK = ["listops", "--attention", "full", "--train-count", "50", "--heldout-count", "25", "--epochs", "2"]


def launcher(mpirun, ranks):
    if ranks == 1:
        return []
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=True).stdout
    return [mpirun, *(["--oversubscribe"] if "Open MPI" in version or "open-mpi" in version else []), "-n", str(ranks)]


def epochs(options, words, ranks):
    """Seconds of each epoch, and the hash of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs"
        command = [*launcher(options.mpirun, ranks), options.semfocus, "train", *words, "--threads", "1", "--device", "cpu",
                   "--data-parallel", "--json", "--quiet", "--store", str(store)]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        with sqlite3.connect(store / "runs.db") as database:
            seconds = [row[0] for row in database.execute("SELECT seconds FROM epochs")]
        return seconds, json.loads(done.stdout)[0]["weights"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpirun", default="mpirun.openmpi")
    parser.add_argument("--semfocus", default=str(ROOT / "build" / "semfocus"))
    options, words = parser.parse_known_args()
    words = words or TASK
    times, weights = {1: [], options.ranks: []}, set()
    for _ in range(options.rounds):
        for ranks, found in times.items():
            seconds, trained = epochs(options, words, ranks)
            found += seconds
            weights.add(trained)
            print(f"{ranks} rank{'s' * (ranks > 1)}: " + " ".join(f"{second:.3f}" for second in seconds) + " s", flush=True)
    for name, choose in (("median", statistics.median), ("fastest", min)):
        one, several = (choose(found) for found in times.values())
        print(f"{name}: {one:.3f} s per epoch on 1 rank, {several:.3f} s on {options.ranks}: {one / several:.2f} times")
    print(f"weights {'the same' if len(weights) == 1 else 'DIFFER'}: {' '.join(weights)}")


if __name__ == "__main__":
    main()
