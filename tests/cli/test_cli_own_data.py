"""Tables of the user's own: csv:, tsv: and jsonl: files, what is guessed, what is warned of and what is refused."""
import csv
import io
import json
import unittest

from harness import Case, StoreCase, run

MODEL = ["--blocks", "1", "--width", "8", "--mlp-width", "8", "--epochs", "1"]
GIB = 1 << 30
ROWS = [(f"{'good' if i % 3 else 'bad'} film, number {i % 7}", "pos" if i % 3 else "neg") for i in range(80)]


def as_csv(rows, header=None):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if header:
        writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


class Tables(StoreCase):
    settings = MODEL

    def id_of(self, task, *words):
        row, = json.loads(self.good("train", task, *MODEL, *words, "--json", "--store", self.store).out)
        return row["id"]

    def describe(self, path, *words):
        return json.loads(self.good("data", path, "--describe", "--json", *words).out)

    def test_the_same_rows_in_any_form_are_the_same_run(self):
        plain = self.write("a.csv", as_csv(ROWS))
        named = self.write("b.csv", as_csv([(i, label, text) for i, (text, label) in enumerate(ROWS)],
                                           ["n", "verdict", "opinion"]))
        guessed = self.write("c.csv", "\ufeff" + as_csv([(label, text) for text, label in ROWS], ["Label", "Text"]))
        lines = self.write("d.jsonl", "".join(json.dumps({"label": label, "text": text}) + "\n" for text, label in ROWS))
        tabs = self.write("e.tsv", "".join(f"{text}\t{label}\n" for text, label in ROWS))
        quoted = self.write("f.csv", "".join(f'"{text}","{label}"\n\n' for text, label in ROWS).rstrip("\n"))
        ids = {self.id_of(f"csv:{plain}"), self.id_of(f"csv:{named}", "--tokens", "opinion", "--label", "verdict"),
               self.id_of(f"csv:{named}", "--tokens", "3", "--label", "verdict"), self.id_of(f"csv:{guessed}"),
               self.id_of(f"jsonl:{lines}"), self.id_of(f"tsv:{tabs}"), self.id_of(f"csv:{quoted}"),
               self.id_of(f"csv:{plain}", "--tokenizer", "word")}
        self.assertEqual(len(ids), 1, ids)
        self.assertNotIn(self.id_of(f"csv:{plain}", "--tokenizer", "char"), ids)

    def test_ids_in_a_csv_are_those_of_the_tsv_form(self):
        rows = [(f"{i % 5} {i % 3} 2", i % 2) for i in range(60)]
        table = self.write("ids.csv", as_csv(rows))
        tsv = self.write("ids.tsv", "tokens\tlabel\n" + "".join(f"{tokens}\t{label}\n" for tokens, label in rows))
        lists = self.write("ids.jsonl", "".join(json.dumps({"tokens": [int(t) for t in tokens.split()], "label": label}) + "\n"
                                                for tokens, label in rows))
        self.assertEqual(self.id_of(f"csv:{table}"), self.id_of(f"tsv:{tsv}"))
        self.assertEqual(self.id_of(f"jsonl:{lists}"), self.id_of(f"tsv:{tsv}"))

    def test_labels_at_every_token(self):
        tags = [("the cat sat", "D N -"), ("U.N. met", "N V")] * 40
        table = self.write("tags.csv", as_csv(tags, ["words", "tags"]))
        lines = self.write("tags.jsonl", "".join(json.dumps(
            {"words": words.split(), "tags": [None if t == "-" else t for t in labels.split()]}) + "\n" for words, labels in tags))
        first = self.id_of(f"csv:{table}", "--readout", "each")
        self.assertEqual(first, self.id_of(f"jsonl:{lines}", "--readout", "each"))
        about = self.describe(table, "--readout", "each")
        self.assertEqual({row["label"] for row in about["labels"]}, {"D", "N", "V"})
        self.assertEqual((about["shortest"], about["longest"]), (2, 3))

    def test_describe(self):
        path = self.write("reviews.csv", as_csv(ROWS))
        other = self.write("other.csv", as_csv([("good film", "pos"), ("strange opera", "neg"), ("bad film, number 0", "neg")]))
        about = self.describe(f"csv:{path},{other}")
        counts = {row["label"]: row["count"] for row in about["labels"]}
        self.assertEqual(counts, {"pos": sum(label == "pos" for _, label in ROWS), "neg": sum(label == "neg" for _, label in ROWS)})
        self.assertEqual((about["training"], about["heldout"], about["shortest"], about["longest"]), (80, 3, 2, 5))
        self.assertAlmostEqual(about["majority_accuracy"], 100 / 3)
        self.assertEqual(about["vocabulary"], 2 + len({"good", "bad", "film", ",", "number", *map(str, range(7))}))
        self.assertIn("1 of 3 held-out sequences are in the training data", " ".join(about["warnings"]))
        self.assertIn("pos", self.good("data", path, "--describe").out)

    def test_columns_of_our_own_names(self):
        """The header that 'semfocus data' writes does not mean that all is numbers."""
        for content in ("1 2\ta\n3 4\tb\n2 2\ta\n1 1\tb\n", "3 stars from me\ta\nbad\tb\nfine\ta\n-\tb\n"):
            rows = [line.split("\t") for line in content.splitlines()]
            named, plain = self.write("named.tsv", "tokens\tlabel\n" + content), self.write("plain.tsv", content)
            table = self.write("rows.csv", "tokens,label\n" + as_csv(rows))
            self.assertEqual(len({self.id_of(f"tsv:{named}"), self.id_of(f"tsv:{plain}"), self.id_of(f"csv:{table}")}), 1, content)
        words, tags = self.write("words.tsv", "tokens\tlabel\n1 2\tD N\n3 1\tN -\n1 1\tD D\n"), "1 2,D N\n3 1,N -\n1 1,D D\n"
        self.assertEqual(self.id_of(f"tsv:{words}", "--readout", "each"),
                         self.id_of(f"csv:{self.write('words.csv', tags)}", "--readout", "each"))

    def test_empty_lines_and_headers(self):
        rows = "1 2\t0\n3 4\t1\n2 2\t0\n1 1\t1\n"
        whole, spaced = self.write("a.tsv", "tokens\tlabel\n" + rows), self.write("b.tsv", "tokens\tlabel\n" + rows.replace("\n", "\n\n"))
        self.assertEqual(self.id_of(f"tsv:{whole}"), self.id_of(f"tsv:{spaced}"))
        bare = self.write("c.tsv", rows)
        self.assertEqual(len({self.id_of(f"tsv:{one},{other}") for one in (whole, bare) for other in (whole, bare)}), 1)

    def test_members_that_are_not_used(self):
        rows = [{"text": f"a {i % 3}", "label": "xy"[i % 2]} for i in range(12)]
        plain = self.write("plain.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        noted = self.write("noted.jsonl", "".join(json.dumps(dict(row, note="n") if i == 0 else row) + "\n" for i, row in enumerate(rows)))
        self.assertEqual(self.id_of(f"jsonl:{plain}"), self.id_of(f"jsonl:{noted}", "--tokens", "text", "--label", "label"))

    def test_rare_labels_of_a_random_split(self):
        """A label that falls into the held-out part alone is warned of, whether it is a number or a name."""
        for names in ("xyzuvwabc", "012345678"):
            path = self.write("rare.csv", as_csv([(f"a {i}", names[i] if i < 9 else names[0]) for i in range(30)]))
            about = [self.describe(path, "--data-seed", seed) for seed in range(6)]
            self.assertTrue(any("never occur in the training data" in " ".join(each["warnings"]) for each in about), names)
            self.assertEqual({each["classes"] for each in about}, {9})

    def test_a_first_line_that_may_be_a_header(self):
        rows = [(f"a {i}", "xy"[i % 2]) for i in range(12)]
        for header, odd in ((("Comment", "Polarity"), True), (("a 7", "y"), False)):
            about = self.describe(self.write("odd.csv", as_csv([header, *rows])))
            self.assertEqual("if that line is a header" in " ".join(about["warnings"]), odd)

    def test_warnings(self):
        path = self.write("few.csv", as_csv([("a b", "x"), ("a b", "x"), ("a c", "x")]))
        result = run("train", f"csv:{path}", *MODEL, "--store", self.store)
        self.assertEqual(result.code, 0, result)
        for words in ("training sequences: only 2", "nothing to learn"):
            self.assertIn(words, result.err)
        self.assertEqual(run("train", f"csv:{path}", *MODEL, "--store", self.store, "--quiet").err, "")

    def test_names_are_kept_with_the_run(self):
        path = self.write("reviews.csv", as_csv(ROWS))
        self.id_of(f"csv:{path}")
        (environment,), = self.sql("SELECT environment FROM runs")
        self.assertEqual(json.loads(environment)["data"]["labels"], ["neg", "pos"])
        page = self.folder / "page.html"
        self.good("report", "--store", self.store, "--out", page, "--quiet")
        self.assertIn("0: neg, 1: pos", page.read_text())
        self.assertIn("those of the tokenizer word, a vocabulary of ", page.read_text())


class BadTables(Case):
    def refuse(self, task, *mentions, words=(), **options):
        self.refused("train", task, *MODEL, *words, "--store", self.folder / "runs", mentions=mentions, **options)

    def test_refusals(self):
        cases = [("ragged", "a b,x\na c,y,z\n", ":2: has 3 fields but the first row has 2"),
                 ("empty", "", ":1: is empty"), ("only a header", "text,label\n", ":2: no row follows"),
                 ("semicolons", "a;x\nb;y\n", ":1: has one column, but a row needs tokens and a label; put a comma between them"),
                 ("open quote", 'a,x\n"b,y\n', ":2: opens a quote that is never closed"),
                 ("after quote", '"a"b,x\n', ":1: has text after a closing quote"),
                 ("binary", b"a,x\nb\0,y\n", ":2: contains a NUL byte"),
                 ("mixed labels", "a,x\nb,y\nc,7\n", ":3: label '7' is a number, unlike"),
                 ("mixed numbers", "a,1\nb,y\n", ":2: label 'y' is not a number"),
                 ("mixed tokens", "1 2,1\n1 b,0\n", ":2: token 'b' is not an integer"),
                 ("no label", "a,x\nb,\n", ":2: has no label"), ("no tokens", "a,x\n ,y\n", ":2: has no tokens")]
        for name, content, sentence in cases:
            with self.subTest(name):
                path = self.write("bad.csv", content)
                self.refuse(f"csv:{path}", f"{path}{sentence}")
        path = self.write("bad.csv", "text,label\na b,x\n")
        self.refuse(f"csv:{path}", f"{path}:1: has no column 'review'", "text, label", words=["--tokens", "review"])
        self.refuse(f"csv:{path}", "tokens and label are the same", words=["--tokens", "text", "--label", "text"])
        self.refuse(f"csv:{self.folder / 'none.csv'}", "none.csv: cannot be opened")
        path = self.write("bad.csv", "id,tweet,label,extra\n1,a,x,\n")
        self.refuse(f"csv:{path}", f"{path}:1: which column has the tokens?", "id, tweet, label, extra")
        path = self.write("bad.csv", "text,a,b\n1,a,x\n")
        self.refuse(f"csv:{path}", f"{path}:1: which column has the labels?", "--label")
        path = self.write("each.tsv", "tokens\tlabel\n" + 2 * "1 2\t0 1\n")
        self.refuse(f"tsv:{path}", f"{path}:", "has one label per token; set readout to each")

    def test_json_lines(self):
        for content, sentence in [("[1]\n", ":1: is not a JSON object"), ('{"text": "a"\n', ":1: is not a JSON object"),
                                  ('{"text": "a", "label": "x"}\n{"text": "b"}\n', ":2: lacks 'label'"),
                                  ('{"text": "a"}\n', ":1: has one column, but a row needs tokens and a label; give it both"),
                                  ('{"text": ["a b"], "label": "x"}\n', ":1: has an empty word or one with a blank"),
                                  ('{"text": "a", "label": {}}\n', ":1: has no label")]:
            with self.subTest(content):
                path = self.write("bad.jsonl", content)
                self.refuse(f"jsonl:{path}", f"{path}{sentence}")

    def test_held_out_labels_that_training_lacks(self):
        text, more = self.write("a.csv", "a,x\nb,y\n"), self.write("b.csv", "a,x\nb,y\na b,z\n")
        self.refuse(f"csv:{text},{more}", f"{more}:3: label 'z' is held out but not in the training rows")
        ids, others = self.write("a.tsv", "tokens\tlabel\n1\t0\n2\t2\n"), self.write("b.tsv", "tokens\tlabel\n1\t0\n2\t1\n")
        self.refuse(f"tsv:{ids},{others}", f"{others}:3: label '1' is held out but not in the training rows")

    def test_labels_per_token(self):
        path = self.write("tags.csv", "the cat,D N\nthe cat sat,D N\n")
        self.refuse(f"csv:{path}", f"{path}:2: has 2 labels for 3 tokens", words=["--readout", "each"])

    def test_a_line_of_two_gigabytes(self):
        path = self.folder / "long.csv"
        with path.open("wb") as file:
            file.write(b"a,x\n")
            for _ in range(20):
                file.write(b"b" * (1 << 20))
            file.truncate(2 * GIB)  # the rest is never read
        self.refuse(f"csv:{path}", f"{path}:2: is a row of more than", memory=GIB)
        path = self.folder / "long.tsv"
        with path.open("wb") as file:
            file.write(b"tokens\tlabel\n0 1\t0\n")
            for _ in range(40):
                file.write(b"1 " * (1 << 19))
            file.truncate(2 * GIB)
        self.refuse(f"tsv:{path}", f"{path}:3: is a row of more than", memory=GIB)
        self.refused("solve", "parity", path, mentions=[f"{path}:3: is a line of more than"], memory=GIB)


if __name__ == "__main__":
    unittest.main()
