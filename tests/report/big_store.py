"""A store of 10,000 finished runs of 200 epochs, made in seconds: one real run per group, whose rows are then repeated.

python3 tests/report/big_store.py FOLDER makes it there and prints how long `runs`, `report` and `compare` take."""
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import seal  # pylint: disable=wrong-import-position

PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())
MECHANISMS = ["full", "topk:1", "banded:1", "block:1", "bottomk:1"]
SEEDS, EPOCHS = 1000, 200
TASKS = "even-pairs,parity"
STUDY = ["compare", TASKS, "--attention", ",".join(MECHANISMS), "--length", "2", "--width", "1", "--mlp-width",
         "1", "--blocks", "1", "--train-count", "1", "--heldout-count", "1", "--store", "runs", "--out", "report.html"]
WHOLE = [*STUDY, "--seeds", str(SEEDS), "--epochs", str(EPOCHS)]
COMMANDS = {"runs": ["runs", "--store", "runs"], "report": ["report", "--store", "runs", "--out", "report.html"],
            "compare": WHOLE}
PLANNED = re.compile(r"(?m)^([0-9a-f]{16})  (\S+) +(\S+) +seed (\d+) ")

# Accuracy jumps at an epoch that depends on run and mechanism; everything else wobbles. Whole-number arithmetic, so that
# the store is the same every time.
FILL = f"""
WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < {EPOCHS})
INSERT INTO epochs
SELECT number, n, 0.01 + (number * 7919 + n * 104729) % 1000 / 1000.0,
       CASE WHEN n < jump THEN 50 + (number * 31 + n * 17) % 100 / 50.0 ELSE 95 + (number * 13 + n * 7) % 100 / 25.0 END,
       0.02 + (number * 104729 + n * 7919) % 1000 / 1000.0,
       CASE WHEN n < jump THEN 49 + (number * 37 + n * 19) % 100 / 50.0 ELSE 93 + (number * 11 + n * 3) % 100 / 25.0 END,
       0.01
FROM (SELECT number, CASE attention WHEN 'full' THEN 20 + number * 97 % 170 ELSE 5 + number * 89 % 220 END AS jump FROM runs), e
ORDER BY number, n
"""
SUM_UP = f"""
UPDATE runs SET epochs = {EPOCHS}, checkpoint_epoch = {EPOCHS},
 asked_epochs = {EPOCHS}, converged_epoch = (SELECT MIN(epoch) FROM epochs WHERE run = number AND tr_ac >= 95),
 train_accuracy = (SELECT tr_ac FROM epochs WHERE run = number AND epoch = {EPOCHS}),
 heldout_accuracy = (SELECT va_ac FROM epochs WHERE run = number AND epoch = {EPOCHS}),
 best_epoch = (SELECT epoch FROM epochs WHERE run = number ORDER BY va_ac DESC, epoch LIMIT 1),
 best_accuracy = (SELECT MAX(va_ac) FROM epochs WHERE run = number)
"""


def run(folder, words):
    return subprocess.run([PROGRAM, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def clone_runs(database, planned):
    """Rows for all planned runs, each like the real one of its task and mechanism; gives the real one of each."""
    names = [column[1] for column in database.execute("PRAGMA table_info(runs)")]
    real = {}
    for values in database.execute("SELECT * FROM runs").fetchall():
        row = dict(zip(names, values))
        real[row["task"], row["attention"]] = row
    database.execute("DELETE FROM epochs")
    database.execute("DELETE FROM runs")
    rows = []
    for number, (run_id, task, attention, seed) in enumerate(planned, 1):
        row = dict(real[task, attention], number=number, id=run_id, seed=int(seed), status="done")
        row["settings"] = json.dumps({**json.loads(row["settings"]), "seed": seed}, separators=(",", ":"))
        rows.append([row[name] for name in names])
    database.executemany(f"INSERT INTO runs VALUES ({','.join('?' * len(names))})", rows)
    return real


def link_checkpoints(folder, planned, real):
    """The program looks whether a finished run's files are there, not into them."""
    for run_id, task, attention, _ in planned:
        row = real[task, attention]
        for before, now in ((f"{row['id']}-{row['checkpoint_epoch']}", f"{run_id}-{EPOCHS}"),
                            (f"{row['id']}-best-{row['best_saved_epoch']}", f"{run_id}-best-{row['best_saved_epoch']}")):
            source, target = folder / f"{before}.safetensors", folder / f"{now}.safetensors"
            if source.exists() and not target.exists():
                os.link(source, target)


def make(folder, tasks=TASKS):
    """Makes FOLDER/runs."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    study, whole = ([tasks if word == TASKS else word for word in words] for words in (STUDY, WHOLE))
    run(folder, [*study, "--seeds", "1", "--epochs", "1", "--quiet"])
    planned = PLANNED.findall(run(folder, [*whole, "--dry-run"]))
    assert len(planned) == len(tasks.split(",")) * len(MECHANISMS) * SEEDS, len(planned)
    database = sqlite3.connect(folder / "runs" / "runs.db", isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("BEGIN")
    real = clone_runs(database, planned)
    database.execute(FILL)
    database.execute(SUM_UP)
    seal.seal(database)
    database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    link_checkpoints(folder / "runs" / "checkpoints", planned, real)


class Cost:
    """A command, its exit code and output, seconds and megabytes."""

    def __init__(self, folder, words):
        with open(Path(folder) / "stdout", "w+", encoding="utf-8") as out, \
                open(Path(folder) / "stderr", "w+", encoding="utf-8") as err:
            began = time.monotonic()
            with subprocess.Popen([PROGRAM, *words], cwd=folder, stdout=out, stderr=err) as process:
                _, status, usage = os.wait4(process.pid, 0)  # of this process alone
                self.seconds = time.monotonic() - began
                process.returncode = self.code = os.waitstatus_to_exitcode(status)
            self.megabytes = usage.ru_maxrss / 1024
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read(), err.read()


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: big_store.py FOLDER")
    began = time.monotonic()
    make(sys.argv[1])
    print(f"store of {2 * len(MECHANISMS) * SEEDS} runs of {EPOCHS} epochs made in {time.monotonic() - began:.1f} s")
    for name, words in COMMANDS.items():
        costs = [Cost(sys.argv[1], words) for _ in range(3)]
        if any(cost.code != 0 for cost in costs):
            sys.exit(f"{name} failed: {costs[0].err}")
        best = min(costs, key=lambda cost: cost.seconds)
        print(f"{name:8} {best.seconds:6.3f} s  {best.megabytes:6.1f} MB")


if __name__ == "__main__":
    main()
