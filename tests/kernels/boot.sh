#!/usr/bin/env bash
# Boots a stock Debian kernel under qemu and has it run test programs as root, since what this
# machine's kernel refuses must be tested somewhere. The guest's verdict is the exit status.
#
# Usage: [GUEST_ENV='NAME=VALUE …'] [PEER=BYTECOST] boot.sh CACHE GUEST TEST…
#   CACHE  folder in which the unpacked kernel is kept
#   GUEST  bytecost-guest, the guest's first process; what it and the tests are linked with comes along
#   TEST   a program that `cargo test` would run, or PROGRAM=FILTER
#   PEER   bytecost: as root, a short study goes between this machine and the guest over a virtual
#          card, and must know its driver, queues and offloads. All of it is in namespaces of its own
#          for processes and the network, which end with it
#
# The kernel comes from Debian's packages by apt-get, is unpacked and not installed. Another one
# than the newest of this Debian is chosen by its package: KERNEL=linux-image-….
set -euo pipefail

# A guest that is not through by then is stuck: under emulation it needs some 2 min, and on a busy
# machine more.
MOST_S=1200
# For tcp and unix sockets everything is built in; these are for the transport `wire`.
MODULES="tun veth cls_bpf sch_ingress"
# And these for the study between this machine and the guest.
CARD="virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_console \
	failover net_failover virtio_net"
HERE=198.18.9.1 THERE=198.18.9.2 BITS=30 # there: tests/kernels/src/guest.rs
CHANNEL=7421
STUDY="run --mover null,send,sendfile --size 64KiB --blocks 6 --budget 30s --window 200ms \
	--warmup 50ms --seed 7 --quiet --evidence none"

fail() {
	echo "test-kernels: $*" >&2
	exit 1
}

[ $# -ge 3 ] || fail "usage: boot.sh CACHE GUEST TEST…"
words=("$@") cache=$1 guest=$2
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
peer=${PEER:-}
if [ -n "$peer" ] && [ "$(id -u)" != 0 ]; then
	[ "${CI:-}" != true ] || fail "a study between two kernels needs root"
	echo "left out: a study between two kernels needs root"
	peer=
elif [ -n "$peer" ] && [ -z "${BOOT_INSIDE:-}" ]; then
	BOOT_INSIDE=yes exec unshare --net --pid --fork --kill-child --mount-proc "$0" "${words[@]}"
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# The study with the guest as the other host, once that waits.
study() {
	until grep -qs "^guest: the agent waits$" "$made/output"; do sleep 0.2; done
	# Once bytecost has said its last word nobody reads any more.
	printf 'exec 3<>/dev/tcp/127.0.0.1/%s\ncat <&3 &\ncat >&3\nkill $!\n' "$CHANNEL" >"$made/join"
	(cd "$made" && "$peer" $STUDY --runs-dir "$made/runs" --address "$THERE" \
		--peer "bash $made/join" </dev/null) >"$made/study" 2>&1
}

# What became of it, and what it knows of the guest's card.
studied() {
	local status=0
	wait "$1" || status=$?
	# A trial may fail where the guest is slow, which is status 1.
	[ "$status" -le 1 ] || fail "the study between this machine and the guest ended with status $status: $(<"$made/study")"
	local part
	for part in '(virtio_net, virtual)' '[1-9] to receive, [1-9] to send' 'Offloads on'; do
		grep -q "$part" "$made"/runs/*/report.html || fail "the page does not tell the guest's card: no $part"
	done
	cat "$made/study"
}

mkdir -p "$made/root/tests" "$made/root/modules"
# A program and the libraries that it is linked with, none where it is static.
put() {
	strip --strip-debug -o "$2" "$1"
	local libraries
	libraries=$(ldd "$1" 2>/dev/null | grep -o '/[^ ]*') || true
	[ -z "$libraries" ] || xargs cp -n -L --parents -t "$made/root" <<<"$libraries"
}
put "$guest" "$made/root/init"
for test in "$@"; do
	name=$(basename "${test%%=*}")
	filter=${test#"${test%%=*}"}
	put "${test%%=*}" "$made/root/tests/$name$filter"
done
card=()
if [ -n "$peer" ]; then
	put "$peer" "$made/root/bytecost"
	MODULES="$MODULES $CARD"
	ip link set lo up
	ip tuntap add card0 mode tap
	ip address add "$HERE/$BITS" dev card0
	ip link set card0 up
	card=(-netdev tap,id=card,ifname=card0,script=no,downscript=no
		-device virtio-net-pci,netdev=card,romfile=
		-chardev "socket,id=agent,host=127.0.0.1,port=$CHANNEL,server=on,wait=off"
		-device virtio-serial-pci -device virtserialport,chardev=agent,name=agent)
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
	local studying=
	if [ -n "$peer" ]; then
		rm -rf "$made/output" "$made/runs"
		study &
		studying=$!
	fi
	timeout --kill-after 5 "$MOST_S" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot \
		-display none -serial stdio -machine q35 -accel "$1" -cpu max -smp 2 -m 1536 "${card[@]}" \
		-kernel "$kernel"/boot/vmlinuz-* -initrd "$made/initramfs" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off ${GUEST_ENV:-}" </dev/null |
		sed -u 's|\r||g' | tee "$made/output" || fail "the guest did not end within $MOST_S s, or qemu failed"
	if ! grep -q "^guest: the agent waits$" "$made/output"; then
		[ -z "$studying" ] || kill "$studying"
	elif [ -n "$studying" ]; then
		studied "$studying"
	fi
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
