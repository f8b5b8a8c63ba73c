#!/usr/bin/env bash
# Runs the GPU tests that lie beside this script, each program under a time limit, and counts them:
#
#     run_gpu_tests.sh [filter of test names]
#
# GPU_TEST_SECONDS is the limit of one program, 300 if unset. The exit status is 0 only if tests ran
# and all of them passed.
set -u
cd "$(dirname "$0")" || exit 2
limit=${GPU_TEST_SECONDS:-300}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

for program in ./gpu_*; do
    echo "== ${program#./}"
    timeout --kill-after=10 "$limit" "$program" --ignored --show-output "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    # "test result: ok. 21 passed; 0 failed; ..."
    counts=$(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' "$log")
    read -r ok bad <<<"${counts:-0 0}"
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        echo "${program#./} ended with status $status (124 and 137: over $limit s)"
        bad=1
    fi
    passed=$((passed + ok)) failed=$((failed + bad))
done

echo
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
