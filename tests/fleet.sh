#!/usr/bin/env bash
# Tries what is below deploy: its files by schema and manual page, and the role for real, on three
# hosts that are network namespaces with a home and an SSH server of their own. One of them goes away
# in the middle of a run of two, and a fourth was never there. Afterwards nothing is left, and the
# table over hosts has the other runs.
#
# All of it runs in namespaces of its own for processes, mounts and the network, which end with it.
#
# Usage: fleet.sh PROGRAM DIRECTORY, as root: the bytecost to try; where tools and results are kept.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 2 ] || { echo "usage: fleet.sh PROGRAM DIRECTORY" >&2; exit 2; }
program=$(realpath "$1") dir=$2
mkdir -p "$dir"
dir=$(realpath "$dir")
# Not below /tmp, of which each host has its own.
hosts=/mnt/fleet
said() { printf '%s: %s\n' "$(date +%T)" "$*"; }
failed() { echo "fleet: $*" >&2; exit 1; }

if [ -z "${FLEET_INSIDE:-}" ]; then
	status=0
	FLEET_INSIDE=yes unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$program" "$dir" || status=$?
	! pgrep -f "$hosts" || failed "processes are left"
	! mount | grep -F "$hosts" || failed "mounts are left"
	! ip link show dev card-a 2>/dev/null || failed "links are left"
	exit $status
fi

