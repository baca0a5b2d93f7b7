"""What the command-line tests share: the program, a run of it, and what a refusal must look like.

The program is $SEMFOCUS (default build/semfocus). A failing check prints the command that repeats it."""
import json
import os
import re
import resource
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import seal  # pylint: disable=wrong-import-position

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from options import last_wins  # noqa: E402  pylint: disable=wrong-import-position

GOLDEN = ROOT / "tests" / "golden"
PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())
TINY = ["--length", "8", "--train-count", "50", "--heldout-count", "20", "--blocks", "1", "--width", "8",
        "--mlp-width", "8", "--epochs", "2"]
SMALL = ["--length", "10", "--train-count", "60", "--heldout-count", "120", "--blocks", "2", "--width", "8",
         "--mlp-width", "12"]
INSTRUCTION_SETS = {"scalar": set(), "avx2": {"avx2", "fma"},
                    "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl", "bmi2"}}
LIMITS = {"baseline": ["scalar"], "avx2": ["scalar", "avx2"]}  # what SEMFOCUS_CPU leaves


def has_instruction_set(name):
    """As the system describes the CPU, not as the program does."""
    if name not in LIMITS.get(os.environ.get("SEMFOCUS_CPU"), INSTRUCTION_SETS):
        return False
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    flags = re.search(r"(?m)^flags\s*:(.*)$", text + "\nflags:\n")[1].split()
    return INSTRUCTION_SETS[name] <= set(flags)


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def read_json(text):
    """Strictly: NaN and Infinity are not JSON."""
    return json.loads(text, parse_constant=refuse_constant)


class Result:
    def __init__(self, words, code, out, err):
        self.words, self.code, self.raw, self.raw_err = words, code, out, err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def __str__(self):
        command = " ".join(shlex.quote(os.fsdecode(word)) for word in [PROGRAM, *self.words])
        return f"\n{command[:2000]}\nexit {self.code}\nstdout: {self.out[:2000]}\nstderr: {self.err[:2000]}"


def is_given(words, option):
    return any(os.fsdecode(word).split("=", 1)[0] == option for word in words)


def own_places(words, folder):
    """Options that put files a command writes by default into a folder."""
    added = []
    if words[:1] in (["train"], ["compare"], ["study"]) and not is_given(words, "--store"):
        added += ["--store", folder + "/runs"]
    if words[:1] in (["compare"], ["study"], ["report"]) and not is_given(words, "--out"):
        added += ["--out", folder + "/report.html"]
    return added


def run(*words, stdin=b"", env=None, timeout=300, memory=None, stdout=subprocess.PIPE, cwd=None, repeat=False):
    """Runs the program. Of repeated options only the last is passed, unless repeat is set; memory limits its address space in
    bytes. Without a cwd, its store and report go to a temporary folder."""
    words = [word if isinstance(word, bytes) else str(word) for word in words]
    words = words if repeat else last_wins(words)
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))) if memory else None
    with tempfile.TemporaryDirectory(prefix="semfocus-cli-store-") as folder:
        words += own_places(words, folder) if cwd is None else []
        done = subprocess.run([PROGRAM, *words], input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=timeout,
                              env={**os.environ, **(env or {})}, preexec_fn=limit, check=False, cwd=cwd)
    return Result(words, done.returncode, done.stdout or b"", done.stderr)


class Case(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="semfocus-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def good(self, *words, **options):
        """Exit 0 and nothing on standard error."""
        result = run(*words, **options)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result

    def one_sentence(self, result, *mentions):
        self.assertTrue(result.err.startswith("semfocus: "), result)
        self.assertEqual(result.err.count("\n"), 1, f"not one line on standard error{result}")
        self.assertTrue(result.err.endswith("\n"), result)
        for mention in mentions:
            self.assertIn(str(mention), result.err, result)

    def refused(self, *words, mentions=(), codes=(2,), **options):
        """Bad usage or input: one sentence on standard error, nothing on standard output."""
        result = run(*words, **options)
        self.assertIn(result.code, codes, result)
        self.assertEqual(result.out, "", result)
        self.one_sentence(result, *mentions)
        return result


class StoreCase(Case):
    """A store that lasts from one command to the next."""
    settings = SMALL

    def setUp(self):
        super().setUp()
        self.store = self.folder / "runs"

    def train(self, attention, *words, task="even-pairs", store=None, settings=None):
        """The ids of the runs."""
        result = self.good("train", task, "--attention", attention, *(settings or self.settings), "--epochs", 2, *words,
                           "--json", "--store", store or self.store)
        return [row["id"] for row in read_json(result.out)]

    def sql(self, text, *values, store=None):
        """What is written is sealed, as if the program had written it."""
        if text.startswith(("SELECT", "CREATE")):
            with sqlite3.connect((store or self.store) / "runs.db") as database:
                return list(database.execute(text, values))
        with seal.changed(store or self.store) as database:
            return list(database.execute(text, values))

    def unseal(self, schema, store=None):
        """Makes the store one of an earlier version."""
        with seal.changed(store or self.store) as database:
            seal.unseal(database, schema)
