#!/usr/bin/env bash
# Runs the tests of the whole workspace, and each that failed once more, by itself: on a machine
# that others use as well one in two thousand may fail by chance. A test that fails twice has
# failed. What passed only the second time is written to a file, a line each, since a test that
# does so again and again is to be mended.
#
# Usage: twice.sh FILE                      the tests of the workspace; FILE begins anew
#        twice.sh FILE WHAT COMMAND [ARG…]  another command, once more if it fails
set -euo pipefail

# So many failures are no chance.
MOST=10

[ $# = 1 ] || [ $# -ge 3 ] || { echo "usage: twice.sh FILE [WHAT COMMAND [ARG…]]" >&2; exit 2; }
second_time=$1
mkdir -p "$(dirname "$second_time")"

if [ $# -ge 3 ]; then
	what=$2
	shift 2
	"$@" && exit 0
	printf '\nOnce more: %s\n' "$what"
	"$@" || { status=$?; echo "Failed twice: $what" >&2; exit "$status"; }
	printf '\nPASSED ONLY THE SECOND TIME: %s\n' "$what"
	echo "$what" >>"$second_time"
	exit 0
fi

: >"$second_time"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
export CARGO_TERM_COLOR=never

status=0
cargo test --workspace --all-targets --locked --no-fail-fast 2>&1 | tee "$made/first" || status=$?
[ "$status" != 0 ] || exit 0

# A line for each test that failed: how cargo finds its program, and its name; none where the
# program ended without a list of what failed.
awk -F '`' '
	/^failures:$/ { listed = ""; next }
	/^    / { listed = listed substr($0, 5) "\n"; next }
	/^test result: FAILED/ { failed = listed }
	/^error: test failed, to rerun pass `/ {
		program = $2
		sub(/^-p [^ ]+ /, "", program)
		n = split(failed, names, "\n")
		if (n == 0) print program "\t"
		for (i = 1; i < n; i++) print program "\t" names[i]
		failed = ""
	}' "$made/first" >"$made/failed"
programs=$(grep -c '^error: test failed, to rerun pass' "$made/first" || true)
tests=$(wc -l <"$made/failed")
if [ "$programs" = 0 ] || ! grep -qE "^error: $programs targets? failed:$" "$made/first"; then
	exit "$status" # something else went wrong: it was not built, say
fi
if [ "$tests" -gt "$MOST" ]; then
	echo "$tests tests failed: too many to be tried again" >&2
	exit "$status"
fi

# Whether it passes this time, and is not just not there.
passes() {
	local program=$1 name=$2 words=(--test-threads=1)
	[ -z "$name" ] || words+=(--exact "$name")
	# Not the package: others would then be built with other features.
	# shellcheck disable=SC2086
	cargo test --workspace --locked $program -- "${words[@]}" </dev/null 2>&1 | tee "$made/again" &&
		grep -qE '^test result: ok\. [1-9]' "$made/again"
}

while IFS=$'\t' read -r program name <&3; do
	what="${name:-all tests} ($program)"
	printf '\nOnce more: %s\n' "$what"
	if passes "$program" "$name"; then
		echo "$what" >>"$second_time"
	else
		echo "$what" >>"$made/twice"
	fi
done 3<"$made/failed"

if [ -s "$made/twice" ]; then
	printf '\nFailed twice:\n' >&2
	sed 's/^/    /' "$made/twice" >&2
	exit "$status"
fi
