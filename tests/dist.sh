#!/usr/bin/env bash
# Builds bytecost as one static file with everything in it, puts its manual pages and completions
# beside it, and tries it where there is nothing else: a root with it, /proc,
# /dev/null and a place for runs.
#
# Usage: dist.sh DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: dist.sh DIRECTORY" >&2; exit 2; }
out=$1

# musl where it is installed, else the C library of this machine.
host=$(rustc -vV | sed -n 's/^host: //p')
musl=${host%-gnu}-musl
target=()
[ ! -d "$(rustc --print sysroot)/lib/rustlib/$musl/lib" ] || target=(--target "$musl")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# The release profile, linked statically.
program=$(cargo rustc -q --release --locked -p bytecost --bin bytecost --features full "${target[@]}" \
	--message-format=json-render-diagnostics -- -C target-feature=+crt-static -C strip=debuginfo |
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)

# What looks up names loads libraries of the machine as it runs, in a static file too.
names=$(nm "$program" | grep -E ' [TtWw] (getaddrinfo|gethostbyname|getpw(nam|uid)|getgr(nam|gid))(_r)?$' || true)
if [ -z "${target[*]}" ] && [ -n "$names" ]; then
	printf 'It looks up names, which needs libraries:\n%s\n' "$names" >&2
	exit 1
fi
if ldd "$program" 2>/dev/null | grep -q '=>'; then
	echo "It is not static" >&2
	exit 1
fi

mkdir -p "$out/man" "$out/completions"
strip -o "$out/bytecost" "$program"
"$out/bytecost" man --out "$out/man"
for shell in bash zsh fish; do
	"$out/bytecost" completions "$shell" >"$out/completions/bytecost.$shell"
done

mkdir "$root/proc" "$root/dev" "$root/runs" "$root/tmp"
touch "$root/dev/null"
cp "$out/bytecost" "$root/"
# Nothing but the program, with processes of its own.
alone() {
	unshare --user --map-root-user --mount --pid --fork \
		sh -c 'mount -t proc proc "$1/proc" && mount --bind /dev/null "$1/dev/null" && root=$1 && shift && exec chroot "$root" /bytecost "$@"' sh "$root" "$@"
}
alone doctor >/dev/null
alone list >/dev/null
# Status 1 says that the run has a caveat.
alone run --quiet --mover null,send --size 4KiB --budget 6s --blocks 6 --window 20ms --warmup 5ms --runs-dir /runs >/dev/null ||
	[ $? = 1 ]
ls "$root"/runs/*/report.html >/dev/null
[ "$(cat "$root"/runs/*/samples.csv | wc -l)" -gt 6 ] || { echo "It measured nothing there" >&2; exit 1; }
printf '%s: %s bytes, tried in an empty root\n' "$out/bytecost" "$(stat -c %s "$out/bytecost")"
