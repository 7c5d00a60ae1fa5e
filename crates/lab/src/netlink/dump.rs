//! Lists of netlink(7) as bytes: the crate for links knows no qdisc's options or filter's rules.

use std::convert::Infallible;
use std::io;

use netlink_packet_core::{NLM_F_DUMP, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable};
use rustix::net::Protocol;

use super::{converse, socket};

/// The bits of an attribute's type. The others say that it holds attributes, or its byte order.
const TYPE: u16 = 0x3fff;

/// A message of a known type with any body.
struct AnyMessage {
    kind: u16,
    body: Vec<u8>,
}

impl NetlinkSerializable for AnyMessage {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for AnyMessage {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, body: &[u8]) -> Result<AnyMessage, Infallible> {
        Ok(AnyMessage {
            kind: header.message_type,
            body: body.to_vec(),
        })
    }
}

/// Every message of the list that a request of this type asks for, without its head.
pub(crate) fn list(
    protocol: Option<Protocol>,
    request: u16,
    body: &[u8],
) -> io::Result<Vec<Vec<u8>>> {
    let asked = AnyMessage {
        kind: request,
        body: body.to_vec(),
    };
    let all = converse(&socket(protocol)?, asked, NLM_F_DUMP)?;
    Ok(all.into_iter().map(|message| message.body).collect())
}

/// Returns true if an error means that the kernel has nothing of the kind that was asked for.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        errno,
        Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::NOENT)
    )
}

/// The attributes in some bytes, with their types, as far as they are whole.
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

pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut all = attributes(bytes).into_iter();
    all.find_map(|(of, value)| (of == kind).then_some(value))
}

/// The 32 bits at an offset, in the byte order of this machine.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn long(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}

/// An attribute as the kernel writes one.
#[cfg(test)]
pub(crate) fn written(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len() as u16;
    let mut all = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

#[cfg(test)]
mod tests {
    use super::super::take;
    use super::*;

    #[test]
    fn what_is_cut_off_is_an_error_or_left_out_and_never_a_panic() {
        const NLMSG_DONE: u16 = 3;
        let mut whole = Vec::new();
        for kind in [17_u16, NLMSG_DONE] {
            whole.extend(20_u32.to_ne_bytes());
            whole.extend(kind.to_ne_bytes());
            whole.extend([0; 10]);
            whole.extend([8, 0, 1, 128]);
        }
        let taken = |bytes: &[u8]| {
            let mut found: Vec<AnyMessage> = Vec::new();
            let is_over = take(bytes, &mut found)?;
            let bodies: Vec<Vec<u8>> = found.into_iter().map(|m| m.body).collect();
            Ok::<_, io::Error>((is_over, bodies))
        };
        assert_eq!(taken(&whole).unwrap(), (true, vec![vec![8, 0, 1, 128]]));
        for length in 0..whole.len() {
            let _ = taken(&whole[..length]);
        }
        assert!(taken(&[0; 40]).is_err());
        let error = [
            20_u32.to_ne_bytes(),
            [2, 0, 0, 0],
            [0; 4],
            [0; 4],
            (-1_i32).to_ne_bytes(),
        ];
        let error = taken(error.as_flattened()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(1));
        let two = [6, 0, 1, 128, 9, 9, 0, 0, 4, 0, 2, 0];
        assert_eq!(attributes(&two), [(1, &[9, 9][..]), (2, &[][..])]);
        assert_eq!(attributes(&[9, 0, 1, 0, 5]), []);
        assert_eq!(attributes(&[0; 8]), []);
        assert_eq!((number(&[1, 2], 0), long(&[1; 7])), (None, None));
    }
}
