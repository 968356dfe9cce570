# Helpers of the scenarios; sourced, not run. Each scenario works in a folder of its own.
# LATHE is the program.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LATHE=${LATHE:-$root/build/release/lathe}
golden=$root/tests/golden
demo=$root/examples/demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# What this user has measured or tokenised before is neither used nor changed.
export XDG_CACHE_HOME=$work/.cache
n_failed=0

ok()
{
    echo "ok $1"
}

not_ok()
{
    echo "not ok $1"
    n_failed=$((n_failed + 1))
}

# check NAME COMMAND...: the command must succeed
check()
{
    local name=$1
    shift
    if "$@"; then ok "$name"; else not_ok "$name"; fi
}

# refused NAME STATUS TEXT COMMAND...: the command must end with this status and one line
# on stderr that holds the text.
refused()
{
    local name=$1 status=$2 text=$3 got
    shift 3
    "$@" >"$work/stdout" 2>"$work/stderr"
    got=$?
    # Notes and warnings may come before; the error is the one line behind them.
    local lines
    lines=$(grep -c '^lathe: error: ' "$work/stderr")
    if [ "$got" = "$status" ] && [ "$lines" = 1 ] && grep -qF -- "$text" "$work/stderr"; then
        ok "$name"
    else
        not_ok "$name (status $got, wanted $status and '$text')"
        sed 's/^/    /' "$work/stderr"
    fi
}

finish()
{
    [ "$n_failed" = 0 ]
    exit
}
