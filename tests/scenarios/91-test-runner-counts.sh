#!/usr/bin/env bash
# tools/run-tests must not call a broken run good: programs that pass, fail, skip, crash,
# hang, run nothing or print nothing, and what the last line has to say for each.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tests"
n_failed=0

# program NAME COMMANDS: a script that stands for a test program
program()
{
    printf '#!/bin/bash\n%s\n' "$2" >"$folder/tests/$1"
    chmod +x "$folder/tests/$1"
}

# expect STATUS LINE NAME...: what a run of these has to end with
expect()
{
    local status=$1 line=$2 programs=() name output got
    shift 2
    for name in "$@"; do
        programs+=("$folder/tests/$name")
    done
    output=$(TEST_TIMEOUT=1 "$root/tools/run-tests" "$folder/results" "${programs[@]}")
    got=$?
    if [ "$got" = "$status" ] && [ "$(printf '%s\n' "$output" | tail -n 1)" = "$line" ]; then
        echo "ok $* gives $line"
    else
        echo "not ok $* gave status $got and: $output"
        n_failed=$((n_failed + 1))
    fi
}

program passes 'echo "[       OK ] a"; echo "[       OK ] b"; echo "[  PASSED  ] 2 test(s)."'
program fails 'echo "[       OK ] a"; echo "[  FAILED  ] b"
    echo "[  FAILED  ] 1 test(s), listed below:"; echo "[  FAILED  ] b"; exit 1'
program skips 'echo "[  SKIPPED ] a"; echo "[       OK ] b"
    echo "[  SKIPPED ] 1 test(s), listed below:"; echo "[  SKIPPED ] a"'
program crashes 'echo "[       OK ] a"; kill -SEGV $$'
program hangs 'echo "[       OK ] a"; sleep 30'
program nothing 'true'
program sanitizer 'echo "[       OK ] a"; exit 23'
program script.sh 'echo "ok one"; echo "not ok two"; exit 1'
program absent.sh 'exit 77'
program figures 'echo "ok one"; echo "# 12 GFLOP/s"'

expect 0 "2 passed, 0 failed, 0 skipped" passes
expect 1 "1 passed, 1 failed, 0 skipped" fails
expect 0 "1 passed, 0 failed, 1 skipped" skips
expect 1 "1 passed, 1 failed, 0 skipped" crashes
expect 1 "1 passed, 1 failed, 0 skipped" hangs
expect 1 "0 passed, 1 failed, 0 skipped" nothing
expect 1 "1 passed, 1 failed, 0 skipped" sanitizer
expect 1 "1 passed, 1 failed, 0 skipped" script.sh
expect 0 "0 passed, 0 failed, 1 skipped" absent.sh
expect 0 "1 passed, 0 failed, 0 skipped" figures
expect 1 "0 passed, 1 failed, 0 skipped" missing
expect 1 "5 passed, 3 failed, 1 skipped" passes fails skips crashes nothing
expect 1 "0 passed, 0 failed, 0 skipped"
[ "$n_failed" = 0 ]
