use super::*;

#[test]
fn an_id_has_further_axes_only_where_they_are_not_at_their_default() {
    let mut cell = Cell {
        nodelay: Nodelay::Off,
        payload: Payload::Refilled,
        mtu_bytes: Some(9000),
        segment_bytes: Some(16 << 10),
        device: Device::Veth,
        class: Class::Other(10),
        cgroup: Cgroup {
            quota_percent: Some(50),
            cpuset: Some(vec![0, 2]),
            ..Cgroup::default()
        },
        ..Cell::default()
    };
    let id = "loopback/stream/send/recv/64KiB/8/1/cubic/auto/256KiB/4MiB/off/free/payload=refilled/mtu=9000/segment=16KiB/device=veth/class=other:nice=10/cgroup=max=50%+cpuset=0,2";
    assert_eq!(cell.id(), id);
    assert_eq!(Cell::from_id(id).as_ref(), Some(&cell));
    let twin = cell.other_twin();
    assert_eq!(twin.id(), format!("{id}/twin"));
    assert_eq!(twin.other_twin(), cell);
    assert_eq!(Cell::from_id(&twin.id()), Some(twin));
    assert!(!serde_json::to_string(&cell).unwrap().contains("twin"));
    let shared = cell.id_without(&[Axis::Mtu, Axis::Nodelay]);
    cell.mtu_bytes = None;
    cell.nodelay = Nodelay::On;
    assert_eq!(cell.id_without(&[Axis::Mtu, Axis::Nodelay]), shared);
    let with_wrong_ends = ["/cork=perhaps", "/x", "/twin/twin"].map(|end| format!("{id}{end}"));
    let others = ["", "loopback", &id[1..]].map(str::to_owned);
    for wrong in with_wrong_ends.iter().chain(&others) {
        assert_eq!(Cell::from_id(wrong), None, "{wrong}");
    }
}

#[test]
fn ids_are_read_and_written_unchanged() {
    // Of the built-in studies, with each value of each axis that they vary.
    for id in include_str!("ids.txt").lines() {
        assert_eq!(Cell::from_id(id).map(|c| c.id()).as_deref(), Some(id));
    }
}

#[test]
fn field_read_and_response_sizes_follow_the_message() {
    let check = |read_size, answer, expected: [u64; 3]| {
        let cell = Cell {
            read_size,
            answer,
            ..Cell::default()
        };
        let found = [cell.field_bytes(), cell.read_bytes(), cell.answer_bytes()];
        assert_eq!(found, expected);
    };
    let default = Cell::default();
    check(default.read_size, default.answer, [8192, 262_144, 64]);
    check(ReadSize::Field, Answer::Field, [8192, 8192, 8192]);
    let longer = Answer::Bytes(1 << 20);
    check(ReadSize::Message, longer, [8192, 65_536, 65_536]);
}

#[test]
fn values_are_parsed_as_they_are_printed() {
    let table = "transport: unix veth wire; pattern: request-response; mover: send-zerocopy; size: 1MiB; \
        fields: 16; threads: 8; socket-buffer: 256KiB auto; nodelay: off; \
        placement: 0,2:1,3 smt-sibling pairs; mtu: 9000 1500; segment: 16KiB 3000 auto; \
        device: veth tun; ack-bytes: 64KiB; ring: message; read-size: field message; \
        response: field 1KiB; payload: refilled; reaping: one-look; cork: on; quickack: on; \
        block: 4KiB; depth: 32; cache: cold; access: random; mem-node: 1 auto; \
        background: stream@same-cache; huge-pages: on auto; class: other:nice=-5 deadline; \
        cgroup: max=50%+cpuset=0,1 none; server: epoll none; service: top; connections: 1000; \
        idle: 10000 0; connect: new; rate: 20000 closed; think: 1500us 0; perf: on";
    let mut cell = Cell::default();
    for row in table.split("; ") {
        let (axis, values) = row.split_once(": ").unwrap();
        let axis = Axis::named(axis).expect(axis);
        for text in values.split(' ') {
            assert_eq!(cell.set(axis, text), Ok(()));
            assert_eq!(cell.value(axis), text);
        }
    }
}

#[test]
fn the_default_mtu_has_one_name() {
    for text in ["auto", "1500"] {
        assert_eq!(Axis::Mtu.read(text), Ok("1500".into()));
        let mut cell = Cell::default();
        assert_eq!(cell.set(Axis::Mtu, text), Ok(()));
        assert_eq!(cell, Cell::default());
    }
}

#[test]
fn an_error_about_a_value_has_its_bounds() {
    let table = "size 0 => from 1 byte to 4GiB
        size -4096 => not a size
        size 5GiB => from 1 byte to 4GiB
        fields 0 => from 1 to 1024
        threads 257 => from 1 to 256
        transport carrier-pigeon => choose from loopback, unix, veth, wire
        mtu 68 => from 576 to 65535
        segment 512KiB => from 576 bytes to 524280
        segment 575 => `auto`, or from 576 bytes
        segment large => not a size
        device tap => choose from tun, veth
        ack-bytes 65MiB => from 1 byte to 64MiB
        cork yes => choose from on, off
        depth 0 => from 1 to 4096
        block 65MiB => from 1 byte to 64MiB
        placement 0;1 => SENDER:RECEIVER
        placement a:b => SENDER:RECEIVER
        mem-node 1024 => from 0 to 1023
        background idle@0 => spin@smt-sibling
        huge-pages always => choose from auto, on, off
        class fifo:nice=2 => `deadline`
        cgroup max=50 => max=50% (of one CPU)
        mover  => not a name
        connections 0 => from 1 to 100000
        idle 100001 => from 0 to 100000
        connect often => choose from kept, new
        rate 0 => `closed`, or requests per second
        think 2s => from 0 to 1s";
    let mut cell = Cell::default();
    for row in table.lines() {
        let (value, needle) = row.trim().split_once(" => ").unwrap();
        let (axis, text) = value.split_once(' ').unwrap();
        let axis = Axis::named(axis).expect(axis);
        let error = cell.set(axis, text).unwrap_err().to_string();
        assert!(error.contains(needle), "{axis:?} {text}: {error}");
        assert_eq!(cell, Cell::default());
    }
}

#[test]
fn a_ring_holds_at_least_four_messages() {
    let mut cell = Cell::default();
    assert_eq!(cell.ring_slots(), 64);
    cell.size_bytes = 3 << 20;
    assert_eq!(cell.ring_slots(), 4);
    for one in [Ring::Bytes(cell.size_bytes), Ring::Message] {
        cell.ring = one;
        assert_eq!(cell.ring_slots(), 1, "exactly one was asked for");
    }
}
