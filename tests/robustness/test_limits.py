"""What the system refuses: threads, memory, files, permissions, disks. The sentence names the cause, and nothing is left
half-written."""
import os
import resource
import sqlite3
import subprocess
import unittest

from place import PROGRAM, TINY, StoreCase, last_wins, read_json, run

SANITIZED = bool(os.environ.get("SEMFOCUS_SANITIZED"))
NOBODY = 54321  # a user without processes and without rights


def limited(kind, value, user=None):
    """For a child: a limit, and then another user."""
    def apply():
        if kind is not None:
            resource.setrlimit(kind, (value, value))
        if user is not None and os.getuid() == 0:
            os.setgid(user)
            os.setuid(user)
    return apply


class Limits(StoreCase):
    def limited(self, *words, kind=None, value=0, user=None, mentions=(), codes=(1,)):
        os.chmod(self.folder, 0o777)
        words = last_wins([str(word) for word in words])
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False, cwd=self.folder,
                              preexec_fn=limited(kind, value, user))
        self.assertIn(done.returncode, codes, (words, done.stdout, done.stderr))
        if codes != (0,):
            self.assertRegex(done.stderr, r"\Asemfocus: [^\n]*\n\Z", words)
        for mention in mentions:
            self.assertIn(str(mention), done.stderr, words)
        return done

    def tiny(self, *words):
        return ["train", "even-pairs", *TINY, "--store", self.store, "--quiet", *words]

    @unittest.skipIf(SANITIZED, "sanitizers map more than any limit")
    @unittest.skipUnless(os.getuid() == 0, "only root can become a user without processes")
    def test_threads_against_a_limit_on_processes(self):
        fix = ("threads were asked for", "Resource temporarily unavailable", "--threads", "ulimit -u")
        self.limited(*self.tiny("--threads", 64), kind=resource.RLIMIT_NPROC, value=5, user=NOBODY, mentions=("64", *fix))
        seeds = ",".join(map(str, range(20)))
        self.limited(*self.tiny("--threads", 8, "--seed", seeds), kind=resource.RLIMIT_NPROC, value=5, user=NOBODY,
                     mentions=("8", *fix))
        self.limited("bench", "nnch", "full", "--threads", 64, kind=resource.RLIMIT_NPROC, value=5, user=NOBODY,
                     mentions=("64", *fix))
        self.limited(*self.tiny("--threads", 2), kind=resource.RLIMIT_NPROC, value=5, user=NOBODY, codes=(0,))

    @unittest.skipIf(SANITIZED, "sanitizers map more than any limit")
    def test_memory_against_a_limit(self):
        self.limited(*self.tiny("--threads", 64), kind=resource.RLIMIT_AS, value=120 << 20,
                     mentions=("64 threads", "ulimit -v", "--threads"))
        self.limited(*self.tiny("--threads", 1, "--width", 512, "--mlp-width", 2048), kind=resource.RLIMIT_AS,
                     value=60 << 20, mentions=("ulimit -v", "60 MiB"))

    def test_a_limit_on_open_files(self):
        self.limited(*self.tiny(), kind=resource.RLIMIT_NOFILE, value=5, mentions=("Too many open files", "ulimit -n"))
        self.limited(*self.tiny(), codes=(0,))
        self.limited(*self.tiny("--epochs", 3), kind=resource.RLIMIT_NOFILE, value=5,
                     mentions=("Too many open files", "ulimit -n"))
        self.limited("check", "--store", self.store, codes=(0,))

    def test_a_limit_on_the_size_of_files(self):
        for kilobytes in (1, 8, 40, 64):
            self.limited(*self.tiny(), kind=resource.RLIMIT_FSIZE, value=kilobytes << 10,
                         mentions=("File too large", "ulimit -f"))
            self.assertFalse(list(self.folder.glob("**/*.part")))
        self.limited(*self.tiny(), codes=(0,))
        self.limited("check", "--store", self.store, codes=(0,))
        page, data = self.folder / "page.html", self.folder / "data.tsv"
        page.write_text("")
        for words in (["data", "parity", "--out", data], ["report", "--store", self.store, "--out", page]):
            self.limited(*words, kind=resource.RLIMIT_FSIZE, value=8 << 10, mentions=("File too large",))
        self.assertEqual((page.read_text(), data.exists()), ("", False))
        self.assertFalse(list(self.folder.glob("**/*.part")))

    @unittest.skipUnless(os.getuid() == 0, "only root can become a user without rights")
    def test_no_permission(self):
        self.limited(*self.tiny(), codes=(0,))
        id = read_json(run("runs", "--store", self.store, "--json").out)[0]["id"]
        denied = ("Permission denied",)
        os.chmod(self.store, 0o700)
        for words in (["runs"], ["report", "--out", "r.html"], ["check"], ["paper", "status"], ["export", id],
                      ["compare", "even-pairs", *TINY, "--dry-run"]):
            self.limited(*words, "--store", self.store, user=NOBODY, mentions=(self.store, *denied))
        self.limited(*self.tiny(), user=NOBODY, mentions=denied)
        os.chmod(self.store, 0o755)
        os.chmod(self.store / "runs.db", 0o600)
        self.limited("runs", "--store", self.store, user=NOBODY, mentions=(self.store, *denied))
        self.limited(*self.tiny(), user=NOBODY, mentions=denied)
        os.chmod(self.store / "runs.db", 0o644)
        self.limited("runs", "--store", self.store, user=NOBODY, codes=(0,))
        closed = self.folder / "closed"
        closed.mkdir(0o755)
        self.limited("data", "parity", "--out", closed / "x.tsv", user=NOBODY, mentions=(closed, *denied))
        self.limited("train", "even-pairs", *TINY, "--store", closed / "runs", user=NOBODY, mentions=(closed, *denied))
        self.assertEqual(list(closed.iterdir()), [])

    @unittest.skipUnless(os.getuid() == 0, "only root mounts disks")
    def test_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("no disk can be mounted here")
        try:
            result = run("data", "parity", "--out", disk / "x.tsv")
            self.assertEqual(result.code, 1, result)
            self.one_sentence(result, "No space left on device", disk)
            self.assertEqual(list(disk.iterdir()), [])
            result = run(*self.tiny(), "--store", disk / "runs")
            self.assertEqual(result.code, 1, result)
            self.one_sentence(result, "full")
        finally:
            subprocess.run(["umount", disk], check=False)


