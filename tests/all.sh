#!/usr/bin/env bash
# Builds all tests and runs them, two programs at a time. Each program says its result as it ends;
# what failed is shown whole at the end.
#
# Usage: all.sh DIRECTORY: where what the programs say is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: all.sh DIRECTORY" >&2; exit 2; }
rm -rf "$1"
mkdir -p "$1"
logs=$(realpath "$1")
export logs
what=(--workspace --features bytecost/full --locked)

# One a line: the folder of its crate, and the program.
programs=$(cargo test "${what[@]}" --no-run --message-format=json-render-diagnostics |
	sed -nE 's/.*"manifest_path":"([^"]*)\/Cargo\.toml".*"profile":\{[^}]*"test":true\}.*"executable":"([^"]*)".*/\1\t\2/p')

# Where and as cargo would run it.
one() {
	local folder=${1%%$'\t'*} program=${1##*$'\t'}
	# What a shell has in the background ignores an interruption, which tests are about.
	logged "$(basename "$folder")/$(basename "${program%-*}")" \
		env --default-signal=INT,QUIT --chdir="$folder" CARGO_MANIFEST_DIR="$folder" "$program"
}
logged() {
	local log=$logs/${1//\//-} began=$SECONDS
	"${@:2}" >"$log" 2>&1 </dev/null || { echo "exit status $?" >>"$log"; echo "$log" >>"$logs/failed"; }
	printf '%s, %s s: %s\n' "$1" $((SECONDS - began)) "$(grep '^test result: ' "$log" | tail -n 1 || true)"
}
export -f one logged
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
logged documentation cargo test "${what[@]}" --doc &
# All have a thread for each CPU, and wait now and then.
xargs -d '\n' -n 1 -P 2 bash -c 'one "$1"' one <<<"$programs" &
wait
[ "$(find "$logs" -type f ! -name failed | wc -l)" -gt "$(wc -l <<<"$programs")" ] || {
	echo "not all of the test programs ran: what did is in $logs" >&2
	exit 1
}
[ ! -e "$logs/failed" ] || {
	xargs -d '\n' tail -n +1 <"$logs/failed"
	exit 1
}
