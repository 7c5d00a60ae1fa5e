//! Lists that the kernel gives by netlink(7) about the network of the calling thread, as bytes: the
//! options of a queueing discipline and the rules of a packet filter are no business of the crate
//! that knows links.

use std::io;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with,
};

use crate::socket::set_patience;

/// How long the kernel may take for a part of its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The kernel makes no part larger than this.
const MOST_BYTES: usize = 32 << 10;
/// Parts that are read; a list that is longer is an error, not cut short.
const MOST_PARTS: usize = 4096;
/// Bytes of `struct nlmsghdr`.
const HEAD_BYTES: usize = 16;
/// NLM_F_REQUEST and NLM_F_DUMP.
const FLAGS: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Whether an attribute holds others, and how its number is written, are no part of its type.
const TYPE: u16 = 0x3fff;

/// Every message of the list that a request of this type asks for, without its head.
///
/// # Errors
/// What the kernel answers: EPERM without the rights, EINVAL for a part of it that is not there.
pub(crate) fn list(
    protocol: Option<Protocol>,
    request: u16,
    body: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    set_patience(&socket, PATIENCE)?;
    let length = (HEAD_BYTES + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(request.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    // The socket is new, so that its first number serves, and the kernel sets the sender's.
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    sendto(
        &socket,
        &message,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut found = Vec::new();
    let mut buffer = vec![0; MOST_BYTES];
    for _ in 0..MOST_PARTS {
        let length = rustix::io::read(&socket, &mut buffer[..])?;
        if take(&buffer[..length], &mut found)? {
            return Ok(found);
        }
    }
    Err(io::Error::other("the kernel did not end its list"))
}

/// Adds the messages of one part; whether the list ends with it.
fn take(mut part: &[u8], found: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let cut = || io::Error::from(io::ErrorKind::InvalidData);
    while !part.is_empty() {
        let length = number(part, 0).ok_or_else(cut)? as usize;
        let body = part.get(HEAD_BYTES..length).ok_or_else(cut)?;
        match u16::from_ne_bytes([part[4], part[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = number(body, 0).ok_or_else(cut)? as i32;
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            _ => found.push(body.to_vec()),
        }
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The attributes that follow each other in some bytes, each with its type, as far as they are
/// whole.
pub(crate) fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let [a, b, c, d, ..] = *bytes {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        all.push((u16::from_ne_bytes([c, d]) & TYPE, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// The first attribute of a type.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut all = attributes(bytes).into_iter();
    all.find_map(|(of, value)| (of == kind).then_some(value))
}

/// The 32 bits at a place, in the order of this machine.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The 64 bits of an attribute.
pub(crate) fn long(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_an_error_or_left_out_and_never_a_panic() {
        let mut whole = Vec::new();
        for kind in [7_u16, NLMSG_DONE] {
            whole.extend(20_u32.to_ne_bytes());
            whole.extend(kind.to_ne_bytes());
            whole.extend([0; 10]);
            whole.extend([8, 0, 1, 128]);
        }
        let mut found = Vec::new();
        assert!(take(&whole, &mut found).unwrap());
        assert_eq!(found, [[8, 0, 1, 128]]);
        for length in 0..whole.len() {
            let _ = take(&whole[..length], &mut Vec::new());
        }
        assert!(take(&[0; 40], &mut Vec::new()).is_err());
        let error = [
            20_u32.to_ne_bytes(),
            [2, 0, 0, 0],
            [0; 4],
            [0; 4],
            (-1_i32).to_ne_bytes(),
        ];
        let error = take(error.as_flattened(), &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(1));
        let two = [6, 0, 1, 128, 9, 9, 0, 0, 4, 0, 2, 0];
        assert_eq!(attributes(&two), [(1, &[9, 9][..]), (2, &[][..])]);
        assert_eq!(attributes(&[9, 0, 1, 0, 5]), []);
        assert_eq!(attributes(&[0; 8]), []);
        assert_eq!((number(&[1, 2], 0), long(&[1; 7])), (None, None));
    }
}
