"""Text: windows and pieces, tokenizers, what the store keeps, what models write, and what is refused."""
import json
import math
import os
import pty
import random
import shutil
import subprocess
import unittest

from harness import PROGRAM, Case, StoreCase, run

MODEL = ["--blocks", "1", "--width", "8", "--mlp-width", "8", "--epochs", "1"]
CAUSAL = ["--readout", "each", "--causal"]
WORDS = "the cat dog sat on a mat and saw one bird".split()


def some_lines(count, seed=1):
    draws = random.Random(seed)
    return [" ".join(draws.choices(WORDS, k=draws.randint(3, 9))) for _ in range(count)]


def read_terminal(terminal):
    """All that is shown until the program at the other end is gone."""
    shown = b""
    with open(terminal, "rb", buffering=0) as file:
        try:
            while block := file.read(4096):
                shown += block
        except OSError:  # Linux reports the end so
            pass
    return shown.decode()


class Text(StoreCase):
    def setUp(self):
        super().setUp()
        self.lines = some_lines(100)
        self.path = self.write("text.txt", "".join(line + "\n" for line in self.lines))

    def train_text(self, *words, task=None):
        row, = json.loads(self.good("train", task or f"text:{self.path}", *MODEL, *words, "--json", "--store", self.store).out)
        return row

    def describe(self, *words, task=None):
        return json.loads(self.good("data", task or f"text:{self.path}", "--describe", "--json", *words).out)

    def test_windows(self):
        """Of every line by itself; the context is the mean number of tokens of a training line, the last tenth is held out."""
        training, heldout = [[line.split() for line in part] for part in (self.lines[:90], self.lines[90:])]
        context = sum(map(len, training)) // len(training)
        about = self.describe("--tokenizer", "word")
        self.assertEqual((about["shortest"], about["longest"]), (context, context))
        self.assertEqual(about["training"], sum(max(0, len(line) - context) for line in training))
        self.assertEqual(about["heldout"], sum(max(0, len(line) - context) for line in heldout))
        following = [word for line in training for word in line[context:]]
        self.assertEqual({row["label"]: row["count"] for row in about["labels"]},
                         {word: following.count(word) for word in following})
        self.assertEqual(self.describe("--tokenizer", "word", "--context", "2")["training"],
                         sum(max(0, len(line) - 2) for line in training))

    def test_pieces(self):
        text = self.path.read_bytes()
        cut = len("".join(line + "\n" for line in self.lines[:90]))
        about = self.describe(*CAUSAL, "--tokenizer", "byte", "--context", "7")
        self.assertEqual((about["training"], about["heldout"]), ((cut - 1) // 7, (len(text) - cut - 1) // 7))
        labels = text[1:7 * ((cut - 1) // 7) + 1]
        newline = [row["count"] for row in about["labels"] if row["label"] == "\n"]
        self.assertEqual(newline, [labels.count(b"\n")])

    def test_a_held_out_text_of_its_own(self):
        other = self.write("other.txt", "one bird sat on a mat and saw the dog\n")
        about = self.describe("--tokenizer", "word", "--context", "3", task=f"text:{self.path},{other}")
        self.assertEqual(about["heldout"], 10 - 3)

    def test_perplexity_and_bits_per_byte(self):
        row = self.train_text(*CAUSAL, "--context", "16")
        loss = row["curve"][-1]["va-ce"]
        self.assertAlmostEqual(row["heldout_perplexity"], math.exp(loss), places=6)
        self.assertAlmostEqual(row["heldout_bits_per_byte"], loss / math.log(2), places=6)  # one token per byte
        row = self.train_text("--tokenizer", "word")
        self.assertIsNone(row["heldout_bits_per_byte"])

    def test_report(self):
        row = self.train_text(*CAUSAL, "--context", "16")
        page = self.folder / "page.html"
        self.good("report", "--store", self.store, "--out", page, "--quiet")
        text = page.read_text()
        self.assertIn("bits per byte", text)
        self.assertIn(f"<td>{row['heldout_perplexity']:.3f}</td><td>{row['heldout_bits_per_byte']:.4f}</td>", text)

    def test_what_defines_a_run(self):
        first = self.train_text("--tokenizer", "word")["id"]
        copy = self.write("copy.txt", self.path.read_bytes())
        self.assertEqual(self.train_text("--tokenizer", "word", task=f"text:{copy}")["id"], first)
        model, = (self.store / "tokenizers").glob("*.model")
        mine = self.folder / "mine.model"
        shutil.copy(model, mine)
        self.assertEqual(self.train_text("--tokenizer", mine)["id"], first)
        others = {self.train_text("--tokenizer", "word", "--vocab", "5")["id"], self.train_text("--tokenizer", "word", "--context", 2)["id"],
                  self.train_text()["id"], first}
        self.assertEqual(len(others), 4)
        self.write("copy.txt", self.path.read_text().replace("mat", "rug"))
        self.assertNotEqual(self.train_text("--tokenizer", "word", task=f"text:{copy}")["id"], first)

    def test_files_of_tokens_are_made_again_if_they_are_gone_or_damaged(self):
        row = self.train_text(*CAUSAL, "--context", "16")
        files = sorted((self.store / "texts").iterdir())
        self.assertEqual(len(files), 2)
        before = [file.read_bytes() for file in files]
        files[0].unlink()
        files[1].write_bytes(before[1][:40] + b"\1" + before[1][41:])
        self.good("check", "--store", self.store)
        again = self.train_text(*CAUSAL, "--context", "16", "--epochs", "2")
        self.assertNotEqual(again["weights"], row["weights"])
        self.assertEqual([file.read_bytes() for file in files], before)

    def test_a_text_is_tokenized_once(self):
        """On a terminal, the first command shows that it learns a tokenizer and tokenizes; the second one does neither."""
        self.path.write_text("".join(line + "\n" for line in some_lines(60000)), encoding="utf-8")
        words = ["train", f"text:{self.path}", *MODEL, "--tokenizer", "word", "--context", "200", *CAUSAL, "--store", str(self.store)]
        shown = []
        for _ in range(2):
            ours, theirs = pty.openpty()
            with subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=theirs) as process:
                os.close(theirs)
                shown.append(read_terminal(ours))
            self.assertEqual(process.returncode, 0, shown)
        for what in ("learning a tokenizer", "tokenizing"):
            self.assertIn(what, shown[0])
            self.assertNotIn(what, shown[1])

    def test_generate(self):
        run_id = self.train_text(*CAUSAL, "--context", "16", "--epochs", "3")["id"]
        ask = ["generate", run_id, "--store", self.store, "--prompt", "the cat", "--new-tokens", "40"]
        text = self.good(*ask).out
        self.assertTrue(text.startswith("the cat"), text)
        self.assertEqual(self.good(*ask, "--threads", "1", env={"SEMFOCUS_ISA": "scalar"}).out, text)
        self.assertNotEqual(self.good(*ask, "--seed", "7").out, text)
        best = json.loads(self.good(*ask, "--temperature", "0", "--json").out)["text"]
        self.assertEqual(json.loads(self.good(*ask, "--top", "1", "--seed", "9", "--json").out)["text"], best)
        self.assertEqual(len(best), len("the cat") + 40)
        self.refused(*ask, "--precision", "bf16", mentions=["precision has no effect on generate"])
        self.refused(*ask, "--data-parallel", mentions=["unknown setting 'data-parallel'"])
        windows = self.train_text("--tokenizer", "word")["id"]
        self.refused("generate", windows, "--store", self.store, mentions=["not a causal model of text"])
        other, = self.train("full")
        self.refused("generate", other, "--store", self.store, mentions=["not a causal model of text"])

    def test_generate_without_the_text(self):
        """The store has the tokenizer, and so has one into which it was merged."""
        for tokenizer in ("char", "word"):
            text = self.write("gone.txt", "the cat sat on the mat\n" * 40)
            run_id = self.train_text(*CAUSAL, "--context", "8", "--epochs", "1", "--tokenizer", tokenizer, task=f"text:{text}")["id"]
            ask = ["generate", run_id, "--prompt", "the cat", "--new-tokens", "20", "--store"]
            there = self.good(*ask, self.store).out
            merged = self.folder / f"merged-{tokenizer}"
            self.good("merge", self.store, "--into", merged)
            text.unlink()
            for store in (self.store, merged):
                self.assertEqual(self.good(*ask, store).out, there)
            for model in (merged / "tokenizers").iterdir():
                model.unlink()
            self.refused(*ask, merged, codes=(1, 2), mentions=["gone.txt"])

    def test_a_damaged_tokenizer(self):
        """Another bit may give another tokenizer that can be read: it is noticed, refused by merge, and made again."""
        text = self.write("kept.txt", "the cat sat on the mat\n" * 40)
        words = [*CAUSAL, "--context", "8", "--epochs", "1", "--tokenizer", "word"]
        run_id = self.train_text(*words, task=f"text:{text}")["id"]
        other = self.good("train", f"text:{text}", *MODEL, *words, "--seed", "7", "--store", self.folder / "other", "--quiet").out[:16]
        model, = (self.store / "tokenizers").glob("*.model")
        whole = model.read_bytes()
        model.write_bytes(whole.replace(b"cat", b"cab"))
        self.assertNotEqual(model.read_bytes(), whole)
        self.refused("merge", self.store, "--into", self.folder / "all", codes=(1,), mentions=[f"the tokenizer '{model}' is damaged"])
        self.assertEqual(self.train_text(*words, task=f"text:{text}")["id"], run_id)
        again = self.good("train", f"text:{text}", *MODEL, *words, "--seed", "7", "--store", self.store, "--quiet").out[:16]
        self.assertEqual(again, other)
        self.assertEqual(model.read_bytes(), whole)
        self.good("merge", self.store, "--into", self.folder / "all")

    def test_a_causal_model_learns_a_text_that_repeats(self):
        path = self.write("abc.txt", "abcdefgh\n" * 400)
        row = self.train_text(*CAUSAL, "--context", "18", "--width", "32", "--mlp-width", "32", "--epochs", "40", "--lr", "0.01",
                              "--dropout", "0", task=f"text:{path}")
        self.assertLess(row["heldout_perplexity"], 1.3)
        out = self.good("generate", row["id"], "--store", self.store, "--prompt", "abc", "--new-tokens", "24", "--temperature", "0").out
        self.assertEqual(out, "abcdefgh\nabcdefgh\nabcdefgh\n\n"[:27] + "\n")


class BadText(Case):
    def refuse(self, task, *mentions, words=(), **options):
        self.refused("train", task, *MODEL, *words, "--store", self.folder / "runs", mentions=mentions, **options)

    def test_refusals(self):
        path = self.write("a.txt", "a b c\n" * 30)
        for content, sentence, words in [("", ":1: is empty", ()), ("one line\n", ":1: is a single line", ()),
                                         (b"a\nb\0c\nd\n", ":2: contains a NUL byte", ())]:
            bad = self.write("bad.txt", content)
            self.refuse(f"text:{bad}", f"{bad}{sentence}", words=words)
        self.refuse(f"text:{path}", "no line with more than 100 tokens", words=["--context", 100])
        self.refuse(f"text:{path}", "needs --causal", words=["--readout", "each"])
        self.refuse(f"text:{path}", "has 256 ids", words=["--tokenizer", "byte", "--vocab", "7"])
        self.refuse(f"text:{path}", "has no effect on text", words=["--label", "x"])
        self.refuse(f"text:{path}", "nothing.model", words=["--tokenizer", self.folder / "nothing.model"])
        self.refuse(f"text:{path}", "neither a tokenizer", words=["--tokenizer", path], codes=(1, 2))
        self.refuse(f"text:{self.folder / 'none'}", "cannot be opened")
        self.refuse("even-pairs", "tokenizer is known for a built-in task", words=["--tokenizer", "char"])
        self.refuse(f"text:{path}", "bpe", words=["--tokenizer", "bpe"])
        for tokenizer in ("unigram", "bpe"):
            self.refuse(f"text:{path}", "vocab is 3 but must be at least 4", words=["--tokenizer", tokenizer, "--vocab", "3"])

    def test_binary_is_text_for_the_tokenizer_byte(self):
        path = self.write("bytes", bytes(range(256)) * 20)
        result = run("train", f"text:{path}", *MODEL, *CAUSAL, "--tokenizer", "byte", "--context", "16", "--store", self.folder / "runs", "--quiet")
        self.assertEqual((result.code, result.err), (0, ""), result)


if __name__ == "__main__":
    unittest.main()
