"""Models that we train and apply through SentencePiece's library, against its Python package: the same ids for the same
model on 10,000 lines. usage: test_sentencepiece.py TOKENIZE"""
import os
import random
import subprocess
import sys
import tempfile

LINES = 10000
CHECK = """
import sys, sentencepiece
processor = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
for line in open(sys.argv[2], 'rb').read().split(b'\\n')[:-1]:
    print(*processor.encode(line.decode()))
"""


def interpreter():
    """One that has the package."""
    for python in (sys.executable, "/usr/bin/python3", os.environ.get("SEMFOCUS_PYTHON", "")):
        if python and subprocess.run([python, "-c", "import sentencepiece"], capture_output=True).returncode == 0:
            return python
    return None


def some_text(draws):
    stems = ["mar", "tel", "vo", "schön", "кот", "本", "in", "qu", "be", "lor", "é", "st"]
    for _ in range(LINES):
        words = ["".join(draws.choices(stems, k=draws.randint(1, 4))) for _ in range(draws.randint(0, 12))]
        line = " ".join(words) + draws.choice(["", ".", "!", " 12,5 %", "  ", "\u3000x", "☃"])
        yield line


def main():
    tokenize = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        text, model = os.path.join(folder, "text"), os.path.join(folder, "model")
        draws = random.Random(11)
        with open(text, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in some_text(draws))
        for kind in ("unigram", "bpe"):
            done = subprocess.run([tokenize, "train", kind, "300", text, model], capture_output=True, text=True)
            if "without SentencePiece" in done.stderr:
                print("skipped: this build has no SentencePiece")
                return 77
            assert done.returncode == 0, done.stderr
            first = open(model, "rb").read()
            subprocess.run([tokenize, "train", kind, "300", text, model], check=True)
            assert open(model, "rb").read() == first, kind + ": trained twice, the models differ"
            python = interpreter()
            if python is None:
                print("skipped: no Python has the package sentencepiece")
                return 77
            ours = subprocess.run([tokenize, "apply", model, text], check=True, capture_output=True, text=True).stdout
            theirs = subprocess.run([python, "-c", CHECK, model, text], check=True, capture_output=True, text=True).stdout
            ours = [line.removesuffix(" lossy") for line in ours.splitlines()]
            theirs = theirs.splitlines()
            assert len(ours) == len(theirs) == LINES, (len(ours), len(theirs))
            for number, (a, b) in enumerate(zip(ours, theirs), 1):
                assert a == b, f"{kind}: line {number}: ours {a}, the package's {b}"
            print(f"{kind}: the same ids on {LINES} lines")
        refused = subprocess.run([tokenize, "train", "bpe", "60000", text, model], capture_output=True, text=True)
        assert refused.returncode == 1 and "60000 pieces" in refused.stderr, refused
        print(refused.stderr.strip())
    return 0


sys.exit(main())
