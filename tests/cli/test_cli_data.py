"""semfocus data and solve: samples, labels, the TSV form, and refusals. The solvers here are a second opinion."""
import json
import os
import signal
import subprocess
import unittest
from pathlib import Path

from harness import PROGRAM, Case, run
from test_cli_sequences import TASKS as SEQUENCE_TASKS

HEADER = "tokens\tlabel\n"
BRACKETS, EQUATION, ARITHMETIC = "01234+-*()", "01234+-()x=", "01234+-*"
# name: classes, PAD, meaning of the ids (SPEC, section 1)
TASKS = {"parity": (2, 2), "even-pairs": (2, 2), "missing-duplicate": (2, 3), "cycle-navigation": (5, 3),
         "modular-arithmetic-brackets": (5, 11), "solve-equation": (5, 11), "stack-manipulation": (3, 5),
         "listops": (10, 15), "modular-arithmetic": (5, 8)}
EXAMPLES = [("parity", "000101100111", 0), ("even-pairs", "10111010", 1), ("missing-duplicate", "21011101", 1),
            ("missing-duplicate", "100102100100", 0), ("cycle-navigation", "021111100", 3),
            ("modular-arithmetic-brackets", "((-2)+1)", 4),
            ("modular-arithmetic-brackets", "((((1*4)*(4))+(0))+((-0+(-3))*(2*(-0))))", 1),
            ("solve-equation", "((x)+(-0))=4", 4), ("solve-equation", "(((x)-(((1)+(3+2))-(2)))-(((-0)+3)+1))=4", 2),
            ("stack-manipulation", "01322", 0), ("stack-manipulation", "110222", 2),
            ("modular-arithmetic", "2+3*3+2+1-4", 0), ("even-pairs", "1", 0), ("missing-duplicate", "1", 1)]
ALPHABETS = {"modular-arithmetic-brackets": BRACKETS, "solve-equation": EQUATION, "modular-arithmetic": ARITHMETIC}


def encode(task, text):
    return [ALPHABETS.get(task, "0123456789").index(letter) for letter in text]


def value(text):
    return eval(text, {"__builtins__": {}}) % 5  # digits, + - * and brackets only


def solve_duplicate(tokens):
    if tokens == [1]:
        return 1
    tokens = [token for token in tokens if token != 3]
    hole, half = tokens.index(2), len(tokens) // 2
    partner = tokens[(hole + half) % len(tokens)]
    filled = [partner if token == 2 else token for token in tokens]
    assert filled[:half] == filled[half:]
    return partner


def solve_equation(tokens):
    left, right = "".join(EQUATION[token] for token in tokens).split("=")
    fits = [x for x in range(5) if value(left.replace("x", str(x))) == int(right)]
    assert len(fits) == 1
    return fits[0]


def solve_stack(tokens):
    stack, acting = [], False
    for token in tokens:
        assert not (acting and token < 2)
        acting = acting or token >= 2
        if token != 2:
            stack.append(token if token < 2 else token - 3)
        elif stack:
            stack.pop()
    return stack[-1] if stack else 2


def solve_listops(tokens):
    stack = [[]]
    for token in tokens:
        if 10 <= token <= 13:
            stack.append([token])
            continue
        if token == 14:
            operator, *values = stack.pop()
            values.sort()
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            token = {10: values[0], 11: values[-1], 12: middle, 13: sum(values) % 10}[operator]
        stack[-1].append(token)
    assert len(stack) == 1 and len(stack[0]) == 1
    return stack[0][0]


SOLVERS = {
    "parity": lambda tokens: sum(tokens) % 2,
    "even-pairs": lambda tokens: int(tokens[0] != tokens[-1]),
    "missing-duplicate": solve_duplicate,
    "cycle-navigation": lambda tokens: sum(token - 1 for token in tokens) % 5,
    "modular-arithmetic-brackets": lambda tokens: value("".join(BRACKETS[token] for token in tokens)),
    "solve-equation": solve_equation,
    "stack-manipulation": solve_stack,
    "listops": solve_listops,
    "modular-arithmetic": lambda tokens: value("".join(ARITHMETIC[token] for token in tokens)),
}


def rows_of(text):
    assert text.startswith(HEADER)
    for line in text.splitlines()[1:]:
        tokens, label = line.split("\t")
        yield [int(token) for token in tokens.split(" ")], int(label)


