"""Every part of a mechanism, and combinations: the same weights on 1, 2 and 3 threads, with every instruction set, and after
kills."""
import os
import subprocess
import time
import unittest

from harness import PROGRAM, StoreCase, has_instruction_set, read_json

PARTS = ("topp:0.7", "within:1", "blocktopk:16:2", "blocktopk:5:2", "kmeans:3:2", "lsh:4:2", "topk:3+sink:1", "topk:2+window:5",
         "banded:3+random:2", "topk:4+global:2", "topk:3+st", "full/softmax1", "full/sigmoid", "topk:5/softplus:2", "full/sparsemax",
         "topk:5/entmax15", "full/entmax:1.3", "full/fastmax", "topk:5/doubly", "full@rope", "full@qknorm:4", "full@alibi",
         "full@softcap:2", "full@logn", "kmeans:3:1+global:1+sink:1/sigmoid@rope", "blocktopk:16:2+random:2/sparsemax@qknorm:3@softcap:2",
         "lsh:4:2+st+window:3@alibi")
CAUSAL = ("full", "topk:3", "bottomk:3", "random:3", "banded:5", "block:4", "topp:0.8+st", "within:1/softplus", "blocktopk:16:2@rope",
          "lsh:4:2+sink:1/entmax15@alibi@logn")
# Longer than a tile of queries and a stretch of rows, so that threads share a sequence.
LONG = ["--length", "131", "--train-count", "2", "--heldout-count", "1", "--blocks", "1", "--width", "6", "--heads", "2",
        "--mlp-width", "5", "--batch", "1", "--epochs", "2", "--seed", "5", "--pad", "none", "--dropout", "0.1"]


class SameBits(StoreCase):
    def words(self, attention, causal, threads, store):
        return ["train", "even-pairs", "--attention", ",".join(attention), *LONG, *(["--causal", "--readout", "last"] if causal else []),
                "--threads", str(threads), "--store", str(store)]

    def weights(self, attention, causal, threads, isa=None):
        """The hash of the weights of every mechanism."""
        store = self.folder / f"{'causal' if causal else 'all'}-{threads}-{isa}"
        env = {**os.environ, "SEMFOCUS_ISA": isa} if isa else None
        rows = read_json(self.good(*self.words(attention, causal, threads, store), "--json", env=env).out)
        self.assertEqual([row["attention"] for row in rows], list(attention))
        return {row["attention"]: row["weights"] for row in rows}

    def after_kills(self, attention, causal):
        """The same after the program was killed several times, a little later each time."""
        store = self.folder / f"killed-{causal}"
        words = [*self.words(attention, causal, 2, store), "--json"]
        for n in range(3):
            with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                time.sleep(0.15 * (n + 1))
                process.kill()
        return {row["attention"]: row["weights"] for row in read_json(self.good(*words).out)}

    def test_threads_sets_and_kills(self):
        sets = [name for name in ("scalar", "avx2", "avx512") if has_instruction_set(name)]
        for attention, causal in ((PARTS, False), (CAUSAL, True)):
            expected = self.weights(attention, causal, 1)
            self.assertEqual(len(set(expected.values())), len(attention))  # mechanisms differ
            for threads in (2, 3):
                self.assertEqual(self.weights(attention, causal, threads), expected, f"{threads} threads")
            for name in sets:
                self.assertEqual(self.weights(attention, causal, 1, name), expected, name)
            self.assertEqual(self.after_kills(attention, causal), expected, "after kills")


if __name__ == "__main__":
    unittest.main()
