"""Files that are no plug-in, plug-ins that cannot be run, and parts that break their rules: a sentence, never a crash."""
import os
import tempfile
import unittest
from pathlib import Path

from building import HERE, PluginCase, build, read_json, run


class Refused(PluginCase):
    def library(self, *defines, name="refused"):
        return build(HERE / "refused.c", self.folder, *defines, name=name)

    def refused_file(self, path, *mentions, **options):
        self.refused("list", "attention", "--plugin", path, mentions=[f"plug-in '{str(path)[:20]}", *mentions], timeout=20, **options)

    def test_files(self):
        os.mkfifo(self.folder / "pipe")
        good = self.strided.read_bytes()
        self.refused_file("missing.so", "No such file")
        self.refused_file(self.folder / "pipe", "is no file")
        for name, content, mention in (("text.so", b"not a library " * 20, "is not a shared library"), ("empty.so", b"", "is empty"),
                                       ("short.so", b"\x7fELF", "is not a shared library"), ("half.so", good[:len(good) // 2], "cut short"),
                                       ("header.so", good[:64], "cut short")):
            self.refused("list", "--plugin", self.write(name, content), mentions=["plug-in '", mention])
        self.refused("list", "--plugin", self.folder, mentions=["is a folder"])
        self.refused("list", "--plugin", "", mentions=["plugin is ''"])
        self.refused("list", "--plugin", self.strided, "--plugin", self.near, repeat=True, mentions=["given twice", "commas"])
        self.refused("list", env={"SEMFOCUS_PLUGINS": "missing.so"}, mentions=["plug-in 'missing.so'"])
        self.refused("train", "even-pairs", "--plugin", "missing.so", mentions=["plug-in 'missing.so'"])
        undefined = self.write("undefined.c", "extern double sf_exp(double); double sf_plugin_entry(double x) { return sf_exp(x); }")
        self.refused("list", "--plugin", build(undefined, tempfile.mkdtemp(dir=self.folder)), mentions=["undefined symbol: sf_exp"])
        self.good("list", "--plugin", f"{self.strided},{self.strided}")  # the same again is passed over
        os.symlink(self.strided, self.folder / "link.so")
        self.good("list", "--plugin", f"{self.strided},{self.folder / 'link.so'}")

    def test_tables(self):
        for define, mention in (
                ("NO_ENTRY", "does not export sf_plugin_entry"), ("TABLE=0", "gave no table"),
                ("PLUGIN=.version=2", "table of parts 1 has version 2 but this semfocus knows versions 1 to 1"),
                ("PLUGIN=.version=0", "has version 0"), ("PLUGIN=.size=8", "and 8 bytes but that version has"),
                ("PLUGIN=.selectors=0,.weightings=0,.tasks=0", "registers nothing"), ("PLUGIN=.selectors=twice", "selector mine is registered twice"),
                ("PLUGIN=.extras=selectors", "extras, which this version of semfocus cannot run"),
                ("PLUGIN=.score_transforms=transforms", "score transforms, which this version of semfocus cannot run"),
                ("SELECTOR=.version=5", "selector 1 has version 5 but this semfocus knows versions 1 to 4"),
                ("SELECTOR=.size=1", "selector 1 has version 4 and 1 bytes"), ("SELECTOR=.name=0", "selector 1 has no name"),
                ('SELECTOR=.name=""', "is called ''"), ('SELECTOR=.name="Mine"', "is called 'Mine'"), ('SELECTOR=.name="a:b"', "is called 'a:b'"),
                ('SELECTOR=.name="-a"', "is called '-a'"), ('SELECTOR=.name="a/b"', "lower-case letter"),
                ('SELECTOR=.name="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"', "up to 23 more"),
                ('SELECTOR=.name="topk"', "the selector topk is built in"), ("SELECTOR=.summary=0", "has no summary"),
                ('SELECTOR=.summary="a\\nb"', "must be one line"), ("SELECTOR=.keep=0", "the selector mine has no function keep"),
                ("SELECTOR=.selects_by=16", "selects by 16, which this version"), ("SELECTOR=.selects_by=8", "needs SF_BY_SCORE and a function prepare"), ("SELECTOR=.keeps_k=true", "takes none; set takes_k"),
                ("SELECTOR=.separates_scores=true", "add SF_BY_SCORE"),
                ("SELECTOR=.prepare=(void*)sample", "one of scratch_size and prepare"),
                ("SELECTOR=.prepare=(void*)sample,.scratch_size=(void*)sample", "nothing to prepare"),
                ("SELECTOR=.prepare_batch=(void*)sample,.selects_by=9", "one of scratch_size and prepare"),
                ("SELECTOR=.prepare_batch=(void*)sample,.scratch_size=(void*)sample,.selects_by=11", "by all scores alone"),
                ("SELECTOR=.prepare_batch=(void*)sample,.scratch_size=(void*)sample", "by all scores alone"),
                ("SELECTOR=.prepare_batch=(void*)sample,.prepare=(void*)sample,.scratch_size=(void*)sample,.selects_by=9", "have no prepare"),
                ('SELECTOR=.arguments={{.letter="x",.meaning="m",.high=1}}', "a letter of 1 to 6 capitals"),
                ('SELECTOR=.arguments={{.letter="X",.high=1}}', "argument X of the selector mine has no meaning"),
                ('SELECTOR=.arguments={{.letter="X",.meaning="m",.high=-1}}', "and bounds 0..-1"),
                ('SELECTOR=.arguments={{.letter="X",.meaning="m",.high=1,.initial=0.5,.whole=true}}', "but is whole"),
                ('SELECTOR=.arguments={{0},{.letter="X",.meaning="m",.high=1}}', "stands behind one without a letter"),
                ('SELECTOR=.arguments={{.letter="X",.meaning="m"},{.letter="Y",.meaning="m",.required=true}}', "is required but stands behind"),
                ('SELECTOR=.takes_k=true,.arguments={{.letter="X",.meaning="m"},{.letter="Y",.meaning="m"}}', "at most 2 numbers"),
                ("WEIGHTING=.version=9", "weighting 1 has version 9"), ('WEIGHTING=.name="softmax"', "the weighting softmax is built in"),
                ("WEIGHTING=.weigh=0", "no function weigh"), ("WEIGHTING=.weigh_backward=0", "no function weigh_backward"),
                ("WEIGHTING=.weigh_matrix=weigh_matrix", "it needs weigh_matrix, weigh_matrix_backward and matrix_scratch together"),
                ("WEIGHTING=.weigh_batch=(void*)sample", "it needs weigh_matrix, weigh_matrix_backward and matrix_scratch together"),
                ("WEIGHTING=.weigh_batch=(void*)sample,.weigh_batch_backward=(void*)sample", "matrix_scratch together"),
                ("WEIGHTING=.weigh_batch=(void*)sample,.weigh_batch_backward=(void*)sample,.matrix_scratch=(void*)sample,"
                 ".weigh_matrix=weigh_matrix,.weigh_matrix_backward=(void*)sample", "has weigh_matrix and weigh_batch"),
                ("WEIGHTING=.has_softmax_theory=true", "claims the theory of softmax"),
                ("TASK=.version=3", "task 1 has version 3"), ('INFO=.name="parity"', "the task parity is built in"), ('INFO=.name="tsv:x"', "is called 'tsv:x'"),
                ("INFO=.tokens=0", "what its tokens mean"), ("INFO=.pad=0", "has pad 0"), ("INFO=.classes=1", "has 1 classes"),
                ("INFO=.shortest=0", "has lengths 0..100"), ("INFO=.longest=1000000", "has lengths 1..1000000"), ("INFO=.longest=20", "length 40 is out of range"),
                ("TASK=.sample=0", "no function sample"), ("TASK=.solve=0", "no function solve"),
                ("TASK=.sample_each=sample_each", "one label per sequence and for one per position"),
                ("TASK=.sample=0,.solve=0,.sample_each=sample_each", "no function solve_each"),
                ("TASK=.sample_with=sample_with", "sample_with and functions without settings"),
                ("TASK=.sample=0,.solve=0,.sample_with=sample_with", "no function solve_with"),
                ("TASK=.sample=0,.solve=0,.sample_with=sample_with,.solve_with=(void*)solve,.settings=(const char*const[]){\"epochs\",0}",
                 "the settings of the task mine: unknown setting 'epochs'"),
                ("TASK=.labels_each=true", "members for settings but no function sample_with"),
                ("TASK=.chance=chance_of_two", "gives 2 as the share"),
                ('INFO=.recipe=(const char*const[]){"epochz","3",0}', "the recipe of the task mine: unknown setting 'epochz'"),
                ('INFO=.recipe=(const char*const[]){"epochs","many",0}', "the recipe of the task mine: epochs is 'many'"),
                ('INFO=.recipe=(const char*const[]){"store","x",0}', "the recipe of the task mine"),
                ('INFO=.recipe=(const char*const[]){"epochs",0}', "must be pairs")):
            with self.subTest(define):
                self.refused("list", "--plugin", self.library("-D" + define), mentions=["plug-in '", mention])
        self.good("list", "--plugin", self.library())
        # Of the first version, which ended before these members.
        self.good("list", "--plugin", self.library("-DSELECTOR=.version=1,.size=offsetof(sf_selector,keeps_all)", name="first"))
        self.good("list", "--plugin", self.library("-DSELECTOR=.version=2,.size=offsetof(sf_selector,failure)", name="third"))
        self.good("list", "--plugin", self.library("-DSELECTOR=.version=3,.size=offsetof(sf_selector,prepare_batch)", name="fourth"))
        self.good("list", "--plugin", self.library("-DWEIGHTING=.version=3,.size=offsetof(sf_weighting,weigh_batch)", name="fifth"))
        self.good("list", "--plugin", self.library("-DWEIGHTING=.version=1,.size=offsetof(sf_weighting,matrix_scratch)", name="second"))
        self.good("list", "--plugin", self.library("-DTASK=.version=1,.size=offsetof(sf_task,settings)", name="third"))
        other = self.library("-g3", name="other")
        self.refused("list", "--plugin", f"{self.library()},{other}", mentions=["selector mine is already there from the plug-in"])


class Misbehaving(PluginCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bad = build(HERE / "misbehaving.c", cls.libraries)

    def failing(self, attention, mention, *words, task="even-pairs"):
        result = run("train", task, *self.settings, "--epochs", 2, "--attention", attention, "--plugin", f"{self.bad},{self.all}",
                     *words, "--store", self.store)
        self.assertEqual(result.code, 1, result)
        self.assertIn(mention, result.err + result.out, result)
        return result

    def test_selectors_and_weightings(self):
        for attention, mention in (("none", "the selector none kept no key for query 0"), ("beyond", "kept key 4000000000 for query"),
                                   ("backwards", "kept keys must ascend"), ("many", "keeps at most 10"), ("fixed", "kept key 4000000000"),
                                   ("topk:3/nan", "the weighting nan made a weight that is not finite"),
                                   ("topk:3/nan-back", "the weighting nan-back made a gradient that is not finite")):
            with self.subTest(attention):
                self.failing(attention, mention)
                (status, message), = self.sql("SELECT status, message FROM runs WHERE attention = ?", attention)
                self.assertIn(status, ("failed", "pending"))
                if status == "failed":
                    self.assertIn(mention, message)

    def test_only_its_own_run_fails(self):
        self.failing("some:3,some:7,full", "the selector some kept no key", "--threads", 2)
        rows = {attention: status for attention, status in self.sql("SELECT attention, status FROM runs")}
        self.assertEqual(rows, {"some:3": "done", "some:7": "failed", "full": "done"})
        result = run("compare", "even-pairs", "--attention", "full,some:3,some:8", "--seeds", 1, *self.settings, "--epochs", 2, "--plugin",
                     self.bad, "--store", self.store)
        self.assertEqual(result.code, 1, result)
        self.assertIn("some:3", result.out)

    def test_tasks(self):
        for task, mention in (("bad-label", "sampled label 2 but its labels are 0..1"), ("bad-token", "sampled token -1 at position 9"),
                              ("bad-count", "sampled 1000010 tokens where length 10 was asked for")):
            result = run("train", task, *self.settings, "--epochs", 2, "--plugin", self.bad, "--store", self.store)
            self.assertIn(result.code, (1, 2), result)
            self.assertIn(mention, result.err + result.out, result)
            self.refused("data", task, "--length", 10, "--plugin", self.bad, mentions=[mention])


if __name__ == "__main__":
    unittest.main()
