"""What reaches a terminal or a spreadsheet: no control character and no formula, even if names and stores contain them."""
import csv
import os
import re
import subprocess
import unittest

from place import PROGRAM, TINY, StoreCase, read_json, run

# Escape, bell, backspace, carriage return, delete; CSI as UTF-8 and as a single byte; bytes that are not UTF-8.
NASTY = b"a\x1b[31mb\x07\x08\r\x7f\xc2\x9b2Jc\x9b\xff\xc3(\xe2\x82\xed\xa0\x80d"
SPELLED = r"a\x1b[31mb\x07\x08\r\x7f\u009b2Jc\x9b\xff\xc3(\xe2\x82\xed\xa0\x80d"


class Output(StoreCase):
    def safe(self, *streams):
        """No control character but newline and tab, in ASCII or beyond; UTF-8 throughout."""
        for stream in streams:
            text = stream.decode("utf-8")  # fails where it is not UTF-8
            self.assertIsNone(re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), repr(text[:500]))

    def run_safely(self, *words, **options):
        result = run(*words, **options)
        self.safe(result.raw, result.raw_err)
        return result

    def test_names_of_files(self):
        rows = self.good("data", "parity", "--count", 40, "--length", 6).raw
        path = os.fsencode(self.folder) + b"/" + NASTY + b".tsv"
        with open(path, "wb") as file:
            file.write(rows)
        task = b"tsv:" + path
        settings = ["--blocks", 1, "--width", 8, "--mlp-width", 8, "--epochs", 1, "--store", self.store]
        text = self.run_safely("train", task, *settings)
        self.assertEqual(text.code, 0, text)
        self.assertIn(SPELLED, text.out)
        id = read_json(self.run_safely("runs", "--store", self.store, "--json").out)[0]["id"]
        for words in (["runs"], ["runs", "--json"], ["analyze", id], ["analyze", id, "--json"], ["evaluate", id],
                      ["evaluate", id, "--json"], ["landscape", id, "--grid", 3], ["landscape", id, "--grid", 3, "--json"],
                      ["distance", id, id], ["check"], ["report", "--out", "-"], ["train", task, *settings[:-2]],
                      ["report", "--out", self.folder / "page.html"], ["compare", task, *settings[:-2], "--seeds", 1]):
            with self.subTest(words):
                result = self.run_safely(*words, "--store", self.store)
                self.assertEqual(result.code, 0, result)
                if "--json" in words:
                    read_json(result.out)

    def test_messages(self):
        for words in (["solve", "parity", NASTY], [NASTY], ["list", NASTY], ["train", NASTY], ["train", b"tsv:" + NASTY],
                      ["study", NASTY], ["parity", NASTY], ["runs", "--store", NASTY], ["runs", b"--" + NASTY, "1"],
                      ["train", "parity", "--attention", NASTY], ["train", "parity", "--lr", NASTY], ["paper", NASTY],
                      ["data", "parity", "--out", b"/none/" + NASTY], ["data", "parity", "--out", b"/none/x\ny"]):
            result = self.run_safely(*words)
            self.assertNotEqual(result.code, 0)
            self.one_sentence(result)

    def test_a_newline_does_not_fake_a_line(self):
        self.train("full", settings=TINY)
        self.sql("UPDATE runs SET task = ?", "even-pairs\n1234567890123456  all is well")
        shown = self.run_safely("runs", "--store", self.store).out
        self.assertEqual(len(shown.splitlines()), 2, shown)
        self.assertIn(r"even-pairs\n1234567890123456", shown)

    def test_what_a_store_holds(self):
        id, = self.train("full", settings=TINY)
        for column in ("task", "attention", "status", "message", "environment", "settings"):
            kept, = self.sql(f"SELECT {column} FROM runs")[0]
            for value in (NASTY, "x\x1b]0;title\x07\x9b31m\x7f"):
                self.sql(f"UPDATE runs SET {column} = CAST(? AS TEXT)", value)
                for words in (["runs"], ["runs", "--json"], ["report", "--out", self.folder / "page.html"], ["check"],
                              ["analyze", id], ["export", id], ["paper", "status", "--scale", "smoke"]):
                    result = self.run_safely(*words, "--store", self.store)
                    if "--json" in words and result.code == 0:
                        read_json(result.out)
                if column == "message":
                    break
            self.sql(f"UPDATE runs SET {column} = ?", kept)

    def test_what_sqlite_says(self):
        self.train("full", settings=TINY)
        self.one_sentence(self.run_safely("runs", "--store", self.store, "--where", "\x1b[2J \x9b"))

    def test_weights_are_not_printed_to_a_terminal(self):
        id, = self.train("full", settings=TINY)
        words = [PROGRAM, "export", id, "--format", "safetensors", "--store", str(self.store)]
        ours, theirs = os.openpty()
        done = subprocess.run(words, stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(theirs)
        os.close(ours)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--out", done.stderr)
        piped = subprocess.run(words, capture_output=True, timeout=60, check=True).stdout
        named = self.folder / "w.safetensors"
        self.good(*words[1:], "--out", named)
        self.assertEqual(piped, named.read_bytes())

    def test_text_that_is_fine_stays_as_it_is(self):
        path = self.folder / "größe 温度 🙂.tsv"
        path.write_bytes(self.good("data", "parity", "--count", 1000, "--length", 30).raw)
        shown = self.good("train", f"tsv:{path}", "--blocks", 1, "--width", 8, "--mlp-width", 8, "--epochs", 1, "--store",
                          self.store).out
        self.assertIn("größe 温度 🙂.tsv: 1 run", shown)


class Spreadsheets(StoreCase):
    def test_no_name_is_a_formula(self):
        names = ["=HYPERLINK(1)", "+1", "-2+3", "@SUM(1)", "plain"]
        sections = "".join(f"[{name}]\nblocks = {i + 1}\n" for i, name in enumerate(names))
        study = self.write("study.ini", "task = even-pairs\nattention = full\nseeds = 2\n"
                           + "".join(f"{name[2:]} = {value}\n" for name, value in zip(TINY[::2], TINY[1::2])
                                     if name != "--blocks") + "every = 1\n" + sections)
        figures = self.folder / "figures"
        self.assertEqual(run("study", study, "--store", self.store, "--figures", figures, "--quiet").code, 0)
        found = set()
        for path in figures.glob("*.csv"):
            with open(path, encoding="utf-8", newline="") as file:
                for row in list(csv.reader(file))[1:]:
                    found.add(row[0])
                    for field in row:
                        self.assertTrue(field[:1] not in tuple("=+-@\t\r") or re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", field),
                                        (path, row))
        for name in names:
            self.assertTrue(any(name in field for field in found), (name, found))
        self.assertTrue(any(field.startswith("'=HYPERLINK(1)") for field in found), found)

    def test_surfaces_and_recorded_measures(self):
        id, = self.train("full", "--every", 1, settings=TINY)
        self.sql("UPDATE measures SET measure = '=1+1' WHERE measure = 'delta_s'")
        rows = list(csv.reader(self.good("analyze", id, "--curves", "--store", self.store).out.splitlines()))
        self.assertIn("'=1+1", {row[3] for row in rows})
        self.assertNotIn("=1+1", {row[3] for row in rows})
        self.sql("UPDATE runs SET attention = '=1+1'")
        figures = self.folder / "figures"
        run("landscape", id, "--grid", 3, "--store", self.store, "--figures", figures)
        for path in figures.glob("*.csv"):
            self.assertNotRegex(path.read_text(), '(?m)(^|,)"?=')


class Options(StoreCase):
    def test_given_twice(self):
        for words, mentions in ((["--epochs", 2, "--epochs", 3], ["--epochs", "'2'", "'3'"]),
                                (["--epochs=2", "--epochs=2"], ["--epochs"]),
                                (["--store", "a", "--store", "b"], ["--store", "'a'", "'b'"]),
                                (["--attention", "full", "--attention", "topk:3"], ["'full'", "'topk:3'", "commas"]),
                                (["--quiet", "--quiet"], ["--quiet"])):
            self.refused("train", "even-pairs", *words, repeat=True, cwd=self.folder, mentions=["given twice", *mentions])
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
