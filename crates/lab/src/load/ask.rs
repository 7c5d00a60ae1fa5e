//! One question, asked by a blocking client: for a person who wants the answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytecost_engine::Service;
use bytecost_engine::services;

use super::client::{Client, Due, Tongue};

/// Asks once and gives the answer, whole and checked.
///
/// # Errors
/// `TimedOut` after `patience` a read; `InvalidData` for a wrong answer or the server's own error.
pub fn ask(
    address: SocketAddr,
    service: &Service,
    asking: &services::ServiceSetup,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect_timeout(&address, patience)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    let tongue = Tongue {
        question: (service.question)(asking),
        framing: (service.answer)(asking.size),
    };
    let mut client = Client::new(0, 1);
    client.ask(Due::at(0), 1);
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    client.compose(&*tongue.question, &mut request);
    socket.write_all(&request)?;
    let mut buffer = [0; 4096];
    loop {
        let length = match socket.read(&mut buffer) {
            Ok(0) => return Err(refused(&answer)),
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let why = format!("no response from {address} within {patience:?}");
                let why = why + ": is it busy with other clients?";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(e) => return Err(e),
        };
        answer.extend_from_slice(&buffer[..length]);
        match client.hear(&tongue, &buffer[..length]) {
            Ok(0) => {}
            Ok(_) => return Ok(answer),
            Err(_) => return Err(refused(&answer)),
        }
    }
}

fn refused(answer: &[u8]) -> io::Error {
    let said = String::from_utf8_lossy(answer);
    let text = match said.strip_prefix("error: ") {
        Some(error) => format!("the server says: {}", error.trim_end()),
        None => "the response is wrong: does the server run the same service with the same --size?"
            .to_owned(),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}
