//! The cells of a study: no two of them are the same measurement.

use bytecost_spec::Value;

use super::{axes, of_all_kinds, one, spread_out};

/// Rows of `axes | values of axes in the cells, in order`.
const ROWS: &str = "
    transport veth; mtu auto 1500 | mtu 1500
    transport veth; mtu 1500 9000 | mtu 1500 9000
    transport wire; mtu 1500 9000 | mtu 1500 9000
    transport loopback; mtu auto 9000 | mtu 1500
    transport unix; receiver recv recv-discard; congestion cubic reno; nodelay on off | receiver recv recv-discard; congestion default default; nodelay auto auto
    mover null; receiver recv recv-discard; nodelay on off | mover null
    mover null send | mover null send
    transport loopback; receiver recv recvmsg; read-size 256KiB message | read-size 256KiB message 256KiB message
    transport wire; receiver recv recvmsg; read-size 256KiB message; quickack on; ack-bytes 128KiB 1MiB | ack-bytes 128KiB 1MiB
    transport loopback; device tun veth; segment auto 16KiB | device tun; segment auto
    transport veth; device tun veth; segment auto 16KiB | device tun tun; segment auto 16KiB
    transport wire; device tun veth; segment auto 16KiB | device tun tun veth veth; segment auto 16KiB auto 16KiB
    mover send uring-send-zc; reaping one-look | mover send uring-send-zc; reaping full one-look
    mover send uring-send-zc; reaping never full | mover send uring-send-zc uring-send-zc; reaping full never full
    mover send; cache memory warm; depth 1 8; block 4KiB 1MiB | cache memory; depth 1; block 64KiB
    mover sendfile; cache memory warm; depth 1 8; block 4KiB 1MiB | cache memory warm; depth 1 1; block 64KiB 64KiB
    mover read-write; cache warm; depth 1 8; block 4KiB 1MiB | depth 1 1; block 4KiB 1MiB
    mover pread; cache warm; transport loopback unix; receiver recv recv-discard; fields 1 8; nodelay on off | mover pread
    mover pread; cache warm; depth 1 8; size 4KiB 1MiB; block 4KiB 64KiB | depth 1 1; size 4KiB 1MiB; block 64KiB 64KiB
    mover uring-read; cache warm; depth 1 8 | depth 1 8
    mover read-null; cache warm; size 4KiB; block 4KiB 64KiB 1MiB | block 64KiB
    mover read-null; cache warm; size 64KiB; block 4KiB 64KiB 1MiB | block 4KiB 64KiB
    mover copy_file_range; cache warm; size 1MiB; block 4KiB 64KiB 1MiB | block 4KiB 64KiB 1MiB
    mover send; huge-pages auto on | mover send
    mover ping-futex; huge-pages auto on | mover ping-futex
    mover null; class batch:nice=3; cgroup weight=9 | class batch:nice=3; cgroup weight=9
    mover work-integer; class batch:nice=3; cgroup weight=9 | class batch:nice=3; cgroup weight=9
    mover send; class batch:nice=3; cgroup weight=9 | class batch:nice=3; cgroup weight=9
    server epoll; class idle; cgroup weight=5 | class other; cgroup none
    server none; connections 1 2 3 | connections 1
    server epoll; fields 1 8; ring 1MiB 4MiB | pattern request-response; fields 8; ring 4MiB
    server epoll; cache warm; nodelay on off | pattern request-response; cache memory; nodelay auto
    server epoll; service top; size 64 1KiB | pattern request-response; service top
    server epoll; rate 100; think 0 1ms | pattern request-response; rate 100; think 0";

#[test]
fn an_axis_that_does_not_apply_makes_no_second_cell() {
    let survey = of_all_kinds();
    for row in ROWS.lines().filter_map(|row| row.split_once('|')) {
        let cells = spread_out(&one(row.0), &survey);
        for (axis, expected) in axes(row.1) {
            let found: Vec<Value> = cells.iter().map(|cell| cell.value(axis)).collect();
            assert_eq!(found, expected, "{axis} of{}", row.0);
        }
    }
}
