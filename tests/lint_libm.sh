#!/bin/sh
# usage: lint_libm.sh BUILD-FOLDER
# Fails where an object of the program calls a function of libm that is not exact: its bits differ between versions and
# CPUs (base/elementary.h has ours). kernels/reference may, because no result comes from it: it is what tests compare with.
set -eu
build=$1
inexact='acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 gamma hypot j0 j1 jn lgamma
lgamma_r log log10 log1p log2 pow pow10 sin sincos sinh tan tanh tgamma y0 y1 yn'
names=$(for name in $inexact; do printf '%s|%sf|%sl|__%s_finite|' "$name" "$name" "$name" "$name"; done)

objects=$(find "$build/CMakeFiles" -name '*.o' | grep -v -e '/kernels/reference/' -e '/bench/' -e '/bench_' -e '/CompilerIdC/')
[ -n "$objects" ] || { echo "there are no objects in $build/CMakeFiles" >&2; exit 1; }
status=0
# Lines of nm:  FILE: U NAME
# shellcheck disable=SC2086
calls=$(${NM:-nm} -A -u $objects | sed 's/: *U /: /; s/@.*//' | grep -E ": (${names%|})\$" || true)
if [ -n "$calls" ]; then
    printf '%s\n' "$calls" >&2
    echo "These objects call functions of libm that differ between machines; use base/elementary.h." >&2
    status=1
fi
# The check itself must be able to fail: the reference calls exp.
reference=$(find "$build/CMakeFiles" -path '*/kernels/reference/layers.c*.o' | head -n 1)
${NM:-nm} -u "$reference" | grep -qE ' U exp(@|$)' || { echo "nm shows no call of exp in $reference, where there is one" >&2; exit 1; }
exit $status
