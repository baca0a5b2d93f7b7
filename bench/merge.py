"""How long merging takes: two stores of 5,000 finished runs of 200 epochs, with their checkpoints.

    python3 bench/merge.py [--folder DIR]     DIR is where the stores are made; by default a temporary folder"""
import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "report"))
import big_store  # pylint: disable=wrong-import-position

TASKS = ("even-pairs", "parity")
MERGE = ["merge", *(f"{task}/runs" for task in TASKS), "--into", "all"]


def measure(folder, what, words):
    cost = big_store.Cost(folder, words)
    if cost.code != 0:
        sys.exit(f"{what} failed: {cost.err}")
    print(f"{what:24} {cost.seconds:6.1f} s  {cost.megabytes:6.1f} MB  {cost.out.strip().splitlines()[-1]}", flush=True)


def bench(folder):
    for task in TASKS:
        big_store.make(folder / task, task)
    measure(folder, "merge into a new store", MERGE)
    measure(folder, "merge the same again", MERGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    if chosen.folder is not None:
        bench(chosen.folder)
        return
    with tempfile.TemporaryDirectory(prefix="semfocus-merge-") as folder:
        bench(Path(folder))


if __name__ == "__main__":
    main()
