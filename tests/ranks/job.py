"""Starts the program under a launcher of MPI, and compares what stores hold.

$SEMFOCUS is the program, $SEMFOCUS_MPIRUN its launcher. $SEMFOCUS_MPICH is the program of a build with MPICH: build-mpich/semfocus
unless it is set, if that is there."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())
MPIRUN = os.environ.get("SEMFOCUS_MPIRUN")
WITH_MPICH = Path(os.environ.get("SEMFOCUS_MPICH", ROOT / "build-mpich" / "semfocus"))
OTHER = (str(WITH_MPICH.resolve()) if WITH_MPICH.exists() else None, shutil.which("mpirun.mpich"))
# Tests run as any user, with more ranks than cores.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_btl_base_warn_component_unused": "0", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
SECONDS = 300  # until a job counts as hung

SMALL = ["--length", "10", "--blocks", "1", "--width", "16", "--mlp-width", "16", "--train-count", "200", "--heldout-count", "50",
         "--batch", "10", "--checkpoint-seconds", "0", "--threads", "1"]
STUDY = ["compare", "even-pairs,parity", "--attention", "full,topk:3,banded:3", "--seeds", "4", "--epochs", "6", *SMALL]
RUNS = 24


class Done:
    def __init__(self, process, timeout=SECONDS):
        self.words = process.args
        try:
            self.out, self.err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.code = process.returncode

    def __str__(self):
        return f"\n{' '.join(map(str, self.words))}\nexit {self.code}\nstdout: {self.out[-2500:]}\nstderr: {self.err[-2500:]}"


def start(words, cwd=None):
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=cwd)


def alone(*words, cwd=None):
    return Done(start([PROGRAM, *words], cwd))


def start_job(ranks, *words, library=None, cwd=None):
    program, launcher = library or (PROGRAM, MPIRUN)
    return start([launcher, "-n", ranks, program, *words], cwd)


def job(ranks, *words, library=None, cwd=None):
    return Done(start_job(ranks, *words, library=library, cwd=cwd))


def ranks_of(launcher):
    """The processes of a job that are ranks, rank 0 first."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            environment = (status.parent / "environ").read_bytes().split(b"\0")
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        rank = [int(entry.split(b"=")[1]) for entry in environment if re.match(rb"(OMPI_COMM_WORLD_RANK|PMI_RANK)=", entry)]
        if rank and words[0].endswith(b"semfocus") and is_below(int(status.parent.name), launcher.pid):
            found[rank[0]] = int(status.parent.name)
    return [found[rank] for rank in sorted(found)]


def is_below(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
        except OSError:
            return False
    return False


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


def contents(store, page=None):
    """What must be equal however the runs were computed: everything but times and machines."""
    runs = json.loads(alone("runs", "--store", store, "--json").out)
    for run in runs:
        run.pop("isa")
    runs.sort(key=lambda run: run["id"])
    curves = {run["id"]: alone("export", run["id"], "--store", store, "--format", "csv").out for run in runs}
    files = {path.name: path.read_bytes() for path in (store / "checkpoints").iterdir()}
    return {"runs": runs, "curves": curves, "files": files, "page": without_times(page) if page else None}


def without_times(page):
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<span class="time">[^<]*</span>|<code>semfocus [^<]*</code>', "", text)
    return re.sub(r"<dt>(runs at a time|threads|trained)[^<]*</dt>\s*<dd>[^<]*</dd>", "", text)


@unittest.skipUnless(MPIRUN, "this build has no MPI")
class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="semfocus-ranks-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def good(self, done):
        self.assertEqual(done.code, 0, done)
        return done

    def end(self, process):
        """Ends a job that a test left."""
        if process.poll() is None:
            for pid in ranks_of(process):
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.communicate()
