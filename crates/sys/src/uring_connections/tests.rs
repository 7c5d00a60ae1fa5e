use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

fn next(ring: &mut UringConnections) -> ConnectionEvent {
    loop {
        if let Some(happened) = ring.next_event() {
            return happened;
        }
        ring.wait(None).unwrap();
    }
}

/// The next thing that came, and whether more will be taken.
fn came(ring: &mut UringConnections, of: u64) -> (io::Result<Option<Piece>>, bool) {
    match next(ring) {
        ConnectionEvent::Received(token, piece, goes_on) if token == of => (piece, goes_on),
        other => panic!("{other:?}"),
    }
}

/// Why nothing more is taken.
fn stopped(ring: &mut UringConnections) -> Option<i32> {
    let (piece, goes_on) = came(ring, 3);
    assert!(!goes_on);
    piece.unwrap_err().raw_os_error()
}

#[test]
fn a_ring_without_buffers_says_so_and_goes_on_when_it_has_some() {
    let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut ring = UringConnections::new(8, 32, 1, 4).unwrap();
    ring.receive(3, b.as_fd()).unwrap();
    a.write_all(b"12345678").unwrap();
    let held = came(&mut ring, 3).0.unwrap().unwrap();
    assert_eq!(stopped(&mut ring), Some(libc::ENOBUFS));
    assert_eq!(ring.bytes(&held), b"1234");
    ring.give_back(held);
    ring.receive(3, b.as_fd()).unwrap();
    let rest = came(&mut ring, 3).0.unwrap().unwrap();
    assert_eq!(ring.bytes(&rest), b"5678");
    ring.pause(3).unwrap();
    assert_eq!(stopped(&mut ring), Some(libc::ECANCELED));
}

#[test]
fn a_piece_of_a_ring_that_is_gone_is_of_no_other() {
    let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut piece = None;
    for text in [b"1234", b"5678"] {
        // As a rule the second has the memory of the first.
        let mut ring = UringConnections::new(8, 32, 1, 4).unwrap();
        ring.receive(3, b.as_fd()).unwrap();
        a.write_all(text).unwrap();
        let came = came(&mut ring, 3).0.unwrap().unwrap();
        assert_eq!(ring.bytes(&came), text);
        if let Some(stale) = piece.replace(came) {
            assert_eq!(ring.bytes(&stale), b"");
        }
    }
}

#[test]
fn what_is_under_way_ends_with_the_ring() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let mut ring = UringConnections::new(8, 32, 2, 64).unwrap();
    ring.accept(listener.as_fd()).unwrap();
    ring.receive(1, server.as_fd()).unwrap();
    // More than both socket buffers take, so that it is still under way.
    ring.send(1, server.as_fd(), vec![1; 64 << 20]).unwrap();
    let mut unseen = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ring.wait(None).unwrap();
    drop(ring);
    drop(server);
    // What was taken and never seen is closed, and what was being sent is cut off.
    assert!(matches!(unseen.read(&mut [0]), Ok(0) | Err(_)));
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert!(got.len() < 64 << 20);
}

#[test]
fn wrong_numbers_are_refused() {
    for (buffers, bytes) in [(3, 64), (0, 64), (1, 0), (1, usize::MAX)] {
        assert!(UringConnections::new(8, 32, buffers, bytes).is_err());
    }
}
