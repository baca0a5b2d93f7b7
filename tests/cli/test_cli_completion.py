"""What a shell may complete: 'semfocus complete' beside what the program lists elsewhere, and the scripts in real shells."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness import PROGRAM, ROOT, TINY, Case, read_json, run

SCRIPTS = ROOT / "cli" / "completion"


def complete(*words, cwd=None):
    result = run("complete", *words, repeat=True, **({"cwd": cwd} if cwd else {}))
    assert result.code == 0 and result.err == "", result
    return [line.split("\t")[0] for line in result.out.splitlines()]


def listed(what):
    return [row["name"] for row in read_json(run("list", what, "--json").out)]


class Words(Case):
    def test_verbs(self):
        overview = re.findall(r"(?m)^  ([a-z]+) ", run("--help").out)
        self.assertEqual(complete(""), [*overview, "--help", "--version"])
        self.assertEqual(complete(), complete(""))
        self.assertEqual(complete("help", "tr"), ["train"])
        self.assertEqual(complete("no-such-verb", ""), [])

    def test_options_are_those_of_the_verb(self):
        for verb in ("train", "compare", "runs", "landscape", "paper"):
            options = re.findall(r"(?m)^  (--[a-z0-9-]+) ", run(verb, "--help").out)
            self.assertEqual(sorted(complete(verb, "--")), sorted([*options, "--help"]), verb)
        self.assertEqual(complete("train", "even-pairs", "--help", "--opt"), ["--optimizer"])

    def test_tasks(self):
        tasks = listed("tasks")
        self.assertEqual(complete("train", ""), [*tasks, "text:", "csv:", "tsv:", "jsonl:"])
        self.assertEqual(complete("data", ""), tasks)
        self.assertEqual(complete("compare", "parity,even"), ["parity,even-pairs"])
        self.assertEqual(complete("train", "even-pairs", ""), [])
        self.assertEqual(complete("train", "--quiet", "--seed", "3", "even-"), ["even-pairs"])
        self.assertEqual(complete("train", "tsv:some"), [":files"])

    def test_mechanisms(self):
        rows = read_json(run("list", "attention", "--json").out)
        parts = {kind: [row["name"] + ":" * (row["name"] + ":" in row["spelling"]) for row in rows if row["kind"] == kind]
                 for kind in ("selector", "extra", "weighting", "scores")}
        selectors, weightings = parts["selector"], parts["weighting"]
        self.assertEqual(complete("train", "x", "--attention", ""), selectors)
        self.assertEqual(complete("bench", "topk"), ["topk:"])
        self.assertEqual(complete("compare", "x", "--attention", "full,topk"), ["full,topk:"])
        self.assertEqual(complete("compare", "x", "--attention=full,topk"), ["--attention=full,topk:"])
        self.assertEqual(complete("train", "x", "--attention", "topk:5/"), ["topk:5/" + name for name in weightings])
        self.assertEqual(complete("train", "x", "--attention", "banded:5+"), ["banded:5+" + name for name in parts["extra"]])
        self.assertEqual(complete("train", "x", "--attention", "topk:5+sink:1+g"), ["topk:5+sink:1+global:"])
        self.assertEqual(complete("train", "x", "--attention", "topk:5@"), ["topk:5@" + name for name in parts["scores"]])

    def test_choices_files_and_folders(self):
        self.assertEqual(complete("train", "--optimizer", ""), ["sgd", "adam", "adamw"])
        self.assertEqual(complete("compare", "--activation", "relu,ge"), ["relu,gelu"])
        self.assertEqual(complete("train", "--quiet="), ["--quiet=yes", "--quiet=no"])
        self.assertEqual(complete("train", "--store", ""), [":folders"])
        self.assertEqual(complete("report", "--out=x"), [":files"])
        self.assertEqual(complete("solve", "parity", ""), [":files"])
        self.assertEqual(complete("list", ""), ["tasks", "attention", "settings", "backends", "figures"])
        self.assertEqual(complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(complete("paper", ""), ["list", "run", "status"])
        self.assertEqual(complete("merge", "shard-1", ""), [":folders"])
        self.assertEqual(complete("merge", "shard-1", "--into", "a"), [":folders"])

    def test_catalogue(self):
        entries = [row["id"] for row in read_json(run("paper", "list", "--json", "--store", self.folder / "none").out)]
        self.assertIn("tab-6", entries)
        self.assertEqual(complete("paper", "run", ""), entries)
        self.assertEqual(complete("paper", "run", "tab-6", "tab-"), [entry for entry in entries if entry.startswith("tab-")])

    def test_runs_of_the_store(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("train", "even-pairs", *TINY, "--seed", "1,2", "--store", "semfocus-runs", cwd=folder).code, 0)
            ids = sorted(row["id"] for row in read_json(run("runs", "--json", cwd=folder).out))
            os.rename(folder + "/semfocus-runs", folder + "/other")
            self.assertEqual(complete("analyze", "", cwd=folder), [])
            self.assertEqual(sorted(complete("analyze", "--store", "other", "", cwd=folder)), ids)
            self.assertEqual(sorted(complete("distance", ids[0], "--store=other", "", cwd=folder)), ids)
            self.assertEqual(complete("export", "--store", "other", ids[1][:6], cwd=folder), [ids[1]])
            self.assertEqual(complete("export", "--store", "other", "%", cwd=folder), [])
            os.rename(folder + "/other", folder + "/semfocus-runs")
            self.assertEqual(sorted(complete("analyze", "", cwd=folder)), ids)


class Shells(unittest.TestCase):
    """Types into an interactive shell, presses Tab, and has the words of the finished line printed instead of run."""

    def typed(self, shell, setup, text):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "semfocus").symlink_to(PROGRAM)
            Path(folder, "data.tsv").touch()
            Path(folder, "runs-1").mkdir()
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(folder)
                os.environ.update(PATH=folder + ":" + os.environ["PATH"], TERM="dumb", HOME=folder)
                os.execvp(shell[0], shell)
            try:
                self.exchange(terminal, setup + "; echo rea''dy\n", "ready")
                out = self.exchange(terminal, text + "\t\x01printf 'said <%s>\\n' \nexit\n", None)
            finally:
                os.close(terminal)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return re.findall(r"said <([^%>]*)>", out)

    def exchange(self, terminal, text, until):
        """Writes the text, then reads until that was seen, or to the end."""
        os.write(terminal, text.encode())
        seen, end = "", time.monotonic() + 60
        while until is None or until not in seen:
            self.assertLess(time.monotonic(), end, f"the shell does not answer: {seen}")
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                more = os.read(terminal, 4096)
            except OSError:  # the shell has ended
                more = b""
            if not more:
                break
            seen += more.decode("utf-8", "replace")
        return seen

    def check(self, shell, setup):
        for text, last in (("semfocus tra", "train"), ("semfocus train even-p", "even-pairs"),
                           ("semfocus train --store runs-1 --optimizer=adamw", "--optimizer=adamw"),
                           ("semfocus compare parity,even", "parity,even-pairs"),
                           ("semfocus train even-pairs --attention topk", "topk:"),
                           ("semfocus train even-pairs --attention=full,topk:5/sig", "--attention=full,topk:5/sigmoid"),
                           ("semfocus compare even-pairs --attention topk:5,banded:5+gl", "topk:5,banded:5+global:"),
                           ("semfocus paper run tab-6", "tab-6"),
                           ("semfocus solve parity da", "data.tsv"),
                           ("semfocus train tsv:da", "tsv:data.tsv"),
                           ("semfocus runs --store=run", "--store=runs-1"),
                           ("semfocus runs --store run", "runs-1")):
            with self.subTest(shell=shell[0], text=text):
                words = self.typed(shell, setup, text)
                self.assertEqual(words[:1], ["semfocus"])
                self.assertEqual(words[-1].rstrip("/"), last)  # zsh takes the slash of a folder back
                self.assertEqual(len(words), len(text.split()))

    def test_bash(self):
        self.check(["bash", "--norc", "--noprofile", "-i"], f"source {SCRIPTS}/semfocus.bash; bind 'set bell-style none'")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.check(["zsh", "-f", "-i"], f"fpath=({SCRIPTS} $fpath); bindkey -e; autoload -Uz compinit; compinit -u -D")

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "semfocus").symlink_to(PROGRAM)
            Path(folder, "data.tsv").touch()
            environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "HOME": folder}
            for text, candidate in (("semfocus train even-p", "even-pairs"), ("semfocus paper run tab-", "tab-6"),
                                    ("semfocus compare x --attention full,topk", "full,topk:"),
                                    ("semfocus train --optimizer ad", "adamw"), ("semfocus train --opt", "--optimizer"),
                                    ("semfocus solve parity da", "data.tsv"), ("semfocus train tsv:da", "tsv:data.tsv")):
                with self.subTest(text=text):
                    done = subprocess.run(["fish", "--no-config", "-c", f"source {SCRIPTS}/semfocus.fish; complete -C '{text}'"],
                                          cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=True)
                    self.assertIn(candidate, [line.split("\t")[0] for line in done.stdout.splitlines()], done.stderr)


if __name__ == "__main__":
    unittest.main()
