"""Tasks with one label per position, and tasks with settings of their own, against plain solvers in Python."""
import itertools
import json
import math
import unittest

from harness import Case, run

PERMUTATIONS = list(itertools.permutations(range(5)))  # in lexicographic order


def is_even(permutation):
    return sum(a > b for a, b in itertools.combinations(permutation, 2)) % 2 == 0


def solve_recall(tokens, pairs=8, **_):
    shown = dict(zip(tokens[:2 * pairs:2], tokens[1:2 * pairs:2]))
    assert len(shown) == pairs
    return [None] * 2 * pairs + [shown.get(token) for token in tokens[2 * pairs:]]


def solve_noisy_recall(tokens, **_):
    known, labels = {}, []
    for i, token in enumerate(tokens):
        labels.append(known.get(token) if token < 8 else None)
        if token < 8 and i + 1 < len(tokens):
            assert known.setdefault(token, tokens[i + 1]) == tokens[i + 1]
    return labels


def solve_flip_flop(tokens, **_):
    assert tokens[-1] == 4
    return [bit for command, bit in zip(tokens[:-1:2], tokens[1::2]) if command == 2][-1]


def solve_word_problem(tokens, group="s5", **_):
    if group == "z60":
        return [total % 60 for total in itertools.accumulate(tokens)]
    elements = [p for p in PERMUTATIONS if group == "s5" or is_even(p)]
    product, labels = tuple(range(5)), []
    for token in tokens:
        product = tuple(elements[token][i] for i in product)
        labels.append(elements.index(product))
    return labels


def on_blanks(tokens, blank, output):
    data = tokens[:tokens.index(blank)]
    expected = output(data)
    assert tokens[len(data):] == [blank] * len(expected)
    return [None] * len(data) + expected


def operands(data):
    separator = data.index(2)
    return [sum(bit << i for i, bit in enumerate(part)) for part in (data[:separator], data[separator + 1:])]


def terminated(number):
    return [int(bit) for bit in reversed(f"{number:b}")] + [2]


