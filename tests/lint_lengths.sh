#!/bin/sh
# A file that passes 600 lines is two ideas: C, CUDA, C++, headers, Python, shell and CMake.
set -eu
cd "$(dirname "$0")/.."
most=600
status=0
for file in dev .ci/run $(git ls-files '*.c' '*.h' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' '*.cu' '*.cuh' '*.cpp'); do
    lines=$(wc -l <"$file")
    if [ "$lines" -gt "$most" ]; then
        echo "$file has $lines lines, more than $most; split it by idea" >&2
        status=1
    fi
done
exit $status
