#!/usr/bin/env bash
# Builds all tests and runs them: those of the command beside those of all other crates, one program
# after another. Each program says its result as it ends; what failed is shown whole at the end.
#
# Usage: all.sh DIRECTORY: where what the programs say is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: all.sh DIRECTORY" >&2; exit 2; }
rm -rf "$1"
mkdir -p "$1"
logs=$(realpath "$1")
what=(--workspace --features bytecost/full --locked)

# One a line: the folder of its crate, and the program.
programs=$(cargo test "${what[@]}" --no-run --message-format=json-render-diagnostics |
	sed -nE 's/.*"manifest_path":"([^"]*)\/Cargo\.toml".*"profile":\{[^}]*"test":true\}.*"executable":"([^"]*)".*/\1\t\2/p')

# Where and as cargo would run it.
each() {
	local folder program name
	while IFS=$'\t' read -r folder program; do
		name=$(basename "$folder")/$(basename "${program%-*}")
		# What a shell has in the background ignores an interruption, which tests are about.
		logged "$name" env --default-signal=INT,QUIT --chdir="$folder" CARGO_MANIFEST_DIR="$folder" "$program"
	done
}
logged() {
	local log=$logs/${1//\//-} began=$SECONDS
	"${@:2}" >"$log" 2>&1 </dev/null || echo "$log" >>"$logs/failed"
	printf '%s, %s s: %s\n' "$1" $((SECONDS - began)) "$(grep '^test result: ' "$log" | tail -n 1 || true)"
}
command=$PWD/crates/bytecost$'\t'
others() {
	grep -vF "$command" <<<"$programs" | each
	logged documentation cargo test "${what[@]}" --doc
}
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
others &
grep -F "$command" <<<"$programs" | each &
wait
[ "$(find "$logs" -type f ! -name failed | wc -l)" -gt "$(wc -l <<<"$programs")" ] || {
	echo "not all of the test programs ran: what did is in $logs" >&2
	exit 1
}
[ ! -e "$logs/failed" ] || {
	xargs -d '\n' tail -n +1 <"$logs/failed"
	exit 1
}
