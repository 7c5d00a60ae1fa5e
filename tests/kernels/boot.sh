#!/usr/bin/env bash
# Boots a stock Debian kernel under qemu and has it run test programs as root, since what this
# machine's kernel refuses must be tested somewhere. The guest's verdict is the exit status.
#
# Usage: [GUEST_ENV='NAME=VALUE …'] boot.sh CACHE GUEST TEST…
#   CACHE  folder in which the unpacked kernel is kept
#   GUEST  bytecost-guest, the guest's first process; like the tests statically linked
#   TEST   a program that `cargo test` would run, or PROGRAM=FILTER
#
# The kernel comes from Debian's packages by apt-get, is unpacked and not installed. Another one
# than the newest of this Debian is chosen by its package: KERNEL=linux-image-….
set -euo pipefail

# A guest that is not through by then is stuck: under emulation it needs some 2 min, and on a busy
# machine more.
MOST_S=480
# For tcp and unix sockets everything is built in; these are for the transport `wire`.
MODULES="tun veth cls_bpf sch_ingress"

fail() {
	echo "test-kernels: $*" >&2
	exit 1
}

[ $# -ge 3 ] || fail "usage: boot.sh CACHE GUEST TEST…"
cache=$1 guest=$2
shift 2

for tool in qemu-system-x86_64 cpio xz; do
	command -v "$tool" >/dev/null || fail "$tool is not installed: as root, make test-kernels installs it"
done
[ "$(uname -m)" = x86_64 ] || fail "it knows kernels of x86_64 only, and this is $(uname -m)"

# The folder of the unpacked kernel: boot/vmlinuz-… and lib/modules/….
kernel() {
	local package=${KERNEL:-} there
	if [ -z "$package" ]; then
		there=$(find "$cache" -maxdepth 1 -name 'linux-image-*' | sort -V | tail -n 1)
		if [ -n "$there" ]; then
			echo "$there"
			return
		fi
	elif [ -d "$cache/$package" ]; then
		echo "$cache/$package"
		return
	fi
	command -v apt-get >/dev/null || fail "the kernel comes from Debian's packages, and there is no apt-get here"
	fetch "$package" || {
		# The lists are missing, or so old that what they name is gone.
		as_root apt-get update -q >&2
		fetch "$package"
	} || fail "no kernel could be had from Debian's packages (${package:-linux-image-cloud-amd64})"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Downloads and unpacks a package, or the newest; says where it lies.
fetch() {
	local package=$1
	if [ -z "$package" ]; then
		package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
			awk '/Depends: linux-image-/ { print $2; exit }') || return 1
		[ -n "$package" ] || return 1
	fi
	local fresh
	fresh=$(mktemp -d "$cache/fresh.XXXXXX")
	(cd "$fresh" && apt-get download -q "$package" >&2) &&
		dpkg-deb -x "$fresh"/*.deb "$fresh/kernel" &&
		mv -T "$fresh/kernel" "$cache/$package" &&
		echo "$cache/$package"
	local status=$?
	rm -rf "$fresh"
	return "$status"
}

mkdir -p "$cache"
kernel=$(kernel)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

mkdir -p "$made/root/tests" "$made/root/modules"
cp "$guest" "$made/root/init"
for test in "$@"; do
	name=$(basename "${test%%=*}")
	filter=${test#"${test%%=*}"}
	cp "${test%%=*}" "$made/root/tests/$name$filter"
done
for module in $MODULES; do
	found=$(find "$kernel/lib/modules" -name "$module.ko*" | head -n 1)
	[ -n "$found" ] || continue # built in, or the tests say that it is missing
	cp "$found" "$made/root/modules"
done
find "$made/root/modules" -name '*.xz' -exec xz -d {} +
(cd "$made/root" && find . | cpio --quiet -o -H newc -R 0:0) >"$made/initramfs"

# Boots with an accelerator, and leaves what the guest said in `output`.
boot() {
	echo "test-kernels: $(basename "$kernel"), $1"
	timeout --kill-after 5 "$MOST_S" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot \
		-display none -serial stdio -machine q35 -accel "$1" -cpu max -smp 2 -m 1024 \
		-kernel "$kernel"/boot/vmlinuz-* -initrd "$made/initramfs" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off ${GUEST_ENV:-}" </dev/null |
		tr -d '\r' | tee "$made/output" || fail "the guest did not end within $MOST_S s, or qemu failed"
}

# Where the device is there and the CPU has nothing for it, guests hang.
if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then
	boot kvm
else
	boot tcg,thread=multi
	# Two CPUs at a time are emulated with faults that some kernels do not survive.
	grep -q "^guest: \(passed\|failed\)$" "$made/output" || {
		echo "test-kernels: the guest's kernel broke down; once more, with its CPUs taking turns"
		boot tcg,thread=single
	}
fi
grep -qx "guest: passed" "$made/output" || fail "the guest's tests did not all pass"
