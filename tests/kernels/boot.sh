#!/usr/bin/env bash
# Boots a stock Debian kernel under qemu and has it run test programs as root, since what this
# machine's kernel refuses must be tested somewhere. The guest's verdict is the exit status.
#
# Usage: [GUEST_ENV='NAME=VALUE …'] [PEER=BYTECOST] boot.sh CACHE GUEST TEST…
#   CACHE  folder in which the unpacked kernel is kept
#   GUEST  bytecost-guest, the guest's first process; like the tests statically linked
#   TEST   a program that `cargo test` would run, or PROGRAM=FILTER
#   PEER   bytecost, statically linked: as root, a short study goes between this machine and the
#          guest, over a virtual card in a network namespace of its own
#
# The kernel comes from Debian's packages by apt-get, is unpacked and not installed. Another one
# than the newest of this Debian is chosen by its package: KERNEL=linux-image-….
set -euo pipefail

# A guest that is not through by then is stuck: under emulation it needs some 2 min, and on a busy
# machine more.
MOST_S=480
# For tcp and unix sockets everything is built in; these are for the transport `wire`.
MODULES="tun veth cls_bpf sch_ingress"
# And these for the study between this machine and the guest.
CARD="virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_console \
	failover net_failover virtio_net"
HERE=198.18.9.1 THERE=198.18.9.2 BITS=30 # there: tests/kernels/src/guest.rs
STUDY="run --mover null,send,sendfile --size 64KiB --blocks 3 --budget 30s --window 200ms \
	--warmup 50ms --seed 7 --quiet --evidence none"

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

# In the namespace of the card, where there is one.
within() {
	if [ -n "$keeper" ]; then nsenter --net="/proc/$keeper/ns/net" "$@"; else "$@"; fi
}

# The study with the guest as the other host, once that waits: its end, and what it knows of the card.
study() {
	until grep -qs "^guest: the agent waits$" "$made/output"; do sleep 0.2; done
	cd "$made"
	within "$peer" $STUDY --runs-dir "$made/runs" --address "$THERE" --peer-program bytecost \
		--peer "sh -c 'exec 3<&0; cat <&3 >$made/agent.in & exec cat $made/agent.out'" \
		</dev/null >"$made/study" 2>&1 || fail "the study ended with status $?"
}

mkdir -p "$cache"
kernel=$(kernel)
made=$(mktemp -d)
keeper=
trap '[ -z "$keeper" ] || kill "$keeper"; rm -rf "$made"' EXIT
peer=${PEER:-}
if [ -n "$peer" ] && [ "$(id -u)" != 0 ]; then
	echo "test-kernels: no study between two kernels: a network namespace needs root"
	peer=
fi

mkdir -p "$made/root/tests" "$made/root/modules"
cp "$guest" "$made/root/init"
for test in "$@"; do
	name=$(basename "${test%%=*}")
	filter=${test#"${test%%=*}"}
	cp "${test%%=*}" "$made/root/tests/$name$filter"
done
if [ -n "$peer" ]; then
	MODULES="$MODULES $CARD"
	cp "$peer" "$made/root/bytecost"
	unshare --net sleep infinity &
	keeper=$!
	while [ "$(readlink "/proc/$keeper/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
	within ip tuntap add card0 mode tap
	within ip address add "$HERE/$BITS" dev card0
	within ip link set card0 up
	mkfifo "$made/agent.in" "$made/agent.out"
fi
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
	local card=() studying=
	if [ -n "$peer" ]; then
		card=(-netdev tap,id=card,ifname=card0,script=no,downscript=no
			-device virtio-net-pci,netdev=card,romfile= -chardev "pipe,id=agent,path=$made/agent"
			-device virtio-serial-pci -device virtserialport,chardev=agent,name=agent)
		rm -rf "$made/output" "$made/runs"
		study &
		studying=$!
	fi
	within timeout --kill-after 5 "$MOST_S" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot \
		-display none -serial stdio -machine q35 -accel "$1" -cpu max -smp 2 -m 1024 "${card[@]}" \
		-kernel "$kernel"/boot/vmlinuz-* -initrd "$made/initramfs" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off ${GUEST_ENV:-}" </dev/null |
		tr -d '\r' | tee "$made/output" || fail "the guest did not end within $MOST_S s, or qemu failed"
	[ -z "$studying" ] || ended "$studying"
}

# What became of the study, and what it knows of the guest's card.
ended() {
	if ! grep -q "^guest: the agent waits$" "$made/output"; then
		kill "$1"
		return
	fi
	wait "$1" || { cat "$made/study" >&2; fail "the study between this machine and the guest failed"; }
	local known part
	known=$(cat "$made"/runs/*/manifest.json)
	for part in '"driver": *"virtio_net"' '"rx_queues": *[1-9]' '"tso": *\(true\|false\)'; do
		grep -q "$part" <<<"$known" || fail "the study does not know the guest's card: no $part"
	done
	cat "$made/study"
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
