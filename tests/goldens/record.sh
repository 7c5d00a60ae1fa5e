#!/usr/bin/env bash
# Records a small run of every built-in study on this machine, for crates/bytecost/tests/goldens.rs,
# and writes what bytecost says of each beside it. It takes about five minutes, as root for veth and
# wire. Few cells, since a trial takes 3 to 6 KB, and few blocks, since a golden keeps words and
# numbers as they are and need not decide anything.
#
# Usage: record.sh BYTECOST FOLDER
set -euo pipefail

bytecost=$(realpath "$1")
folder=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
cd "$runs"

record() {
	local study=$1
	shift
	echo "$study $*"
	"$bytecost" run "$study" --quiet --no-history --seed 1 --runs-dir "$runs" "$@" >"$runs/said" || [ $? = 1 ] || {
		cat "$runs/said"
		return 1
	}
	mkdir -p "$folder/$study"
	node "$here/anonymous.mjs" "$runs"/*-"$study" "$folder/$study" "$study"
	rm -rf "$runs"/*-"$study"
}

record access-patterns --budget 60s --blocks 6 --mover work-sequential,work-chase --size 16KiB,16MiB
record ceiling --budget 60s --blocks 6 --ring 1MiB,64MiB
record cpu-to-cpu --budget 8s --blocks 6 --mover ping-cache-line,ping-futex,ping-tcp
record file-copy --budget 60s --blocks 6 --mover read-null,sendfile-null,splice-file --size 64KiB,16MiB --block 64KiB --cache warm
record file-read --budget 60s --blocks 6 --mover pread,posix-aio,uring-read --size 4KiB,64KiB --depth 1,16 --cache direct --access random
record file-to-socket --budget 60s --blocks 6 --transport loopback --mover read-write,sendfile,splice,java-transfer-to --size 7MiB,63MiB --block 4KiB --cache warm
record isolation --budget 60s --blocks 6 --mover work-integer,wake-up --class other,fifo
record os-features --blocks 6 --budget 14s
record pa02-a --budget 60s --blocks 6 --size 2KiB,512KiB --threads 1 --nodelay on,off --mover send-fields,sendmsg
record pa02-b --budget 60s --blocks 6 --size 512,64KiB --threads 4
record placement --budget 9s --blocks 6 --mover work-integer,work-stream
record send-copies --budget 60s --blocks 6 --mover null,send,send-fields,send-zerocopy,sendfile,uring-send-zc --size 4KiB,1MiB
record send-wire --budget 60s --blocks 6 --mover send,send-zerocopy,uring-send-zc,sendfile --size 64KiB,1MiB
record server-models --budget 6500ms --blocks 6 --server thread,select,epoll --connections 64 --idle 0,900 --service echo --connect kept
record smt --budget 60s --blocks 6 --mover work-integer,work-chase
