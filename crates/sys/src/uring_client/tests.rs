use super::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use rustix::net::SocketFlags;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn new_client(address: SocketAddr, lines: u32, kept: bool) -> UringClient {
    UringClient::new(address, lines, lines, [64, 64], kept).unwrap()
}

fn socket() -> OwnedFd {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    crate::tcp::socket(any, SocketFlags::empty()).unwrap()
}

/// A bound port without a listener.
fn nobody() -> (OwnedFd, SocketAddr) {
    let held = socket();
    rustix::net::bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = rustix::net::getsockname(&held).unwrap();
    (held, SocketAddr::try_from(address).unwrap())
}

fn next(client: &mut UringClient) -> ClientEvent {
    for _ in 0..600 {
        if let Some(event) = client.next_event() {
            return event;
        }
        client.exchange().unwrap();
        if !client.has_event() {
            client.wait(Duration::from_millis(100)).unwrap();
        }
    }
    panic!("there was no event");
}

fn connected(client: &mut UringClient, listener: &TcpListener, line: u32) -> TcpStream {
    client.connect(line, socket()).unwrap();
    let event = next(client);
    let is_of_line = matches!(event, ClientEvent::Connected(of, Ok(())) if of == line);
    assert!(is_of_line, "{event:?}");
    listener.accept().unwrap().0
}

fn sent(client: &mut UringClient, line: u32, bytes: &[u8]) {
    client
        .send(line, |out| out.extend_from_slice(bytes))
        .unwrap();
    let event = next(client);
    let is_of_line = matches!(event, ClientEvent::Sent(of, Ok(())) if of == line);
    assert!(is_of_line, "{event:?}");
}

/// The received bytes; none at the end of the stream.
fn received(client: &mut UringClient, line: u32) -> Option<Vec<u8>> {
    let ClientEvent::Received(answered, result) = next(client) else {
        panic!("nothing was received");
    };
    assert_eq!(answered, line);
    let piece = result.unwrap()?;
    let bytes = client.bytes(&piece).to_vec();
    client.give_back(piece);
    client.receive(line).unwrap();
    Some(bytes)
}

#[test]
fn nothing_is_reported_of_a_closed_connection() {
    for kept in [true, false] {
        let (listener, address) = listener();
        let mut client = new_client(address, 1, kept);
        let mut first = connected(&mut client, &listener, 0);
        sent(&mut client, 0, b"a");
        first.write_all(b"late").unwrap();
        // More than the socket buffers hold, so that it is still in flight.
        client.send(0, |out| out.resize(32 << 20, 1)).unwrap();
        let mut second = connected(&mut client, &listener, 0);
        sent(&mut client, 0, b"b");
        let mut got = [0];
        second.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"b");
        second.write_all(b"c").unwrap();
        assert_eq!(received(&mut client, 0), Some(b"c".to_vec()));
        // The first connection ended in the middle of the send.
        let mut all = Vec::new();
        let _ = first.read_to_end(&mut all);
        assert!(all.len() < 32 << 20);
    }
}

#[test]
fn a_refused_connection_is_reported_with_its_error() {
    let (_held, address) = nobody();
    let mut client = new_client(address, 1, true);
    client.connect(0, socket()).unwrap();
    let ClientEvent::Connected(0, Err(refused)) = next(&mut client) else {
        panic!("it is connected");
    };
    assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
    client.disconnect(0);
    let error = client.send(0, |_| ()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    for line in [1, u32::MAX] {
        assert!(client.connect(line, socket()).is_err());
        assert!(client.send(line, |_| ()).is_err());
        assert!(client.receive(line).is_err());
        client.disconnect(line);
    }
}

#[test]
fn a_line_has_one_send_at_a_time() {
    let (listener, address) = listener();
    let mut client = new_client(address, 1, true);
    let _peer = connected(&mut client, &listener, 0);
    client.send(0, |out| out.resize(32 << 20, 1)).unwrap();
    let error = client.send(0, |out| out.push(2)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn more_bytes_than_the_buffers_hold_are_received() {
    let (listener, address) = listener();
    let mut client = new_client(address, 1, true);
    let mut peer = connected(&mut client, &listener, 0);
    let all: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    peer.write_all(&all).unwrap();
    let mut got = Vec::new();
    while got.len() < all.len() {
        got.extend(received(&mut client, 0).unwrap());
    }
    assert_eq!(got, all);
}
