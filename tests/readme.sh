#!/bin/sh
# Runs every command of README.md and docs/guide.md that is in a block marked ```sh test.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$PWD/build:$PATH
export PATH
root=$PWD

run_commands_of() { # document
    sed -n '/^```sh test$/,/^```$/p' "$root/$1" | grep -v '^```' >"$scratch/commands"
    [ -s "$scratch/commands" ] || { echo "$1 has no commands to test" >&2; exit 1; }
    while read -r command; do
        printf '$ %s\n' "$command"
        sh -c "$command" >output 2>&1 </dev/null || { cat output; echo "$1: this command failed: $command" >&2; exit 1; }
        tail -n 3 output
    done <"$scratch/commands"
}

ln -s "$root/tests" "$scratch/tests"
cd "$scratch"
run_commands_of README.md
run_commands_of docs/guide.md
