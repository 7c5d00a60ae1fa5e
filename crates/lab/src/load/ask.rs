//! One question, asked by a blocking client: for a person who wants the answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytecost_engine::Service;
use bytecost_engine::services::{self, Framing, MOST_ANSWER_BYTES};

/// Asks once and gives the answer, whole and checked.
///
/// # Errors
/// What the system calls answer; `TimedOut` when no answer came within `patience` a read;
/// `InvalidData` for an answer that is wrong, with the error that the server told if it did.
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
    let question = (service.question)(asking);
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    question.ask(0, 0, &mut request);
    socket.write_all(&request)?;
    let framing = (service.answer)(asking.size);
    let mut buffer = [0; 4096];
    while !is_whole(framing, &answer) {
        let length = match socket.read(&mut buffer) {
            Ok(0) => return Err(refused(&answer)),
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "no response from {address} within {patience:?}: is it busy with other clients?"
                    ),
                ));
            }
            Err(e) => return Err(e),
        };
        answer.extend_from_slice(&buffer[..length]);
        if answer.len() > MOST_ANSWER_BYTES {
            return Err(refused(&answer));
        }
    }
    if question.is_right(0, 0, 0, &answer) {
        Ok(answer)
    } else {
        Err(refused(&answer))
    }
}

fn is_whole(framing: Framing, answer: &[u8]) -> bool {
    match framing {
        Framing::Line => answer.last() == Some(&b'\n'),
        Framing::Size(size) => answer.len() >= size,
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
