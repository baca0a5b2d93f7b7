#!/bin/sh
# Runs every command of README.md that stands in a block marked ```sh test.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$PWD/build:$PATH
export PATH
sed -n '/^```sh test$/,/^```$/p' README.md | grep -v '^```' >"$scratch/commands"
[ -s "$scratch/commands" ] || { echo "README.md has no commands to test" >&2; exit 1; }
ln -s "$PWD/tests" "$scratch/tests"
cd "$scratch"
while read -r command; do
    printf '$ %s\n' "$command"
    sh -c "$command" >output 2>&1 || { cat output; echo "README.md: this command failed: $command" >&2; exit 1; }
    tail -n 3 output
done <commands
