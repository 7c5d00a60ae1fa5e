use super::*;

#[test]
fn an_id_names_every_axis() {
    assert_eq!(
        Cell::default().id(),
        "loopback/stream/send/recv/64KiB/8/1/cubic/auto/256KiB/4MiB/auto/free"
    );
}

#[test]
fn an_id_tells_further_axes_only_where_they_matter() {
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
    assert_eq!(
        (twin.id(), twin.other_twin()),
        (format!("{id}/twin"), cell.clone())
    );
    assert_eq!(Cell::from_id(&twin.id()), Some(twin));
    assert!(!serde_json::to_string(&cell).unwrap().contains("twin"));
    let shared = cell.id_without(&[Axis::Mtu, Axis::Nodelay]);
    cell.mtu_bytes = None;
    cell.nodelay = Nodelay::On;
    assert_eq!(cell.id_without(&[Axis::Mtu, Axis::Nodelay]), shared);
    for wrong in [
        "",
        "loopback",
        &id[1..],
        &format!("{id}/cork=perhaps"),
        &format!("{id}/x"),
        &format!("{id}/twin/twin"),
    ] {
        assert_eq!(Cell::from_id(wrong), None, "{wrong}");
    }
}

#[test]
fn ids_of_older_plans_are_read_and_written_unchanged() {
    // Of the built-in studies, as version 0.1 with manifests of format 2 wrote them: with each
    // value of each axis that they vary.
    for id in include_str!("ids.txt").lines() {
        assert_eq!(Cell::from_id(id).map(|c| c.id()).as_deref(), Some(id));
    }
}

#[test]
fn fields_reads_and_answers_follow_the_message() {
    let mut cell = Cell::default();
    assert_eq!(
        (cell.field_bytes(), cell.read_bytes(), cell.answer_bytes()),
        (8192, 262_144, 64)
    );
    cell.read_size = ReadSize::Field;
    cell.answer = Answer::Field;
    assert_eq!((cell.read_bytes(), cell.answer_bytes()), (8192, 8192));
    cell.read_size = ReadSize::Message;
    cell.answer = Answer::Bytes(1 << 20);
    assert_eq!((cell.read_bytes(), cell.answer_bytes()), (65_536, 65_536));
}

#[test]
fn values_are_read_as_they_are_written() {
    let mut cell = Cell::default();
    for (axis, text) in [
        (Axis::Transport, "unix"),
        (Axis::Pattern, "ask"),
        (Axis::Mover, "send-zerocopy"),
        (Axis::Size, "1MiB"),
        (Axis::Fields, "16"),
        (Axis::Threads, "8"),
        (Axis::SocketBuffer, "256KiB"),
        (Axis::SocketBuffer, "auto"),
        (Axis::Nodelay, "off"),
        (Axis::Placement, "0,2:1,3"),
        (Axis::Transport, "veth"),
        (Axis::Mtu, "9000"),
        (Axis::Mtu, "1500"),
        (Axis::Segment, "16KiB"),
        (Axis::Segment, "3000"),
        (Axis::Segment, "auto"),
        (Axis::Device, "veth"),
        (Axis::Device, "tun"),
        (Axis::Transport, "wire"),
        (Axis::AckBytes, "64KiB"),
        (Axis::Ring, "message"),
        (Axis::ReadSize, "field"),
        (Axis::ReadSize, "message"),
        (Axis::Answer, "field"),
        (Axis::Answer, "1KiB"),
        (Axis::Payload, "refilled"),
        (Axis::Reaping, "one-look"),
        (Axis::Cork, "on"),
        (Axis::Quickack, "on"),
        (Axis::Block, "4KiB"),
        (Axis::Depth, "32"),
        (Axis::Cache, "cold"),
        (Axis::Access, "random"),
        (Axis::Placement, "smt-sibling"),
        (Axis::MemNode, "1"),
        (Axis::MemNode, "auto"),
        (Axis::Neighbour, "stream@same-cache"),
        (Axis::HugePages, "on"),
        (Axis::HugePages, "auto"),
        (Axis::Placement, "pairs"),
        (Axis::Class, "other:nice=-5"),
        (Axis::Class, "deadline"),
        (Axis::Cgroup, "max=50%+cpuset=0,1"),
        (Axis::Cgroup, "none"),
    ] {
        assert_eq!(cell.set(axis, text), Ok(()));
        assert_eq!(cell.value(axis), text);
    }
}

