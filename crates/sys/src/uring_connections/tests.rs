use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

fn next(ring: &mut UringConnections) -> ConnectionEvent {
    loop {
        if let Some(event) = ring.next_event() {
            return event;
        }
        ring.wait(None).unwrap();
    }
}

/// The next piece of a token, and true if more will be received.
fn received(ring: &mut UringConnections, of: u64) -> (io::Result<Option<Piece>>, bool) {
    match next(ring) {
        ConnectionEvent::Received {
            token,
            piece,
            has_more,
        } if token == of => (piece, has_more),
        other => panic!("{other:?}"),
    }
}

/// The error that ended a multishot receive.
fn stopped(ring: &mut UringConnections) -> Option<i32> {
    let (piece, more) = received(ring, 3);
    assert!(!more);
    piece.unwrap_err().raw_os_error()
}

#[test]
fn a_ring_without_free_buffers_reports_it_and_continues_with_one() {
    let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut ring = UringConnections::new(8, 32, 1, 4).unwrap();
    ring.receive(3, b.as_fd()).unwrap();
    a.write_all(b"12345678").unwrap();
    let held = received(&mut ring, 3).0.unwrap().unwrap();
    assert_eq!(stopped(&mut ring), Some(libc::ENOBUFS));
    assert_eq!(ring.bytes(&held), b"1234");
    ring.give_back(held);
    ring.receive(3, b.as_fd()).unwrap();
    let rest = received(&mut ring, 3).0.unwrap().unwrap();
    assert_eq!(ring.bytes(&rest), b"5678");
    ring.pause(3).unwrap();
    assert_eq!(stopped(&mut ring), Some(libc::ECANCELED));
}

#[test]
fn a_piece_of_a_dropped_ring_has_no_bytes_in_another() {
    let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut piece = None;
    for text in [b"1234", b"5678"] {
        // The second ring usually gets the memory of the first.
        let mut ring = UringConnections::new(8, 32, 1, 4).unwrap();
        ring.receive(3, b.as_fd()).unwrap();
        a.write_all(text).unwrap();
        let latest = received(&mut ring, 3).0.unwrap().unwrap();
        assert_eq!(ring.bytes(&latest), text);
        if let Some(stale) = piece.replace(latest) {
            assert_eq!(ring.bytes(&stale), b"");
        }
    }
}

#[test]
fn requests_in_flight_end_with_the_ring() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let mut ring = UringConnections::new(8, 32, 2, 64).unwrap();
    ring.accept(listener.as_fd()).unwrap();
    ring.receive(1, server.as_fd()).unwrap();
    // More than both socket buffers hold, so that it is still in flight.
    ring.send(1, server.as_fd(), vec![1; 64 << 20]).unwrap();
    let mut unseen = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ring.wait(None).unwrap();
    drop(ring);
    drop(server);
    // A connection that was accepted and never reported is closed, and the send is cut off.
    assert!(matches!(unseen.read(&mut [0]), Ok(0) | Err(_)));
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert!(got.len() < 64 << 20);
}

#[test]
fn invalid_numbers_are_refused() {
    for (buffers, bytes) in [(3, 64), (0, 64), (1, 0), (1, usize::MAX)] {
        assert!(UringConnections::new(8, 32, buffers, bytes).is_err());
    }
}
