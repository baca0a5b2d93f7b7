#!/bin/sh
# Checks every #include between rooms against the table "Allowed dependencies" of docs/architecture.md.
set -eu
cd "$(dirname "$0")/.."

# Lines of the table:  | room | may include |   ->   room: name name ...
allowed=$(sed -n '/^## Allowed dependencies/,/^## /p' docs/architecture.md | sed -n 's/^| `\([^`]*\)` | \(.*\) |$/\1:\2 /p' | tr -d '`,')
[ -n "$allowed" ] || { echo "docs/architecture.md has no table of allowed dependencies" >&2; exit 1; }

status=0
for file in $(git ls-files '*.c' '*.h' '*.cu' '*.cuh' | grep -v '^tests/'); do
    case $file in
    include/semfocus/*) room=include ;;
    kernels/*/* | train/*/*) room=$(dirname "$file") ;;
    *) room=${file%%/*} ;;
    esac
    line=$(printf '%s\n' "$allowed" | grep "^$room:" || true)
    if [ -z "$line" ]; then
        echo "$file: room '$room' is not in docs/architecture.md" >&2
        status=1
        continue
    fi
    for include in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file"); do
        case $include in
        semfocus/*) target=include ;;
        kernels/*/* | train/*/*) target=$(dirname "$include") ;;
        *) target=${include%%/*} ;;
        esac
        [ "$target" = "$room" ] && continue
        case " ${line#*:} " in
        *" $target "*) ;;
        *)
            echo "$file includes $include, but docs/architecture.md does not let '$room' know '$target'" >&2
            status=1
            ;;
        esac
    done
done
exit $status