export PATH="$dir/venv/bin:$PATH" LC_ALL=C.UTF-8 ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_INVENTORY_UNPARSED_WARNING=False
export ANSIBLE_HOME=$dir/ansible ANSIBLE_ROLES_PATH=$PWD/deploy/ansible/roles ANSIBLE_NOCOLOR=1 ANSIBLE_PIPELINING=1
unset SSH_AUTH_SOCK
rm -rf "$dir/single" "$dir/pairs" "$dir"/*.log
# What the hosts have, and the names of namespaces, are seen in here alone.
mount -t tmpfs fleet /mnt
(umask 077 && mkdir "$hosts")
mkdir -p /run/netns /run/sshd
mount -t tmpfs fleet /run/netns
mount -t tmpfs -o mode=0755 fleet /run/sshd

ssh-keygen -q -t ed25519 -N '' -f "$hosts/key"
ip link set lo up
ip link add name switch type bridge
ip addr add 10.78.0.254/24 dev switch
ip link set switch up
cat >"$hosts/ssh_config" <<END
IdentityFile $hosts/key
IdentitiesOnly yes
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
User root
END
number=0
for host in a b c; do
	number=$((number + 1))
	address=10.78.0.$number
	mkdir -p "$hosts/$host/home/.ssh" "$hosts/$host/tmp"
	chmod -R go= "$hosts/$host"
	ip netns add $host
	ip link add name "card-$host" type veth peer name eth0 netns $host
	ip link set dev "card-$host" master switch up
	ip -n $host addr add $address/24 dev eth0
	ip -n $host link set eth0 up
	ip -n $host link set lo up
	ssh-keygen -q -t ed25519 -N '' -f "$hosts/$host/key"
	cp "$hosts/key.pub" "$hosts/$host/home/.ssh/authorized_keys"
	cp "$hosts/key" "$hosts/$host/home/.ssh/id_ed25519"
	printf 'Host %s\nHostName %s\n' $host $address >>"$hosts/names"
	cat >"$hosts/$host/sshd_config" <<-END
		ListenAddress $address
		HostKey $hosts/$host/key
		PidFile none
		StrictModes no
		UsePAM no
		PasswordAuthentication no
		PermitRootLogin prohibit-password
	END
done
printf 'Host d\nHostName 10.78.0.9\n' >>"$hosts/names"
cat "$hosts/names" >>"$hosts/ssh_config"
for host in a b c; do
	cp "$hosts/ssh_config" "$hosts/$host/home/.ssh/config"
	sed -i "s|$hosts/key|~/.ssh/id_ed25519|; s|/dev/null|~/.ssh/known_hosts|" "$hosts/$host/home/.ssh/config"
	# Each has a home and a directory for temporary files, and sees nobody else's.
	ip netns exec $host sh -c "mount --bind $hosts/$host/tmp /tmp && mount --bind $hosts/$host/home /root && exec /usr/sbin/sshd -D -e -f $hosts/$host/sshd_config" 2>"$hosts/$host/log" &
	disown
done
for host in a b c; do
	for _ in $(seq 1200); do ! grep -q listening "$hosts/$host/log" || break; sleep 0.05; done
	grep -q listening "$hosts/$host/log" || failed "$host does not listen: $(cat "$hosts/$host/log")"
done

cat >"$hosts/inventory.yml" <<END
all:
  vars:
    ansible_python_interpreter: /usr/bin/python3
    ansible_ssh_args: -F $hosts/ssh_config
    bytecost_program: $program
    bytecost_peer: "ssh:{{ inventory_hostname }}"
    bytecost_options: [--mover, "null,send,sendfile", --size, 64KiB, --evidence, none,
      --window, 20ms, --warmup, 5ms, --budget, 4s, --blocks, "6"]
  hosts: {a: {}, b: {}, c: {}, d: {}}
END
play() {
	local name=$1
	shift
	timeout 900 ansible-playbook -i "$hosts/inventory.yml" deploy/ansible/fleet.yml \
		-e "bytecost_runs=$dir/$name" -e '{"ansible_ssh_common_args": "-o ConnectTimeout=5 -o ServerAliveInterval=2 -o ServerAliveCountMax=4"}' \
		"$@" >"$dir/$name.log" 2>&1
}
left() { find "$hosts/$1/tmp" "$hosts/$1/home" -path '*bytecost*' | wc -l; }
report() {
	local status=0
	"$program" report "$dir/$1"/* --json >"$dir/$1.json" || status=$?
	[ "$status" -le 1 ] || failed "no table of $1"
	"$program" report "$dir/$1"/* || [ $? = 1 ]
}
names() { python3 -c 'import json, sys; print(*[h["host"] for h in json.load(open(sys.argv[1]))["hosts"]], sep=", ")' "$dir/$1.json"; }

said "each host by itself"
play single --limit a,b,c || { tail -n 40 "$dir/single.log"; failed "a run on each host"; }
report single
[ "$(names single)" = "a, b, c" ] || failed "hosts: $(names single)"
for host in a b c; do [ "$(left $host)" = 0 ] || failed "something is left on $host"; done

said "each two hosts; d is not there, and c goes away in its run with a"
# a and c are the second round; a has the samples of that run once it is in the middle.
(
	until cat "$hosts"/a/tmp/bytecost.*/runs/*/samples.jsonl 2>/dev/null | grep -q .; do sleep 0.05; done
	ip -n c link set eth0 down
	# What ends with another one is no fault.
	ip netns pids c | xargs -r kill -9 2>/dev/null || true
) &
status=0
play pairs -e '{"bytecost_pairs": true, "bytecost_single": false}' || status=$?
ended() { grep -Eq "$1" "$dir/pairs.log" || { tail -n 60 "$dir/pairs.log"; failed "$2"; }; }
[ "$status" != 0 ] || failed "nothing was said of c and d"
for host in c d; do ended "^$host +:.*unreachable=1" "$host is not reported as gone"; done
for host in a b; do ended "^$host +:.*unreachable=0" "$host did not go on"; done
ended '"msg": "with d: .*status 255' "the pair of a and d is not reported"
report pairs
case "$(names pairs)" in
"a → b, b → c" | "a → b, a → c, b → c") ;;
*) tail -n 40 "$dir/pairs.log"; failed "pairs: $(names pairs)" ;;
esac
for host in a b; do
	[ "$(left $host)" = 0 ] || failed "something is left on $host"
	! ip netns pids $host | xargs -r ps -o args= -p | grep -v sshd || failed "processes are left on $host"
done
said "done"
