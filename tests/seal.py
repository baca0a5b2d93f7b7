"""Seals of a store's rows, computed a second time (store/seal.h): for tests that write rows by hand.

seal(database) seals everything as it is, unseal(database, schema) makes the store one of an earlier version."""
import contextlib
import sqlite3
import struct
from pathlib import Path

EPOCH, MEASURE, FINDING, POINT, RUN, SURFACE, LISTED, SCHEMA, LABEL = range(1, 10)
MASK = (1 << 64) - 1
NULL = 0x6E756C6C6E756C6C
SEALED_SCHEMA, LABELS_SCHEMA = 5, 7
SURFACE_KEY = "number, run, weights, grid, samples, seed, extent"
TABLES = ("facts", "runs", "epochs", "measures", "surfaces", "surface_points", "findings", "labels")


def add_word(seal, word):
    seal = (seal ^ word) * 0x9E3779B97F4A7C15 & MASK
    return seal ^ seal >> 32


def words(value):
    """What is sealed of a value as SQLite gives it."""
    if value is None:
        return [NULL]
    if isinstance(value, int):
        return [value & MASK]
    if isinstance(value, float):
        return struct.unpack("<Q", struct.pack("<d", value + 0.0))
    text = value.encode() if isinstance(value, str) else bytes(value)
    padded = text + bytes(-len(text) % 8)
    return [len(text), *struct.unpack(f"<{len(padded) // 8}Q", padded)]


def seal_of(kind, row):
    seal = add_word(0, kind)
    for value in row:
        for word in words(value):
            seal = add_word(seal, word)
    return add_word(seal ^ seal >> 29, 0)


def epoch_totals(rows):
    """The same as totals(EPOCH, rows), for millions of them."""
    first, pack, unpack = add_word(0, EPOCH), struct.Struct("<qqddddd").pack, struct.Struct("<7Q").unpack
    out = {}
    for row in rows:
        sum_ = first
        for word in unpack(pack(*row)):
            sum_ = (sum_ ^ word) * 0x9E3779B97F4A7C15 & MASK
            sum_ ^= sum_ >> 32
        out[row[0]] = out.get(row[0], 0) + add_word(sum_ ^ sum_ >> 29, 0)
    return {number: signed(sum_) for number, sum_ in out.items()}


def signed(seal):
    seal &= MASK
    return seal - (1 << 64) if seal >> 63 else seal


def total(kind, rows):
    return signed(sum(seal_of(kind, row) for row in rows))


def totals(kind, rows):
    """By the first column."""
    out = {}
    for row in rows:
        out[row[0]] = out.get(row[0], 0) + seal_of(kind, row)
    return {number: signed(seal) for number, seal in out.items()}


def set_seals(database, table, kind):
    """The seal of each row: over all its other columns, in the order of the table."""
    names = [row[1] if isinstance(row[1], str) else row[1].decode() for row in database.execute(f"PRAGMA table_info({table})")]
    columns = ", ".join(name for name in names if name != "seal")
    rows = database.execute(f"SELECT {columns} FROM {table}").fetchall()
    database.executemany(f"UPDATE {table} SET seal = ? WHERE number = ?",
                         [(signed(seal_of(kind, row)), row[0]) for row in rows])


def set_totals(database, table, column, sums):
    database.execute(f"UPDATE {table} SET {column} = 0")
    database.executemany(f"UPDATE {table} SET {column} = ? WHERE number = ?", [(seal, number) for number, seal in sums.items()])


def seal(database):
    """Everything in an open database of the newest schema; the caller commits."""
    as_read = database.row_factory, database.text_factory
    database.row_factory, database.text_factory = None, bytes  # text may be no UTF-8
    seal_all(database)
    database.row_factory, database.text_factory = as_read


def seal_all(database):
    set_totals(database, "surfaces", "points_seal", totals(POINT, database.execute("SELECT * FROM surface_points")))
    set_seals(database, "surfaces", SURFACE)
    set_totals(database, "runs", "curve_seal", epoch_totals(database.execute("SELECT * FROM epochs")))
    set_totals(database, "runs", "measures_seal", totals(MEASURE, database.execute("SELECT * FROM measures")))
    set_totals(database, "runs", "findings_seal", totals(FINDING, database.execute("SELECT * FROM findings")))
    surfaces = {}
    for row in database.execute(f"SELECT {SURFACE_KEY} FROM surfaces"):
        surfaces[row[1]] = surfaces.get(row[1], 0) + seal_of(LISTED, row)
    set_totals(database, "runs", "surfaces_seal", {number: signed(sum_) for number, sum_ in surfaces.items()})
    set_seals(database, "runs", RUN)
    facts = {"runs": total(LISTED, database.execute("SELECT number, id FROM runs")),
             "schema": total(SCHEMA, database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"
                                                      f" AND name IN {TABLES}"))}
    if database.execute("PRAGMA user_version").fetchone()[0] >= LABELS_SCHEMA:
        facts["labels"] = total(LABEL, database.execute("SELECT run, kind, value FROM labels"))
    database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)",
                         [(name, f"{value & MASK:016x}") for name, value in facts.items()])


def unseal(database, schema=SEALED_SCHEMA - 1):
    """As an earlier version left it."""
    for column in ("asked_epochs", "asked_stop_at", "curve_seal", "measures_seal", "findings_seal", "surfaces_seal", "seal",
                   "earlier_id"):
        database.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    for column in ("points_seal", "seal"):
        database.execute(f"ALTER TABLE surfaces DROP COLUMN {column}")
    database.execute("DELETE FROM facts WHERE name IN ('runs', 'schema', 'labels')")
    database.execute("DROP TABLE IF EXISTS labels")
    for since, names in ((2, ["measures"]), (3, ["surfaces", "surface_points"]), (4, ["findings"])):
        for name in names if schema < since else ():
            database.execute(f"DROP TABLE {name}")
    database.execute(f"PRAGMA user_version = {schema}")


def unlabel(database):
    """As schema 6 left it, which had no labels; the caller seals it."""
    database.execute("DROP TABLE labels")
    database.execute("DELETE FROM facts WHERE name = 'labels'")
    database.execute("PRAGMA user_version = 6")


@contextlib.contextmanager
def changed(store):
    """The database of a store, to be written by hand; what was written is sealed at the end."""
    database = sqlite3.connect(Path(store) / "runs.db", isolation_level=None)
    try:
        database.execute("BEGIN IMMEDIATE")
        yield database
        if database.execute("PRAGMA user_version").fetchone()[0] >= SEALED_SCHEMA:
            seal(database)
        database.execute("COMMIT")
    finally:
        database.close()
