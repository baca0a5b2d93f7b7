"""--shard I/N: parts of a plan, for jobs that do not know of each other; and the Slurm scripts that use it."""
import os
import shutil
import subprocess
import unittest

from harness import PROGRAM, ROOT, TINY, Case, read_json, run

BAD = ["0/3", "4/3", "x", "1/0", "1/", "/3", "", "3", "1/3/3", "-1/3", " 1/3", "1/3 ", "1.0/3", "1/1000001", "99999999999999999999/3",
       "1/99999999999999999999", "1\n/3", "\x1b[31m"]
STUDY = ["compare", "even-pairs,parity", *TINY, "--attention", "full,topk:3", "--seeds", "6"]
SLURM = ROOT / "examples" / "slurm"


class Shards(Case):
    def planned(self, *words, **options):
        return read_json(self.good(*words, "--dry-run", "--json", "--store", self.folder / "none", **options).out)

    def test_bad_values(self):
        (self.folder / "study.ini").write_text("task = even-pairs\n")
        for value in BAD:
            for words in (STUDY, ["train", "even-pairs", *TINY], ["study", self.folder / "study.ini"],
                          ["paper", "run", "tab-6", "--scale", "smoke"]):
                with self.subTest(value=value, words=words[0]):
                    self.refused(*words, "--shard", value, "--store", self.folder / "runs", mentions=["shard is '", "such as 2/3"])
        self.assertFalse((self.folder / "runs").exists())

    def test_the_line_of_a_study_file(self):
        path = self.folder / "study.ini"
        path.write_text("task = even-pairs\nshard = 4/3\n")
        self.refused("study", path, mentions=[f"{path}:2", "shard is '4/3'"])
        path.write_text("task = even-pairs\nshard = 2/3\n" + "".join(f"{name[2:]} = {value}\n" for name, value in zip(TINY[::2], TINY[1::2])))
        self.assertEqual(self.planned("study", path)["count"], 4)
        self.assertEqual(self.planned("study", path, "--shard", "1/12")["count"], 1)

    def test_where_it_has_no_effect(self):
        for words in (["paper", "list"], ["paper", "status"]):
            self.refused(*words, "--shard", "1/2", mentions=["shard has no effect"])
        self.refused("report", "--shard", "1/2", mentions=["unknown setting 'shard'"])

    def test_every_run_once_for_any_number_of_shards(self):
        whole = [row["id"] for row in self.planned(*STUDY)["runs"]]
        self.assertEqual(len(whole), 24)
        for count in (1, 2, 3, 5, 24, 30):
            parts = [self.planned(*STUDY, "--shard", f"{i}/{count}") for i in range(1, count + 1)]
            ids = [[row["id"] for row in part["runs"]] for part in parts]
            self.assertEqual(sorted(sum(ids, [])), sorted(whole), count)
            self.assertEqual([part["count"] for part in parts], [len(part) for part in ids])
            self.assertLessEqual(max(map(len, ids)) - min(map(len, ids)), 2, count)

    def test_what_is_stored_does_not_matter(self):
        """Nor do threads, the store, or what another shard has done."""
        store = self.folder / "runs"
        words = [*STUDY, "--shard", "2/3"]
        before = [row["id"] for row in self.planned(*words)["runs"]]
        self.good(*words, "--store", store, "--quiet", "--threads", 1)
        shown = read_json(self.good(*words, "--store", store, "--dry-run", "--json", "--threads", 2).out)
        self.assertEqual(([row["id"] for row in shown["runs"]], shown["done"]), (before, 8))
        self.assertEqual([row["id"] for row in read_json(self.good("runs", "--json", "--store", store).out)], before)
        again = self.good(*words, "--store", store)
        self.assertIn("8 of 8 runs were already done", again.out)

    def test_one_store_for_all_shards(self):
        """The last one has the whole table."""
        store = self.folder / "runs"
        told = [self.good(*STUDY, "--shard", f"{i}/2", "--store", store).out for i in (1, 2)]
        self.assertRegex(told[0], r"(?m)^full +3/6 ")
        self.assertRegex(told[1], r"(?m)^full +6/6 ")
        self.assertEqual(len(read_json(self.good("runs", "--json", "--store", store).out)), 24)

    def test_a_page_only_if_it_is_asked_for(self):
        store = self.folder / "runs"
        for words, pages in (([], []), (["--out", "page.html"], ["page.html"])):
            done = self.good(*STUDY, "--shard", "1/3", "--store", store, *words, cwd=self.folder)
            self.assertEqual([path.name for path in self.folder.glob("*.html")], pages)
            self.assertEqual("report: page.html" in done.out, bool(pages))
            self.assertIn("shard 1 of 3: 8 of 24 runs in", done.out)

    def test_more_shards_than_runs(self):
        store = self.folder / "runs"
        words = ["compare", "even-pairs", *TINY, "--seeds", "1", "--shard", "3/3", "--store", store]
        done = self.good(*words)
        self.assertEqual(done.out.splitlines()[0], f"shard 3 of 3: 0 of 2 runs in '{store}'")
        self.assertEqual(read_json(self.good(*words, "--json").out), [])
        self.assertEqual(read_json(self.good("runs", "--json", "--store", store).out), [])
        self.assertEqual(read_json(self.good("train", *words[1:-6], "--shard", "2/2", "--store", store, "--json").out), [])

    def test_longer_runs_count_for_more(self):
        (self.folder / "study.ini").write_text("task = even-pairs\nattention = full\nseeds = 4\n[long]\nepochs = 30\n[short]\n"
                                               "epochs = 10\nlr = 0.2\n")
        words = ["study", self.folder / "study.ini", *TINY[:-2]]
        variants = [[row["variant"] for row in self.planned(*words, "--shard", f"{i}/2")["runs"]] for i in (1, 2)]
        self.assertEqual([(part.count("long"), part.count("short")) for part in variants], [(2, 2), (2, 2)])
        variants = [[row["variant"] for row in self.planned(*words, "--shard", f"{i}/5")["runs"]] for i in range(1, 6)]
        self.assertEqual([part.count("long") for part in variants], [1, 1, 1, 1, 0])
        self.assertEqual([part.count("short") for part in variants], [1, 0, 0, 0, 3])  # after three, all have 30 epochs

    def test_train(self):
        store = self.folder / "runs"
        words = ["train", "even-pairs", *TINY, "--attention", "full,topk:3", "--seed", "1,2,3", "--store"]
        whole = self.folder / "whole"
        self.good(*words, whole, "--quiet")
        shards = []
        for i in (1, 2):
            shards.append(store / str(i))
            store.mkdir(exist_ok=True)
            done = self.good(*words, shards[-1], "--shard", f"{i}/2", "--json")
            self.assertEqual(len(read_json(done.out)), 3)
            self.assertIn(f"shard {i} of 2: 3 of 6 runs", self.good(*words, shards[-1], "--shard", f"{i}/2").out)
        self.good("merge", *shards, "--into", self.folder / "all")
        runs = [read_json(self.good("runs", "--json", "--store", place).out) for place in (whole, self.folder / "all")]
        self.assertEqual(*runs)

    def test_entries_of_the_paper_share_runs(self):
        """Each is trained and measured by one shard; merged, the verdicts are those of one command."""
        words = ["paper", "run", "fig-27", "tab-6", "fig-5", "--scale", "smoke", "--quiet", "--store"]
        whole, merged = self.folder / "whole", self.folder / "all"
        self.good(*words, whole)
        shards = [self.folder / f"shard-{i}" for i in (1, 2, 3)]
        for i, store in enumerate(shards, 1):
            self.assertIn(f"shard {i} of 3: ", self.good(*words, store, "--shard", f"{i}/3").out)
        counts = [len(read_json(self.good("runs", "--json", "--store", store).out)) for store in shards]
        expected = read_json(self.good("runs", "--json", "--store", whole).out)
        self.assertEqual(sum(counts), len(expected))
        self.assertGreater(min(counts), 0)
        self.good("merge", *shards, "--into", merged)
        self.assertEqual(read_json(self.good("runs", "--json", "--store", merged).out), expected)
        told = [self.good("paper", "status", "--scale", "smoke", "--json", "--store", place).out for place in (whole, merged)]
        self.assertEqual(*told)
        self.good("check", "--store", merged)