class Data(Case):
    def test_tasks_are_those_of_the_specification(self):
        tasks = json.loads(self.good("list", "tasks", "--json").out)
        self.assertEqual({task["name"]: (task["classes"], task["pad"]) for task in tasks[:len(TASKS)]}, TASKS)
        self.assertEqual({task["name"] for task in tasks[len(TASKS):]}, set(SEQUENCE_TASKS))

    def test_labels_agree_with_solve_and_with_a_second_opinion(self):
        for task in json.loads(self.good("list", "tasks", "--json").out)[:len(TASKS)]:
            name = task["name"]
            lengths = (4, 50, 599, 600) if name == "listops" else (1, 2, 3, 4, 5, 7, 12, 39, 40, 101)
            for length in lengths:
                if length < task["shortest"]:
                    self.refused("data", name, "--length", length, mentions=[name])
                    continue
                with self.subTest(task=name, length=length):
                    count = 100 if length > 500 else 300
                    tsv = self.good("data", name, "--length", length, "--count", count, "--seed", length)
                    rows = list(rows_of(tsv.out))
                    self.assertEqual(len(rows), count)
                    for tokens, label in rows:
                        self.assertEqual(label, SOLVERS[name](tokens), tokens)
                        self.assertLessEqual(max(tokens), task["pad"])
                        self.assertLessEqual(len(tokens), length)
                        if name == "modular-arithmetic":
                            self.assertEqual(len(tokens), length - (length % 2 == 0))
                        elif name != "listops":
                            self.assertEqual(len(tokens), length)
                        elif length == 599:
                            self.assertGreater(len(tokens), 500)
                    solved = self.good("solve", name, "-", stdin=tsv.raw)
                    self.assertEqual(solved.out, f"{count} of {count} labels agree\n")

    def test_default_length_and_count(self):
        rows = list(rows_of(self.good("data", "cycle-navigation").out))
        self.assertEqual((len(rows), {len(tokens) for tokens, _ in rows}), (5000, {40}))

    def test_seed_decides_the_bytes(self):
        for task in [*TASKS, *SEQUENCE_TASKS]:
            with self.subTest(task):
                first, again, other = (self.good("data", task, "--count", 30, "--seed", seed).raw for seed in (7, 7, 8))
                self.assertEqual(first, again)
                self.assertNotEqual(first, other)

    def test_more_rows_begin_with_the_same_rows(self):
        few, many = (self.good("data", "parity", "--count", count, "--seed", 3).raw for count in (10, 20))
        self.assertTrue(many.startswith(few))

    def test_json_has_the_same_rows(self):
        rows = json.loads(self.good("data", "listops", "--count", 5, "--json").out)
        plain = rows_of(self.good("data", "listops", "--count", 5).out)
        self.assertEqual([(row["tokens"], row["label"]) for row in rows], list(plain))

    def test_out_writes_what_standard_output_would(self):
        path = self.folder / "rows.tsv"
        for seed in (1, 2):  # the second run replaces the first's file
            result = self.good("data", "parity", "--count", 50, "--seed", seed, "--out", path)
            self.assertEqual(result.out, "")
            self.assertEqual(path.read_bytes(), self.good("data", "parity", "--count", 50, "--seed", seed).raw)
            self.assertEqual([entry.name for entry in self.folder.iterdir()], ["rows.tsv"])

    def test_nothing_is_sampled_from_data_of_your_own(self):
        path = self.write("rows.csv", "a b,x\na c,y\n")
        self.refused("data", f"csv:{path}", mentions=["add --describe"])
        self.refused("data", path, "--describe", "--out", self.folder / "out", mentions=["out has no effect with --describe"])
        self.assertFalse((self.folder / "out").exists())

    def test_shortest_length(self):
        for task, length in (("recall", 10), ("reverse-string", 1), ("listops", 2)):
            mentions = [f"min-length is {length} but {task} has lengths"]
            self.refused("data", task, "--min-length", length, "--count", 1, mentions=mentions)
            self.refused("train", task, "--min-length", length, "--epochs", 1, "--store", self.folder / "runs", mentions=mentions)
        self.assertFalse((self.folder / "runs").exists())

    def test_failures_write_nothing_and_keep_what_was_there(self):
        kept = self.write("kept.tsv", "mine\n")
        self.refused("data", "parity", "--out", self.folder / "absent" / "x.tsv", codes=(1,), mentions=["absent"])
        self.refused("data", "parity", "--out", self.folder, codes=(1, 2))
        self.refused("data", "parity", "--out", "/dev/full", codes=(1, 2), mentions=["/dev/full"])
        self.refused("data", "paritty", "--out", kept)
        self.refused("data", "parity", "--count", "0", "--out", kept)
        self.refused("data", "parity", "--out", kept, "--count")
        self.refused("data", "solve-equation", "--length", "2", "--out", kept)
        self.refused("data", "parity", "--out", self.folder / ("n" * 5000))
        self.refused("data", "parity", "--out", self.folder / ("n" * 300), codes=(1, 2))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["kept.tsv"])
        self.assertEqual(kept.read_text(), "mine\n")

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_full_disk_on_standard_output(self):
        good = self.write("good.tsv", HEADER + "0 1\t1\n")
        for words in (["data", "parity"], ["data", "parity", "--count", "1"], ["data", "parity", "--json"],
                      ["list"], ["list", "tasks", "--json"], ["--help"], ["train", "--help"], ["--version"],
                      ["solve", "parity", good]):
            with self.subTest(words), open("/dev/full", "wb") as full:
                result = run(*words, stdout=full)
                self.assertEqual(result.code, 1, result)
                self.one_sentence(result, "No space left")

    def test_a_reader_that_leaves_early_is_no_drama(self):
        for words in (["data", "parity", "--count", "100000"], ["list"]):
            with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                process.stdout.read(1)
                process.stdout.close()
                errors = process.stderr.read().decode()
                process.wait(20)
            self.assertEqual(errors, "")
            # what fits into the pipe was written before the reader closed it
            self.assertIn(process.returncode, (128 + signal.SIGPIPE,) if "data" in words else (0, 128 + signal.SIGPIPE))


