#!/bin/sh
# bench-pair.sh compares the speed of two commits: it builds the benchmarks of
# both, runs them in turns, and prints medians with their confidence intervals
# (benchstat). Every figure is a ratio to TCP from the same process.
#
#     bench-pair.sh OLD [ROUNDS [BENCH [PACKAGE...]]]
#
# The newer side is the tree as it stands. benchstat prints "~" when the rounds
# don't show a difference. A confidence interval needs six rounds.
set -eu
cd "$(dirname "$0")/.."
old=${1:?"usage: bench-pair.sh OLD [ROUNDS [BENCH [PACKAGE...]]]"}
rounds=${2:-10}
bench=${3:-'^Benchmark(PingPong|Null|Read|Write)$'}
[ $# -gt 3 ] && shift 3 || set -- verbs/softiwarp dataplane/echo
: "${GO:=go}" "${BENCHTIME:=300ms}" "${BENCHSTAT:=golang.org/x/perf/cmd/benchstat@latest}"

dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/old" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
git worktree add --quiet --detach "$dir/old" "$old"
ln -s "$PWD" "$dir/new"
for side in old new; do
  for p; do
    (cd "$dir/$side" && $GO test -c -o "$dir/$side.$(echo "$p" | tr / .)" "./$p")
  done
done

# run SIDE PACKAGE adds one round's figures to SIDE.txt.
run() {
  (cd "$dir/$1/$2" && "$dir/$1.$(echo "$2" | tr / .)" -test.run '^$' -test.bench "$bench" -test.benchtime "$BENCHTIME") >>"$dir/$1.txt"
}

i=0
while [ "$i" -lt "$rounds" ]; do
  i=$((i + 1))
  echo "round $i of $rounds" >&2
  for p; do
    if [ $((i % 2)) -eq 1 ]; then run old "$p"; run new "$p"; else run new "$p"; run old "$p"; fi
  done
done
$GO run "$BENCHSTAT" -filter '.unit:(ratio OR ratio_to_tcp)' "$old=$dir/old.txt" "new=$dir/new.txt"
