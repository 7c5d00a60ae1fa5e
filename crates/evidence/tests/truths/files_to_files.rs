//! What the kernel carries into a file without memory of the user's is copied there once.

use std::fs::File;

use bytecost_spec::evidence::CopyMeans;
use bytecost_sys::pipe::Pipe;
use rustix::fs::{MemfdFlags, copy_file_range, memfd_create, sendfile};

use super::{MESSAGE_BYTES, MESSAGES, Truths, memory_file};

/// Carries a message from the same place of one file to the other.
type Carry = fn(&File, &File, u64) -> usize;

fn by_sendfile(from: &File, to: &File, mut at: u64) -> usize {
    sendfile(to, from, Some(&mut at), MESSAGE_BYTES).unwrap()
}

fn by_copy_file_range(from: &File, to: &File, at: u64) -> usize {
    let (mut at_from, mut at_to) = (at, at);
    copy_file_range(
        from,
        Some(&mut at_from),
        to,
        Some(&mut at_to),
        MESSAGE_BYTES,
    )
    .unwrap()
}

fn by_splice(from: &File, to: &File, at: u64) -> usize {
    let pipe = Pipe::new(MESSAGE_BYTES).unwrap();
    let filled = pipe.fill_from_file(from, at, MESSAGE_BYTES).unwrap();
    let mut done = 0;
    while done < filled {
        done += pipe.drain_at(to, at + done as u64, filled - done).unwrap();
    }
    filled
}

impl Truths {
    pub(super) fn files_to_files(&mut self) {
        let neither = (self.means == CopyMeans::Functions).then_some(0.0);
        let ways: [(&str, Carry); 3] = [
            ("sendfile", by_sendfile),
            ("copy_file_range", by_copy_file_range),
            ("splice through a pipe", by_splice),
        ];
        for (what, carry) in ways {
            let from = memory_file();
            let to = File::from(memfd_create("target", MemfdFlags::CLOEXEC).unwrap());
            self.begin(None);
            for i in 0..MESSAGES {
                let mut at = (i * MESSAGE_BYTES) as u64;
                let end = at + MESSAGE_BYTES as u64;
                while at < end {
                    at += carry(&from, &to, at) as u64;
                }
                assert_eq!(at, end, "{what}");
            }
            self.check(
                &format!("{what} from a memory file to another"),
                [Some(0.0), neither, Some(1.0), neither, neither],
            );
        }
    }
}