class Solve(Case):
    def bad_file(self, content, line=None, task="parity"):
        path = self.write("rows.tsv", content)
        self.refused("solve", task, path, mentions=[f"{path}:{line}:" if line else path])
        self.refused("solve", task, "-", stdin=path.read_bytes(), mentions=[f"input:{line}:" if line else "input"])

    def test_worked_examples(self):
        for task, text, label in EXAMPLES:
            with self.subTest(task=task, text=text):
                tokens = encode(task, text)
                self.assertEqual(SOLVERS[task](tokens), label)
                rows = HEADER + " ".join(map(str, tokens))
                self.assertEqual(self.good("solve", task, "-", stdin=f"{rows}\t{label}\n".encode()).out,
                                 "1 of 1 labels agree\n")
                classes = TASKS[task][0]
                wrong = run("solve", task, "-", stdin=f"{rows}\t{(label + 1) % classes}\n".encode())
                self.assertEqual(wrong.code, 1, wrong)

    def test_published_listops_form(self):
        rows = "Source\tTarget\n( ( ( [MAX 2 ) 3 ) ] )\t3\n( [MED 1 8 3 4 ] )\t3\n[SM 9 9 5 [MED 0 9 ] ]\t7\n7\t7\n"
        path = self.write("listops.tsv", rows)
        self.assertEqual(self.good("solve", "listops", path).out, "4 of 4 labels agree\n")
        for bad in ("[AVG 1 2 ]\t1", "[MAX 12 3 ]\t3", "[MAX 1 2 ]\t10", "[MAX 1 2\t2", "[MAX 1 2 ] ]\t2", "( )\t1"):
            with self.subTest(bad):
                self.bad_file(f"Source\tTarget\n7\t7\n{bad}\n", 3, "listops")

    def test_published_files(self):
        folder = os.environ.get("SEMFOCUS_PUBLISHED_DATA")
        if not folder:
            self.skipTest("SEMFOCUS_PUBLISHED_DATA is not set: published held-out files not checked")
        files = sorted(Path(folder).glob("*-len40-val.tsv"))
        self.assertTrue(files, f"no *-len40-val.tsv in {folder}")
        for path in files:
            with self.subTest(path.name):
                task = path.name.removesuffix("-len40-val.tsv")
                self.assertEqual(self.good("solve", task, path).out, "2000 of 2000 labels agree\n")

    def test_wrong_labels_are_counted_and_their_lines_named(self):
        lines = self.good("data", "even-pairs", "--count", 60).out.splitlines()
        for wrong in (1, 60, *range(20, 40)):
            tokens, label = lines[wrong].split("\t")
            lines[wrong] = f"{tokens}\t{1 - int(label)}"
        path = self.write("wrong.tsv", "\n".join(lines) + "\n")
        result = run("solve", "even-pairs", path)
        self.assertEqual((result.code, result.err), (1, ""), result)
        self.assertEqual(result.out.splitlines()[-1], "38 of 60 labels agree")
        for line in (2, 21, 22):  # the header is line 1
            self.assertRegex(result.out, rf"(?m)^line {line}\b")
        report = json.loads(run("solve", "even-pairs", path, "--json").out)
        self.assertEqual((report["count"], report["agree"], report["differing"][0]["line"]), (60, 38, 2))

    def test_windows_lines_and_a_missing_last_newline(self):
        self.good("solve", "parity", "-", stdin=b"tokens\tlabel\r\n0 1\t1\r\n1 1\t0\r\n")
        self.good("solve", "parity", "-", stdin=b"tokens\tlabel\n0 1\t1")

    def test_a_file_as_spreadsheets_write_it(self):
        """A mark of UTF-8 at its beginning, and lines that end in CRLF."""
        rows = self.good("data", "parity", "--count", 20).out
        path = self.write("rows.tsv", "\ufeff" + rows.replace("\n", "\r\n"))
        self.assertEqual(self.good("solve", "parity", path).out, "20 of 20 labels agree\n")

    def test_malformed_files(self):
        self.bad_file("")
        for header in ("\n", "tokens label\n", "0 1\t1\n", "tokens\tlabel\textra\n", "Tokens\tLabel\n",
                       "\ufeff\ufefftokens\tlabel\n", " \ufefftokens\tlabel\n"):
            with self.subTest(header=header):
                self.bad_file(header + "0 1\t1\n", 1)
        with self.subTest("header only"):
            self.bad_file(HEADER, 1)
        for row in ("0 1 1", "0 1\t1\t1", "\t1", " \t1", "0 1\t", "0 x\t1", "0 -1\t1", "0 1.0\t1", "0 65536\t1",
                    "0 0x1\t1", "0 99999999999999999999\t1", "0 1\t-1", "0 1\tx", "0 1\t 1", "0 1\t1 ", "0 1\t65536",
                    "0,1\t1", "", "0 1\t99999999999999999999", "0 2\t1", "0 1\0\t1", "\x1b[31m\t1", "\x80\xff\t1",
                    "x" * 100000):
            with self.subTest(row=row[:20]):
                self.bad_file(HEADER + "0 1\t1\n" + row + "\n0 1\t1\n", 3)
                self.bad_file(HEADER + "0 1\t1\n" + row + ("\n" if row == "" else ""), 3)

    def test_label_beyond_the_classes_of_the_task(self):
        for task, (classes, _) in TASKS.items():
            with self.subTest(task):
                lines = self.good("data", task, "--count", 3).out.splitlines()
                lines[2] = lines[2].split("\t")[0] + f"\t{classes}"
                self.bad_file("\n".join(lines) + "\n", 3, task)

    def test_sequence_that_is_not_of_the_task(self):
        for task, row in [("missing-duplicate", "0 1 0 1"), ("missing-duplicate", "2 1 2 1"),
                          ("stack-manipulation", "2 0 1"), ("modular-arithmetic", "1 2"), ("modular-arithmetic", "1 5"),
                          ("solve-equation", "1 10 1"), ("modular-arithmetic-brackets", "8 1"),
                          ("modular-arithmetic-brackets", "10"), ("listops", "14"), ("listops", "10 1 2"),
                          ("listops", "10 " * 300 + "1"), ("listops", "15"),
                          ("modular-arithmetic-brackets", "8 " * 60000 + "1"), ("solve-equation", "7 " * 60000 + "9")]:
            with self.subTest(task=task, row=row[:20]):
                self.bad_file(f"{HEADER}{row}\t0\n", 2, task)

    def test_binary_noise_missing_file_and_directory(self):
        self.bad_file(bytes(range(256)) * 40)
        self.bad_file(b"\x89PNG\r\n\x1a\n", 1)
        self.refused("solve", "parity", self.folder / "absent.tsv", mentions=["absent.tsv"])
        self.refused("solve", "parity", self.folder, mentions=[self.folder.name])
        self.refused("solve", "nonsense", "-")


if __name__ == "__main__":
    unittest.main()
