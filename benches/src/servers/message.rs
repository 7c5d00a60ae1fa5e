//! Requests to every server: messages that begin with the header of sockperf's, which its
//! server needs, and which the others send back like anything else.
//!
//! The header has 14 bytes in network order (`src/message.h` of sockperf 3.7): a sequence number
//! of 8 bytes, flags of 2, and the length of the whole message in 4. Of the flags, 1 says that it
//! comes from a client, which the server takes away from its answer, and 2 that an answer is
//! wanted. All else must come back as it was.

use std::sync::OnceLock;

use bytecost_engine::Service;
use bytecost_engine::services::{Requester, ServiceFacts};

use super::SIZE;

const HEADER_BYTES: usize = 14;
/// Where the flags end, in bytes.
const FLAGS_AT: usize = 9;
const FROM_CLIENT: u8 = 1;
const ANSWER_WANTED: u8 = 2;

/// `echo` with such messages, of the one size that they have.
pub fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Service {
        facts: ServiceFacts {
            sizes: Some((SIZE as u64, SIZE as u64)),
            ..super::echo().facts
        },
        requester: |_| Box::new(Messages),
        ..*super::echo()
    })
}

struct Messages;

/// One message, which is no other's.
fn message(connection: u32, number: u64) -> [u8; SIZE] {
    let mut message = [0x5a; SIZE];
    message[..8].copy_from_slice(&(number + 1).to_be_bytes());
    message[8] = 0;
    message[FLAGS_AT] = FROM_CLIENT | ANSWER_WANTED;
    message[10..HEADER_BYTES].copy_from_slice(&(SIZE as u32).to_be_bytes());
    message[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&connection.to_be_bytes());
    message
}

impl Requester for Messages {
    fn append_request(&self, connection: u32, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&message(connection, number));
    }

    fn is_right(&self, connection: u32, number: u64, at: usize, piece: &[u8]) -> bool {
        let mut expected = message(connection, number);
        if let Some(flags) = FLAGS_AT.checked_sub(at).and_then(|i| piece.get(i)) {
            // It may have been taken away, or not.
            expected[FLAGS_AT] = ANSWER_WANTED | (flags & FROM_CLIENT);
        }
        expected.get(at..at + piece.len()) == Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_differs_in_the_flag_of_the_client_alone() {
        let messages = Messages;
        let mut sent = Vec::new();
        messages.append_request(3, 7, &mut sent);
        assert_eq!(sent.len(), 64);
        assert_eq!(&sent[..14], [0, 0, 0, 0, 0, 0, 0, 8, 0, 3, 0, 0, 0, 64]);
        let check = |at: usize, change: u8, right: bool| {
            let mut got = sent.clone();
            got[at] ^= change;
            assert_eq!(messages.is_right(3, 7, 0, &got), right, "{at}");
            assert_eq!(messages.is_right(3, 7, at, &got[at..]), right, "{at}");
        };
        check(0, 0, true);
        check(FLAGS_AT, FROM_CLIENT, true);
        check(FLAGS_AT, ANSWER_WANTED, false);
        for at in [0, 7, 13, 14, 63] {
            check(at, 1, false);
        }
        assert!(!messages.is_right(3, 8, 0, &sent));
        assert!(!messages.is_right(4, 7, 0, &sent));
    }
}
