#!/usr/bin/env bash
# Builds all tests and runs them, two programs at a time. Each program says its result as it ends;
# what failed is shown whole at the end, and what this machine lacks (tests/lack.rs) in a list. Tests
# that depend on rights are run by root as a user too.
#
# Usage: all.sh DIRECTORY: where what the programs say is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: all.sh DIRECTORY" >&2; exit 2; }
rm -rf "$1"
mkdir -p "$1"
logs=$(realpath "$1")
export logs BYTECOST_SKIPPED=${BYTECOST_SKIPPED:-$logs/skipped}
what=(--workspace --features bytecost/full --locked)

# One a line: the folder of its crate, and the program.
programs=$(cargo test "${what[@]}" --no-run --message-format=json-render-diagnostics |
	sed -nE 's/.*"manifest_path":"([^"]*)\/Cargo\.toml".*"profile":\{[^}]*"test":true\}.*"executable":"([^"]*)".*/\1\t\2/p')

# Programs with tests that depend on rights, and which tests those are; without a name all are.
rights="sys/bytecost_sys
meter/bytecost_meter
evidence/bytecost_evidence
evidence/time
evidence/truths
store/runs
lab/bytecost_lab survey transports obstacles leftovers groups classes limits peer --skip file_survey
bytecost/all without_root without_rights unasked_evidence what_a_request_takes circumstances:: packet_sockets:: ceiling::"
[ "$(id -u)" = 0 ] || rights=""
export rights

# Where and as cargo would run it, and then as a user.
one() {
	local folder=${1%%$'\t'*} program=${1##*$'\t'}
	local name tests user
	name="$(basename "$folder")/$(basename "${program%-*}")"
	# What a shell has in the background ignores an interruption, which tests are about.
	local run=(env --default-signal=INT,QUIT --chdir="$folder" CARGO_MANIFEST_DIR="$folder")
	# Its tests wait for the command, and that for its trials and clocks, about half of the time.
	[ "$name" != bytecost/all ] || run+=(RUST_TEST_THREADS=$(($(nproc) + 2)))
	logged "$name" "${run[@]}" "$program"
	tests=$(grep -E "^$name( |\$)" <<<"$rights") || return 0
	local nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
	if ! "${nobody[@]}" test -x "$program"; then
		echo "not run: $name as a user, who cannot reach the directory of the build" >>"$BYTECOST_SKIPPED"
		return 0
	fi
	user=$(mktemp -d)
	chmod a+rwx "$user"
	# shellcheck disable=SC2086 # names of tests are words
	logged "$name as a user" "${nobody[@]}" "${run[@]}" \
		env -u CI -u BYTECOST_SKIPPED HOME="$user" TMPDIR="$user" "$program" ${tests#"$name"}
	rm -rf "$user"
}
logged() {
	local log=${1//\//-} began=$SECONDS
	log=$logs/${log// /-}
	"${@:2}" >"$log" 2>&1 </dev/null || { echo "exit status $?" >>"$log"; echo "$log" >>"$logs/failed"; }
	printf '%s, %s s: %s\n' "$1" $((SECONDS - began)) "$(grep '^test result: ' "$log" | tail -n 1 || true)"
}
export -f one logged
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
logged documentation cargo test "${what[@]}" --doc &
# Most have a thread for each CPU, and wait now and then.
xargs -d '\n' -n 1 -P 2 bash -c 'one "$1"' one <<<"$programs" &
wait
[ "$(find "$logs" -type f ! -name failed ! -name skipped ! -name '*-user' | wc -l)" -gt "$(wc -l <<<"$programs")" ] || {
	echo "not all of the test programs ran: what did is in $logs" >&2
	exit 1
}
[ ! -s "$logs/skipped" ] || sort -u "$logs/skipped"
[ ! -e "$logs/failed" ] || {
	xargs -d '\n' tail -n +1 <"$logs/failed"
	exit 1
}
