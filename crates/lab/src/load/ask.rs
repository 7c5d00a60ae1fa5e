//! One request by a blocking client, for a person who wants to see the response.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use bytecost_engine::Service;
use bytecost_engine::services;

use super::client::{Client, Codec, Due};
use crate::deadline::DeadlineReader;

/// Sends one request and returns its response, whole and checked.
///
/// # Errors
/// `TimedOut` where the whole of it is not there within `timeout` of the connection; `InvalidData`
/// for a wrong answer or the server's own error.
pub fn ask(
    address: SocketAddr,
    service: &Service,
    asking: &services::ServiceSetup,
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    let socket = TcpStream::connect_timeout(&address, timeout)?;
    socket.set_nodelay(true)?;
    let mut socket = DeadlineReader::within(timeout, socket.as_fd());
    let codec = Codec::new(service, asking);
    let mut client = Client::new(0, 1);
    client.ask(Due::at(0), 1);
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    client.compose(&*codec.requester, &mut request);
    let late = |e: io::Error, received: &[u8]| {
        if e.kind() != io::ErrorKind::TimedOut {
            return e;
        }
        let what = if received.is_empty() {
            "response"
        } else {
            "whole response"
        };
        let why = format!("no {what} from {address} within {timeout:?}");
        io::Error::new(e.kind(), why + ": is it busy with other clients?")
    };
    socket.write_all(&request).map_err(|e| late(e, &answer))?;
    let mut buffer = [0; 4096];
    loop {
        let length = match socket.read(&mut buffer) {
            Ok(0) => return Err(refused(&answer)),
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(late(e, &answer)),
        };
        answer.extend_from_slice(&buffer[..length]);
        match client.receive(&codec, &buffer[..length]) {
            Ok(0) => {}
            Ok(_) => return Ok(answer),
            Err(_) => return Err(refused(&answer)),
        }
    }
}

fn refused(answer: &[u8]) -> io::Error {
    let answer = String::from_utf8_lossy(answer);
    let text = match answer.strip_prefix("error: ") {
        Some(error) => format!("the server says: {}", error.trim_end()),
        None => "the response is wrong: does the server run the same service with the same --size?"
            .to_owned(),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}