class OtherThanFiles(StoreCase):
    """Pipes, folders and loops where a file or a store should be."""

    def setUp(self):
        super().setUp()
        self.pipe = self.folder / "pipe"
        os.mkfifo(self.pipe)

    def test_pipes_without_a_writer(self):
        """None of them waits for ever."""
        text = "is a pipe without a writer"
        self.refused("solve", "parity", self.pipe, mentions=[self.pipe, text])
        self.refused("study", self.pipe, mentions=[self.pipe, text])
        self.refused("train", f"tsv:{self.pipe}", mentions=[self.pipe, "is a pipe", "more than once"])
        self.refused("train", f"tsv:{self.write('t.tsv', 'tokens' + chr(9) + 'label')},{self.pipe}",
                     mentions=[self.pipe, "is a pipe"])
        self.refused("parity", self.pipe, mentions=[self.pipe, "not a regular file"])
        for words in (["data", "parity"], ["compare", "even-pairs", *TINY], ["paper", "status"]):
            self.refused(*words, "--out", self.pipe, mentions=[self.pipe, "not a regular file"])
        self.refused("runs", "--store", self.pipe, mentions=[self.pipe, "not a folder"])
        self.refused("train", "even-pairs", *TINY, "--store", self.pipe, mentions=[self.pipe], codes=(1,))
        store = self.folder / "odd"
        store.mkdir()
        os.mkfifo(store / "runs.db")
        for words in (["runs"], ["train", "even-pairs", *TINY]):
            self.refused(*words, "--store", store, mentions=[store, "must be a file"], codes=(1,))

    def test_a_pipe_in_the_place_of_the_claims(self):
        self.train("full", settings=TINY)
        (self.store / "claims").unlink()
        os.mkfifo(self.store / "claims")
        self.sql("UPDATE runs SET status = 'running'")
        self.assertEqual(run("runs", "--store", self.store).code, 0)

    def test_pipes_with_a_writer(self):
        rows = self.good("data", "parity", "--count", 2000).raw
        for late in (0, 0.3):
            with subprocess.Popen(["sh", "-c", f"sleep {late}; cat > {self.pipe}"], stdin=subprocess.PIPE) as writer:
                checked = subprocess.Popen([PROGRAM, "solve", "parity", self.pipe],  # pylint: disable=consider-using-with
                                           stdout=subprocess.PIPE)
                writer.stdin.write(rows)
                writer.stdin.close()
                self.assertEqual((checked.communicate(timeout=60)[0], checked.returncode),
                                 (b"2000 of 2000 labels agree\n", 0))
        for name in ("-", "/dev/stdin"):
            self.assertEqual(self.good("solve", "parity", name, stdin=rows).out, "2000 of 2000 labels agree\n")
        command = f"{PROGRAM} solve parity <(sleep 1.5; {PROGRAM} data parity --count 7)"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "7 of 7 labels agree\n"), done.stderr)

    def test_folders(self):
        for words in (["solve", "parity", self.folder], ["study", self.folder], ["parity", self.folder],
                      ["train", f"tsv:{self.folder}"], ["data", "parity", "--out", self.folder],
                      ["paper", "status", "--out", self.folder], ["compare", "even-pairs", *TINY, "--out", self.folder]):
            self.refused(*words, mentions=[self.folder])

    def test_symbolic_links_in_a_loop(self):
        first, second = self.folder / "first", self.folder / "second"
        first.symlink_to(second)
        second.symlink_to(first)
        self.refused("runs", "--store", first, mentions=[first, "symbolic links"], codes=(1,))
        self.refused("train", "even-pairs", *TINY, "--store", first, mentions=[first], codes=(1,))
        self.refused("solve", "parity", first, mentions=[first, "symbolic links"])

    def test_pages_under_the_names_of_others(self):
        self.train("full", settings=TINY)
        for name in ("x.md", "X.MD", "x.markdown"):
            for words in (["report"], ["compare", "even-pairs", *TINY]):
                self.refused(*words, "--store", self.store, "--out", self.folder / name, mentions=[name, "HTML", ".html"])
        for name in ("x.html", "x.HTM"):
            self.refused("paper", "status", "--store", self.store, "--out", self.folder / name,
                         mentions=[name, "Markdown", ".md"])
        self.assertFalse([path for path in self.folder.iterdir() if path.suffix])


