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
