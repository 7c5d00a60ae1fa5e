#!/usr/bin/env bash
# Lines of Rust by crate: code, comments and blank lines outside of tests, and tests: files named
# tests.rs or below a folder tests, and in others what follows #[cfg(test)] to the end. Below that
# the files of more than 600 lines: look whether each still holds one noun.
set -euo pipefail
cd "$(dirname "$0")/.."

for crate in crates/*/; do
	name=$(basename "$crate")
	find "$crate" -name '*.rs' -print0 | xargs -0 awk -v name="$name" '
		FNR == 1 { tests = FILENAME ~ /\/tests(\.rs$|\/)/ }
		/^#\[cfg\(test\)\]/ { tests = 1 }
		{ all++ }
		tests { tested++; next }
		/^[[:space:]]*\/\// { comments++; next }
		/^[[:space:]]*$/ { blank++; next }
		{ code++ }
		END { print name, all, code, comments, blank, tested }'
done | awk '
	BEGIN { printf "%-10s %9s %9s %9s %9s %9s\n", "crate", "lines", "code", "comments", "blank", "tests" }
	{ printf "%-10s %9d %9d %9d %9d %9d\n", $1, $2, $3, $4, $5, $6; for (i = 2; i <= 6; i++) sum[i] += $i }
	END { printf "%-10s %9d %9d %9d %9d %9d\n", "all", sum[2], sum[3], sum[4], sum[5], sum[6] }'

find crates tests fuzz benches -name '*.rs' -exec awk 'END { if (NR > 600) print "long:", FILENAME, NR }' {} \;