class Conditions(StoreCase):
    """--where reads the store and computes, for a limited time, and nothing else."""
    ENDLESS = "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n)"

    def setUp(self):
        super().setUp()
        self.train("full", settings=TINY)

    def where(self, text, *mentions, **options):
        return self.refused("runs", "--store", self.store, "--where", text, mentions=["where is '", *mentions], **options)

    def test_an_endless_one_is_interrupted(self):
        self.where(self.ENDLESS, "10 seconds")
        self.assertIn("10 seconds", self.good("runs", "--help").out)

    def test_one_that_cannot_be_computed(self):
        for text, why in (("nonsense", "no such column: nonsense"), ("1 +", "incomplete|syntax error"),
                          ("epochs >", "syntax error"), ("abs(-9223372036854775808)", "integer overflow"),
                          ("json('{')", "malformed JSON"), ("no_such(1)", "no such function"),
                          ("EXISTS (SELECT 1 FROM other.runs)", "no such table"), ("length(zeroblob(2000000000))", "too big"),
                          ("1; DELETE FROM runs", "syntax error"), ("x'", "unrecognized token")):
            self.assertRegex(self.where(text).err, why)
        for verb in (["report", "--out", self.folder / "r.html"], ["check"]):
            self.refused(*verb, "--store", self.store, "--where", "nonsense", mentions=["no such column: nonsense"])

    def test_one_that_reaches_further(self):
        other = self.folder / "other.db"
        sqlite3.connect(other).execute("CREATE TABLE secrets (word)").connection.close()
        for text in (f"1) AND (ATTACH '{other}' AS o", "EXISTS (SELECT 1 FROM pragma_database_list)",
                     "EXISTS (SELECT * FROM pragma_table_info('runs'))", "load_extension('x')",
                     "1) UNION ALL SELECT * FROM runs --", "1; ATTACH 'x' AS y", "(INSERT INTO runs DEFAULT VALUES)",
                     "(DELETE FROM runs RETURNING 1)", "(PRAGMA user_version)"):
            self.where(text)
        self.assertFalse((self.folder / "x").exists())
        self.good("check", "--store", self.store)

    def test_what_may_be_asked(self):
        for text, count in (("epochs > 1", 1), ("(SELECT max(tr_ac) FROM epochs WHERE run = number) >= 0", 1),
                            ("(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 5) SELECT max(x) FROM n) = 5",
                             1), ("json_extract(settings, '$.blocks') = '1'", 1), ("task LIKE 'no%'", 0)):
            shown = self.good("runs", "--store", self.store, "--where", text).out
            self.assertEqual(len(shown.splitlines()) - 1, count, shown)


if __name__ == "__main__":
    unittest.main()