#[test]
fn the_usual_mtu_has_one_name() {
    for text in ["auto", "1500"] {
        assert_eq!(Axis::Mtu.read(text).as_deref(), Ok("1500"));
        let mut cell = Cell::default();
        assert_eq!(cell.set(Axis::Mtu, text), Ok(()));
        assert_eq!(cell, Cell::default());
    }
}

#[test]
fn what_is_out_of_bounds_is_said_with_the_bounds() {
    let mut cell = Cell::default();
    for (axis, text, needle) in [
        (Axis::Size, "0", "from 1 byte to 4GiB"),
        (Axis::Size, "-4096", "not a size"),
        (Axis::Size, "5GiB", "from 1 byte to 4GiB"),
        (Axis::Fields, "0", "from 1 to 1024"),
        (Axis::Threads, "257", "from 1 to 256"),
        (
            Axis::Transport,
            "carrier-pigeon",
            "choose from loopback, unix, veth, wire, wire-udp",
        ),
        (Axis::Mtu, "68", "from 576 to 65535"),
        (Axis::Segment, "512KiB", "from 576 bytes to 524280"),
        (Axis::Segment, "575", "`auto`, or from 576 bytes"),
        (Axis::Segment, "large", "not a size"),
        (Axis::Device, "tap", "choose from tun, veth"),
        (Axis::AckBytes, "65MiB", "from 1 byte to 64MiB"),
        (Axis::Cork, "yes", "choose from on, off"),
        (Axis::Depth, "0", "from 1 to 4096"),
        (Axis::Block, "65MiB", "from 1 byte to 64MiB"),
        (Axis::Placement, "0;1", "SENDER:RECEIVER"),
        (Axis::Placement, "a:b", "SENDER:RECEIVER"),
        (Axis::MemNode, "1024", "from 0 to 1023"),
        (Axis::Neighbour, "idle@0", "spin@smt-sibling"),
        (Axis::HugePages, "always", "choose from auto, on, off"),
        (Axis::Class, "fifo:nice=2", "`deadline`"),
        (Axis::Cgroup, "max=50", "max=50% (of one CPU)"),
        (Axis::Mover, "", "not a name"),
    ] {
        let before = cell.clone();
        let error = cell.set(axis, text).unwrap_err().to_string();
        assert!(error.contains(needle), "{axis:?} {text}: {error}");
        assert_eq!(cell, before);
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
        assert_eq!(
            cell.ring_slots(),
            1,
            "exactly one message is what was asked for"
        );
    }
}

#[test]
fn a_served_cell_tells_its_load_where_it_is_not_the_default() {
    let mut cell = Cell::default();
    assert!(!cell.is_served());
    let values = [
        (Axis::Server, "epoll"),
        (Axis::Service, "top"),
        (Axis::Connections, "1000"),
        (Axis::Idle, "10000"),
        (Axis::Connect, "new"),
        (Axis::Rate, "20000"),
        (Axis::Think, "1500us"),
        (Axis::Perf, "on"),
    ];
    for (axis, value) in values {
        cell.set(axis, value).unwrap();
        assert_eq!(cell.value(axis), value);
    }
    assert!(cell.is_served());
    let told = "/server=epoll/service=top/connections=1000/idle=10000/connect=new/rate=20000/think=1500us/perf=on";
    assert_eq!(cell.id(), Cell::default().id() + told);
    assert_eq!(Cell::from_id(&cell.id()).as_ref(), Some(&cell));
    for (axis, none) in [
        (Axis::Server, "none"),
        (Axis::Idle, "0"),
        (Axis::Rate, "closed"),
        (Axis::Think, "0"),
    ] {
        cell.set(axis, none).unwrap();
        assert_eq!(cell.value(axis), none);
    }
    let check = |axis, text, expected: &str| {
        let error = Cell::default().set(axis, text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(Axis::Connections, "0", "from 1 to 100000");
    check(Axis::Idle, "100001", "from 0 to 100000");
    check(Axis::Connect, "often", "choose from kept, new");
    check(Axis::Rate, "0", "`closed`, or requests per second");
    check(Axis::Think, "2s", "from 0 to 1s");
}
