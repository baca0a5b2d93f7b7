#!/bin/sh
# The paper's even-pairs at full size on its first five seeds: topk:5 must reach 95 % of the training set within 25
# epochs and full attention within 100, each on at least four seeds. About a quarter of an hour on two cores.
set -eu
cd "$(dirname "$0")/.."
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
seeds=153476998,235510766,205084180,129959864,149896109
check() { # mechanism epochs
    build/semfocus train even-pairs --attention "$1" --seed $seeds --epochs "$2" --stop-at 95 --quiet --store "$store/runs" | tee build/convergence.txt
    converged=$(grep -c 'training accuracy in epoch' build/convergence.txt || true)
    echo "$1: $converged of 5 seeds within $2 epochs"
    [ "$converged" -ge 4 ]
}
check topk:5 25
check full 100

# Recall of 8 pairs in 64 tokens, width 64, two blocks: full attention must be right at more than 99 % of the held-out
# keys on at least two of three seeds, and a window of five that does not reach the pairs at less than 10 %. About two
# minutes on two cores.
recall() { # mechanism lowest highest, in percent, both excluded
    build/semfocus train recall --attention "$1" --width 64 --blocks 2 --seed 153476998,235510766,205084180 --quiet \
        --store "$store/runs" | tee build/convergence.txt
    within=$(sed -n 's/.* \([0-9.]*\) % held out.*/\1/p' build/convergence.txt | awk -v low="$2" -v high="$3" '$1 > low && $1 < high' | wc -l)
    echo "recall, $1: $within of 3 seeds between $2 and $3 % held out"
    [ "$within" -ge 2 ]
}
recall full 99 101
recall banded:5 -1 10
