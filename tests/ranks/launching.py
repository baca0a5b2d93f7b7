"""Commands under a launcher of MPI, checked like those of the command-line tests."""
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from harness import *  # noqa: E402,F401,F403  pylint: disable=wrong-import-position,wildcard-import,unused-wildcard-import
from harness import PROGRAM, Result, StoreCase, last_wins, read_json, run  # noqa: E402  pylint: disable=wrong-import-position
from job import ENVIRONMENT, MPIRUN, OTHER  # noqa: E402  pylint: disable=wrong-import-position


def rank_of(process):
    """As its launcher told it; None: it was not started by one."""
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for entry in environment:
        name, _, value = entry.partition(b"=")
        if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
            return int(value)
    return None


def ranks_with(text, program):
    """Processes of the program whose command line has these words, by rank."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == program.encode() and str(text).encode() in words:
            found[rank_of(folder.name)] = int(folder.name)
    return found


class RanksCase(StoreCase):
    library = PROGRAM, MPIRUN
    environment = {}  # of the ranks

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program, cls.launcher = cls.library
        if not cls.program or not cls.launcher:
            raise unittest.SkipTest("this build has no MPI" if cls.library[0] == PROGRAM else "there is no build with MPICH")

    def command(self, ranks, words):
        return [self.launcher, "-n", str(ranks), self.program, *last_wins([str(word) for word in words])]

    def launch(self, ranks, *words, timeout=300, cwd=None, **environment):
        return self.finish(self.command(ranks, words), timeout, cwd, **environment)

    def finish(self, command, timeout=300, cwd=None, **environment):
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False,
                              env={**ENVIRONMENT, **self.environment, **environment},
                              cwd=cwd or self.folder, stdin=subprocess.DEVNULL)
        return Result(command, done.returncode, done.stdout, done.stderr)

    def launched(self, ranks, *words, **options):
        """Exit 0 and nothing on standard error."""
        result = self.launch(ranks, *words, **options)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result

    def sentences(self, result):
        """What our program says on standard error: launchers add lines of their own."""
        return [line for line in result.err.splitlines() if line.startswith("semfocus: ")]

    def start(self, ranks, *words):
        process = subprocess.Popen(self.command(ranks, words), stdout=subprocess.PIPE,  # pylint: disable=consider-using-with
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env={**ENVIRONMENT, **self.environment})
        self.addCleanup(self.clean_up, process)
        return process

    def clean_up(self, process):
        for number in ranks_with(self.store, self.program).values():
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.kill()
        process.communicate()

    def end_of(self, process, timeout=120):
        out, err = process.communicate(timeout=timeout)
        return Result(process.args, process.returncode, out, err)

    def wait_for(self, condition, process):
        end = time.monotonic() + 120
        while not condition():
            self.assertIsNone(process.poll(), "it ended before its time")
            self.assertLess(time.monotonic(), end, "it never came so far")
            time.sleep(0.02)

    def rows(self, store=None):
        """Epochs in the store."""
        result = run("runs", "--store", store or self.store, "--json")
        return sum(row["epochs"] for row in read_json(result.out)) if result.code == 0 and result.out else 0

    def contents(self, store):
        """Everything that was computed: curves, measures, weights, checkpoints; not times, threads and ranks."""
        runs = {row["id"]: row for row in read_json(run("runs", "--store", store, "--json").out)}
        curves = {name: run("export", name, "--store", store).out for name in runs}
        files = {path.name: path.read_bytes() for path in Path(store).rglob("*.safetensors")}
        return runs, {name: [line.rsplit(",", 1)[0] for line in text.splitlines()] for name, text in curves.items()}, files
