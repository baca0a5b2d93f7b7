"""The run store where a call fails: memory is short, or nothing more can be written.

$SEMFOCUS is the program, $SEMFOCUS_FAILING the library that makes calls fail."""
import os
import shutil
import unittest

from test_store import Case, final_files

FAILING = os.environ.get("SEMFOCUS_FAILING")
SANITIZED = bool(os.environ.get("SEMFOCUS_SANITIZED"))


@unittest.skipUnless(FAILING, "SEMFOCUS_FAILING names no library")
@unittest.skipIf(SANITIZED, "sanitizers bring allocators of their own")
class FailingCalls(Case):
    """The N-th allocation or writing call fails, for every N of a short training."""
    WORDS = ["--epochs", 2, "--threads", 1]

    def count(self):
        counts = self.folder / "counts"
        self.good(self.train(*self.WORDS, store=self.folder / "counted", env={"LD_PRELOAD": FAILING, "FAIL_COUNT": str(counts)}))
        return map(int, counts.read_text().split())

    def each(self, variable, total, reason=r"\S"):
        expected = self.undisturbed(*self.WORDS)
        failures = 0
        for number in range(1, total + 1):
            store = self.folder / f"{variable}-{number}"
            done = self.train(*self.WORDS, store=store, env={"LD_PRELOAD": FAILING, variable: str(number)})
            self.assertIn(done.code, (0, 1), done)
            failures += done.code == 1
            if done.code == 1:
                self.assertRegex(done.err, reason, done)
            if (store / "checkpoints").is_dir():
                self.assertFalse(list((store / "checkpoints").glob("*.part")), done)
            self.good(self.train(*self.WORDS, store=store))
            self.assertEqual(final_files(store), expected, f"{variable}={number}")
            shutil.rmtree(store)
        self.assertGreater(failures, 0)

    def test_allocations(self):
        allocations, _ = self.count()
        self.each("FAIL_ALLOCATION", allocations)

    def test_writes(self):
        _, writes = self.count()
        self.each("FAIL_WRITE", writes, "No space left|disk of the store .* is full; free some space")


if __name__ == "__main__":
    unittest.main()