class Slurm(Case):
    """The scripts of examples/slurm, with the variables that Slurm would set."""
    SCRIPTS = ("array.sbatch", "merge.sbatch", "mpi.sbatch")

    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "semfocus").symlink_to(PROGRAM)
        srun = programs / "srun"  # one task
        srun.write_text('#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
        srun.chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"
        (self.folder / "study.ini").write_text("task = even-pairs\nattention = full, topk:3\nseeds = 4\n" + "".join(
            f"{name[2:]} = {value}\n" for name, value in zip(TINY[::2], TINY[1::2])))

    def script(self, name, **variables):
        done = subprocess.run(["bash", SLURM / name], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": self.path, "SLURM_CPUS_PER_TASK": "1", **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def test_they_are_bash(self):
        for name in self.SCRIPTS:
            subprocess.run(["bash", "-n", SLURM / name], check=True)
            self.assertIn("\n#SBATCH --job-name=", (SLURM / name).read_text())
        self.assertEqual(sorted(path.name for path in SLURM.glob("*.sbatch")), sorted(self.SCRIPTS))

    @unittest.skipUnless(shutil.which("shellcheck"), "no shellcheck here")
    def test_shellcheck(self):
        done = subprocess.run(["shellcheck", *(SLURM / name for name in self.SCRIPTS)], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_study_of_the_example(self):
        plan = read_json(self.good("study", SLURM / "study.ini", "--dry-run", "--json", "--train-count", "50", "--store", self.folder / "no").out)
        self.assertEqual(plan["count"], 240)

    def test_an_array_and_its_merge(self):
        for part in (1, 2, 3):
            told = self.script("array.sbatch", SLURM_ARRAY_TASK_ID=str(part), SLURM_ARRAY_TASK_COUNT="3")
            self.assertIn(f"shard {part} of 3: ", told)
        self.script("array.sbatch", SLURM_ARRAY_TASK_ID="2", SLURM_ARRAY_TASK_COUNT="1", SHARDS="3")  # again, alone
        for _ in range(2):
            self.assertIn("'all' has 8 runs", self.script("merge.sbatch"))
        self.assertTrue((self.folder / "report.html").exists())
        self.good("check", "--store", self.folder / "all")
        self.good("study", "study.ini", "--store", "whole", "--out", "whole.html", "--quiet", cwd=self.folder)
        runs = [self.good("runs", "--json", "--store", self.folder / name).out for name in ("all", "whole")]
        self.assertEqual(*runs)

    def test_the_line_that_launches_ranks(self):
        self.assertRegex(self.script("mpi.sbatch"), r"(?m)^full +4/4 ")


if __name__ == "__main__":
    unittest.main()
