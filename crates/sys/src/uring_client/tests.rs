use super::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use rustix::net::SocketFlags;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn board(address: SocketAddr, lines: u32, kept: bool) -> UringClient {
    UringClient::new(address, lines, lines, [64, 64], kept).unwrap()
}

fn socket() -> OwnedFd {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    crate::tcp::socket(any, SocketFlags::empty()).unwrap()
}

/// A port that is taken, and at which nobody listens.
fn nobody() -> (OwnedFd, SocketAddr) {
    let held = socket();
    rustix::net::bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = rustix::net::getsockname(&held).unwrap();
    let address = SocketAddr::try_from(address).unwrap();
    (held, address)
}

fn next(board: &mut UringClient) -> ClientEvent {
    for _ in 0..600 {
        if let Some(rang) = board.next_event() {
            return rang;
        }
        board.exchange().unwrap();
        if !board.has_event() {
            board.wait(Duration::from_millis(100)).unwrap();
        }
    }
    panic!("nothing was told");
}

fn connected(board: &mut UringClient, listener: &TcpListener, line: u32) -> TcpStream {
    board.connect(line, socket()).unwrap();
    let told = next(board);
    let is_it = matches!(told, ClientEvent::Connected(of, Ok(())) if of == line);
    assert!(is_it, "{told:?}");
    listener.accept().unwrap().0
}

fn sent(board: &mut UringClient, line: u32, bytes: &[u8]) {
    board
        .send(line, |out| out.extend_from_slice(bytes))
        .unwrap();
    let told = next(board);
    let is_it = matches!(told, ClientEvent::Sent(of, Ok(())) if of == line);
    assert!(is_it, "{told:?}");
}

/// What came: bytes, or none at the end.
fn received(board: &mut UringClient, line: u32) -> Option<Vec<u8>> {
    let ClientEvent::Received(told, piece) = next(board) else {
        panic!("nothing was received");
    };
    assert_eq!(told, line);
    let piece = piece.unwrap()?;
    let bytes = board.bytes(&piece).to_vec();
    board.give_back(piece);
    board.listen(line).unwrap();
    Some(bytes)
}

#[test]
fn nothing_is_told_of_a_connection_that_is_gone() {
    for kept in [true, false] {
        let (listener, address) = listener();
        let mut board = board(address, 1, kept);
        let mut first = connected(&mut board, &listener, 0);
        sent(&mut board, 0, b"a");
        first.write_all(b"late").unwrap();
        // More than the socket takes, so that it is still under way.
        board.send(0, |out| out.resize(32 << 20, 1)).unwrap();
        let mut second = connected(&mut board, &listener, 0);
        sent(&mut board, 0, b"b");
        let mut got = [0];
        second.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"b");
        second.write_all(b"c").unwrap();
        assert_eq!(received(&mut board, 0), Some(b"c".to_vec()));
        // The first one has ended, in the middle of what was being sent.
        let mut all = Vec::new();
        let _ = first.read_to_end(&mut all);
        assert!(all.len() < 32 << 20);
    }
}

#[test]
fn who_is_not_there_is_told_with_the_reason() {
    let (_held, address) = nobody();
    let mut board = board(address, 1, true);
    board.connect(0, socket()).unwrap();
    let ClientEvent::Connected(0, Err(refused)) = next(&mut board) else {
        panic!("it is connected");
    };
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
    board.hang_up(0);
    let error = board.send(0, |_| ()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    for line in [1, u32::MAX] {
        assert!(board.connect(line, socket()).is_err());
        assert!(board.send(line, |_| ()).is_err());
        assert!(board.listen(line).is_err());
        board.hang_up(line);
    }
}

#[test]
fn one_thing_is_sent_at_a_time() {
    let (listener, address) = listener();
    let mut board = board(address, 1, true);
    let _peer = connected(&mut board, &listener, 0);
    board.send(0, |out| out.resize(32 << 20, 1)).unwrap();
    let error = board.send(0, |out| out.push(2)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn more_comes_than_there_are_buffers() {
    let (listener, address) = listener();
    let mut board = board(address, 1, true);
    let mut peer = connected(&mut board, &listener, 0);
    let all: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    peer.write_all(&all).unwrap();
    let mut got = Vec::new();
    while got.len() < all.len() {
        got.extend(received(&mut board, 0).unwrap());
    }
    assert_eq!(got, all);
}
