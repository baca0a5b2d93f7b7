#!/bin/sh
# usage: installed.sh WHEEL PYTHON...
# Installs the wheel into a fresh virtual environment of each Python, without a compiler, and checks that it works: the
# package trains, and its command is the program. The weights must be the same everywhere, and those of the program
# $SEMFOCUS (default build/semfocus).
set -eu
program=$(realpath "${SEMFOCUS:-build/semfocus}")
wheel=$(realpath "$1")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# train PROGRAM STORE
train() {
    "$1" train even-pairs --attention topk:3 --seed 1 --length 8 --train-count 60 --heldout-count 30 --epochs 2 --store "$2" --quiet >/dev/null
}

weights=""
if [ -x "$program" ]; then
    train "$program" "$folder/by-program"
    weights=$("$program" runs --store "$folder/by-program" --json | sed -n 's/.*"weights": *"\([^"]*\)".*/\1/p')
    rm -r "$folder/by-program"
    [ -n "$weights" ] || { echo "$program says no weights" >&2; exit 1; }
else
    echo "skipped: the weights of $program (it was not built)"
fi
for python in "$@"; do
    "$python" -m venv "$folder/venv"
    CC=false "$folder/venv/bin/pip" install -q --only-binary :all: --disable-pip-version-check "$wheel"
    train "$folder/venv/bin/semfocus" "$folder/by-command"
    "$folder/venv/bin/semfocus" --version
    now=$(cd "$folder" && ./venv/bin/python -c '
import semfocus
run = semfocus.train("even-pairs", attention="topk:3", seed=1, length=8, train_count=60, heldout_count=30, epochs=2, store="by-package")
assert [run["weights"]] == [row["weights"] for row in semfocus.Store("by-command")]
print(run["weights"])')
    [ -z "$weights" ] || [ "$weights" = "$now" ] || { echo "$python: other weights: $weights, $now" >&2; exit 1; }
    weights=$now
    echo "$("$python" --version): ok"
    rm -rf "$folder"/venv "$folder"/by-*
done
