use super::*;

#[test]
fn an_id_names_every_axis() {
    assert_eq!(
        Cell::default().id(),
        "loopback/stream/send/recv/64KiB/8/1/cubic/auto/256KiB/4MiB/auto/free"
    );
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
    ] {
        assert_eq!(cell.set(axis, text), Ok(()));
        assert_eq!(cell.value(axis), text);
    }
}

#[test]
fn what_is_out_of_bounds_is_said_with_the_bounds() {
    let mut cell = Cell::default();
    for (axis, text, needle) in [
        (Axis::Size, "0", "from 1 byte to 64MiB"),
        (Axis::Size, "-4096", "not a size"),
        (Axis::Size, "65MiB", "from 1 byte to 64MiB"),
        (Axis::Fields, "0", "from 1 to 1024"),
        (Axis::Threads, "257", "from 1 to 256"),
        (
            Axis::Transport,
            "carrier-pigeon",
            "choose from loopback, unix",
        ),
        (Axis::Placement, "0", "SENDER:RECEIVER"),
        (Axis::Placement, "a:b", "SENDER:RECEIVER"),
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
    cell.ring_bytes = cell.size_bytes;
    assert_eq!(
        cell.ring_slots(),
        1,
        "exactly one message is what was asked for"
    );
}
