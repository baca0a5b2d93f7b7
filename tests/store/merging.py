"""What the tests of merge share: everything that a store holds, without the numbers that its tables use inside."""
import contextlib
import shutil
import sqlite3
from pathlib import Path

from test_store import SMALL, Case, final_files, run, seal

SEALS = {"curve_seal", "measures_seal", "findings_seal", "surfaces_seal", "seal"}
TIMES = {"seconds", "environment"}


@contextlib.contextmanager
def behind_the_back(store):
    """The database of a store, changed as damage changes it: nothing is sealed."""
    with contextlib.closing(sqlite3.connect(Path(store) / "runs.db")) as database:
        yield database
        database.commit()


def rows_of(database, sql):
    cursor = database.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor]


def content(store, times=True):
    """Runs by id with all that belongs to them; without times, what two machines would write alike."""
    left_out = SEALS | {"number", "run", "surface"} | (set() if times else TIMES)

    def kept(row):
        return {name: value for name, value in row.items() if name not in left_out}
    with contextlib.closing(sqlite3.connect(f"file:{store}/runs.db?mode=ro", uri=True)) as database:
        everything = {}
        for row in rows_of(database, "SELECT * FROM runs"):
            number, one = row["number"], {"entry": kept(row)}
            for table in ("epochs", "measures", "findings"):
                one[table] = [kept(child) for child in rows_of(database, f"SELECT * FROM {table} WHERE run = {number}")]
            surfaces = []
            for surface in rows_of(database, f"SELECT * FROM surfaces WHERE run = {number}"):
                points = rows_of(database, f"SELECT * FROM surface_points WHERE surface = {surface['number']}")
                surfaces.append((sorted((name, value) for name, value in kept(surface).items() if name != "points_seal"),
                                 [kept(point) for point in points]))
            one["surfaces"] = sorted(surfaces, key=str)
            everything[row["id"]] = one
    return everything


def snapshot(store):
    """The bytes of everything that a reader must leave alone."""
    paths = [path for path in Path(store).rglob("*") if path.is_file() and path.suffix not in (".db-wal", ".db-shm")]
    return {str(path.relative_to(store)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths if path.name != "claims"}


class MergeCase(Case):
    def merge(self, *sources, into=None, env=None, words=()):
        return run("merge", *sources, "--into", into or self.folder / "all", *words, env=env)

    def copy(self, store, name):
        shutil.copytree(store, self.folder / name)
        return self.folder / name

    def trained(self, name, *words):
        """A new store."""
        store = self.folder / name
        self.good(self.train(*words, store=store))
        return store

    def refused(self, done, code, *mentions):
        """One sentence, and nothing else."""
        self.assertEqual((done.code, done.out), (code, ""), done)
        self.assertEqual(done.err.count("\n"), 1, done)
        self.sentence(done, (code,), *mentions)

    def in_any_order(self, *stores):
        """The content after merging in every order, all at once and one after the other."""
        seen = []
        orders = [stores, stores[::-1]] if len(stores) == 2 else [stores, stores[::-1], stores[1:] + stores[:1]]
        for number, order in enumerate(orders):
            at_once, in_turn = self.folder / f"at-once-{number}", self.folder / f"in-turn-{number}"
            self.good(self.merge(*order, into=at_once))
            for store in order:
                self.good(self.merge(store, into=in_turn))
            for place in (at_once, in_turn):
                seen.append((content(place), final_files(place), self.runs(place)))
                self.check(place)
        for other in seen[1:]:
            self.assertEqual(other, seen[0])
        return seen[0][0]


__all__ = ["MergeCase", "SMALL", "behind_the_back", "content", "final_files", "run", "seal", "snapshot"]