def root(data):
    x = int("".join(map(str, data)), 2)
    return [int(bit) for bit in f"{math.isqrt(x):b}".zfill((len(data) + 1) // 2)]


TASKS = {
    "recall": solve_recall, "noisy-recall": solve_noisy_recall, "flip-flop": solve_flip_flop,
    "word-problem": solve_word_problem,
    "reverse-string": lambda tokens: on_blanks(tokens, 2, lambda data: data[::-1]),
    "duplicate-string": lambda tokens: on_blanks(tokens, 2, lambda data: data + data),
    "odds-first": lambda tokens: on_blanks(tokens, 2, lambda data: data[1::2] + data[::2]),
    "bucket-sort": lambda tokens: on_blanks(tokens, 5, sorted),
    "binary-addition": lambda tokens: on_blanks(tokens, 3, lambda data: terminated(sum(operands(data)))),
    "binary-multiplication": lambda tokens: on_blanks(tokens, 3, lambda data: terminated(math.prod(operands(data)))),
    "compute-sqrt": lambda tokens: on_blanks(tokens, 2, root),
}
VARIANTS = {"recall": [{"pairs": 1, "vocab": 4}, {"pairs": 4, "vocab": 20}, {"pairs": 16, "vocab": 256}],
            "noisy-recall": [{"noise": 0}, {"noise": 0.8}], "flip-flop": [{"writes": 0}, {"writes": 0.8}, {"writes": 1}],
            "word-problem": [{"group": "a5"}, {"group": "z60"}]}
CASES = [(task, variant) for task in TASKS for variant in [{}, *VARIANTS.get(task, [])]]


def options(variant):
    return [word for name, value in variant.items() for word in (f"--{name}", value)]


class Sequences(Case):
    def test_a_second_opinion(self):
        for (task, variant), length in itertools.product(CASES, (9, 40, 64, 131)):
            if task == "recall" and length < 4 * variant.get("pairs", 8):
                self.refused("data", task, *options(variant), "--length", length, mentions=["recall has lengths"])
                continue
            with self.subTest(task=task, variant=variant, length=length):
                rows = json.loads(self.good("data", task, *options(variant), "--length", length, "--count", 300,
                                            "--seed", length, "--json").out)
                for row in rows:
                    labels = row["label"] if task == "flip-flop" else row["labels"]
                    self.assertEqual(labels, TASKS[task](row["tokens"], **variant), row["tokens"])

    def test_ten_thousand_agree(self):
        for (task, variant), length in itertools.product(CASES, (None, 64)):
            with self.subTest(task=task, variant=variant, length=length):
                words = options(variant)
                sized = words + (["--length", length] if length else [])
                data = self.good("data", task, *sized, "--count", 10000).raw
                solved = json.loads(self.good("solve", task, "-", *words, "--json", stdin=data).out)
                self.assertEqual(solved["agree"], solved["count"])
                self.assertGreaterEqual(solved["count"], 10000 if task != "noisy-recall" else 1000)

    def test_the_file_form(self):
        lines = self.good("data", "recall", "--count", 5, "--pairs", 2, "--vocab", 16, "--length", 9).out.splitlines()
        for line in lines[1:]:
            tokens, labels = line.split("\t")
            self.assertEqual(len(tokens.split()), len(labels.split()))
            self.assertEqual(labels.split().count("-"), 7)

    def test_a_wrong_label_is_caught(self):
        for task, variant in CASES:
            with self.subTest(task=task, variant=variant):
                lines = self.good("data", task, *options(variant), "--count", 40).out.splitlines()
                tokens, labels = lines[30].split("\t")
                labels = labels.split()
                at = max(i for i, label in enumerate(labels) if label != "-")
                right = labels[at]
                labels[at] = "0" if right != "0" else "1"
                lines[30] = tokens + "\t" + " ".join(labels)
                wrong = run("solve", task, "-", *options(variant), stdin="\n".join(lines).encode())
                self.assertEqual(wrong.code, 1, wrong)
                place = "line 31" if task == "flip-flop" else f"line 31, position {at}"
                self.assertIn(f"{place}: label {labels[at]}, but the solver says {right}\n", wrong.out)

    def test_a_missing_and_an_extra_label_are_caught(self):
        row = "tokens\tlabel\n0 1 1 2 2 2\t"
        for labels, says in (("- - - 1 - 0", "position 4: label none, but the solver says 1"),
                             ("- - 1 1 1 0", "position 2: label 1, but the solver says none")):
            result = run("solve", "reverse-string", "-", stdin=(row + labels).encode())
            self.assertEqual(result.code, 1, result)
            self.assertIn(says, result.out)
        self.refused("solve", "reverse-string", "-", stdin=(row + "1").encode(), mentions=["one label per row"])
        self.refused("solve", "parity", "-", stdin=b"tokens\tlabel\n0 1\t0 1\n", mentions=["one label per token"])

    def test_settings_of_other_tasks(self):
        for words in (["data", "parity", "--pairs", 3], ["solve", "flip-flop", "-", "--noise", 0.1],
                      ["train", "recall", "--group", "s5"], ["train", "parity", "--vocab", 7],
                      ["train", "tsv:x.tsv", "--writes", 0.5]):
            with self.subTest(words):
                self.refused(*words, mentions=[str(words[-2]).removeprefix("--")])
        self.refused("data", "recall", "--pairs", 40, "--vocab", 64, mentions=["pairs is 40", "82"])
        self.refused("data", "word-problem", "--group", "s6", mentions=["s5|a5|z60"])
        self.refused("data", "noisy-recall", "--noise", 1, mentions=["noise"])

    def test_solve_needs_the_settings_of_the_data(self):
        data = self.good("data", "word-problem", "--count", 20).raw
        self.refused("solve", "word-problem", "-", "--group", "a5", stdin=data, mentions=["is not", "0..59"])
        data = self.good("data", "recall", "--count", 20, "--pairs", 4).raw
        self.refused("solve", "recall", "-", stdin=data)

    def test_training_and_identity(self):
        small = ["--train-count", 40, "--heldout-count", 20, "--width", 8, "--mlp-width", 8, "--epochs", 1,
                 "--store", self.folder / "runs", "--quiet"]
        ids = set()
        for task, variant in CASES:
            with self.subTest(task=task, variant=variant):
                out = self.good("train", task, *options(variant), *small, *([] if task == "recall" else ["--length", 12])).out
                ids.add(out.split()[0])
        self.assertEqual(len(ids), len(CASES))
        usual = self.good("train", "recall", "--pairs", 8, "--vocab", 128, *small).out.split()[0]
        self.assertIn(usual, ids)  # what is at its default is not part of the id


if __name__ == "__main__":
    unittest.main()
