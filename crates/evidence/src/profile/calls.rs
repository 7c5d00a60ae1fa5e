//! The table of calls that move bytes or wait: x86-64's numbers (arch/x86/entry/syscalls/
//! syscall_64.tbl) and io_uring's opcodes (linux/io_uring.h), each with its arguments.
//!
//! A new call is a row, which the BPF program is given; a new class is a case in `profile.bpf.c` as well.

/// The class of a call by its effect, as `profile.bpf.c` numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// Moves bytes from a descriptor to memory.
    Reads = 1,
    /// Moves bytes from memory to a descriptor.
    Writes = 2,
    /// Moves bytes between descriptors.
    Moves = 3,
    /// Waits for events, and returns how many there are.
    Waits = 4,
    /// Sets the position in a file.
    Seeks = 5,
    /// Ends what a number of a descriptor stood for.
    Closes = 6,
    /// Reads, and returns how many messages.
    ReadsMany = 7,
    /// Writes, and returns how many messages.
    WritesMany = 8,
    /// Moves no byte, and is counted by its name.
    Named = 9,
}

/// A row of the table. Arguments are counted from 1; 0 is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub number: u16,
    pub name: &'static str,
    pub class: Class,
    /// The argument with the descriptor that bytes come from.
    pub from: u8,
    /// The argument with the descriptor that bytes go to.
    pub to: u8,
    /// The argument with flags.
    pub flags: u8,
    /// The argument with the wanted length.
    pub length: u8,
    /// The argument with the position in the file.
    pub offset: u8,
}

impl Call {
    const fn new(number: u16, name: &'static str, class: Class) -> Call {
        Call {
            number,
            name,
            class,
            from: 0,
            to: 0,
            flags: 0,
            length: 0,
            offset: 0,
        }
    }

    const fn from(self, from: u8) -> Call {
        Call { from, ..self }
    }

    const fn to(self, to: u8) -> Call {
        Call { to, ..self }
    }

    const fn flags(self, flags: u8) -> Call {
        Call { flags, ..self }
    }

    const fn length(self, length: u8) -> Call {
        Call { length, ..self }
    }

    const fn offset(self, offset: u8) -> Call {
        Call { offset, ..self }
    }

    /// The eight bytes of `struct call`.
    pub(super) fn row(&self) -> u64 {
        let is_splice = matches!(self.name, "splice" | "tee" | "vmsplice");
        u64::from_le_bytes([
            self.class as u8,
            self.from,
            self.to,
            self.flags,
            self.length,
            self.offset,
            u8::from(is_splice),
            0,
        ])
    }
}

use Class::{Closes, Moves, Named, Reads, ReadsMany, Seeks, Waits, Writes, WritesMany};

/// System calls.
pub(super) const CALLS: &[Call] = &[
    Call::new(0, "read", Reads).from(1).length(3),
    Call::new(17, "pread64", Reads).from(1).length(3).offset(4),
    Call::new(19, "readv", Reads).from(1),
    Call::new(295, "preadv", Reads).from(1).offset(4),
    Call::new(327, "preadv2", Reads).from(1).offset(4),
    Call::new(45, "recvfrom", Reads).from(1).flags(4).length(3),
    Call::new(47, "recvmsg", Reads).from(1).flags(3),
    Call::new(299, "recvmmsg", ReadsMany).from(1).flags(4),
    Call::new(1, "write", Writes).to(1).length(3),
    Call::new(18, "pwrite64", Writes).to(1).length(3),
    Call::new(20, "writev", Writes).to(1),
    Call::new(296, "pwritev", Writes).to(1),
    Call::new(328, "pwritev2", Writes).to(1),
    Call::new(44, "sendto", Writes).to(1).flags(4).length(3),
    Call::new(46, "sendmsg", Writes).to(1).flags(3),
    Call::new(307, "sendmmsg", WritesMany).to(1).flags(4),
    Call::new(278, "vmsplice", Writes).to(1).flags(4),
    Call::new(40, "sendfile", Moves).from(2).to(1),
    Call::new(275, "splice", Moves).from(1).to(3).flags(6),
    Call::new(276, "tee", Moves).from(1).to(2).flags(4),
    Call::new(326, "copy_file_range", Moves).from(1).to(3),
    Call::new(232, "epoll_wait", Waits),
    Call::new(281, "epoll_pwait", Waits),
    Call::new(441, "epoll_pwait2", Waits),
    Call::new(7, "poll", Waits),
    Call::new(271, "ppoll", Waits),
    Call::new(23, "select", Waits),
    Call::new(270, "pselect6", Waits),
    Call::new(208, "io_getevents", Waits),
    Call::new(333, "io_pgetevents", Waits),
    Call::new(426, "io_uring_enter", Waits),
    Call::new(8, "lseek", Seeks).from(1),
    Call::new(3, "close", Closes).from(1),
    Call::new(33, "dup2", Closes).from(2),
    Call::new(292, "dup3", Closes).from(2),
    Call::new(209, "io_submit", Named),
    Call::new(2, "open", Named),
    Call::new(257, "openat", Named),
    Call::new(4, "stat", Named),
    Call::new(5, "fstat", Named),
    Call::new(262, "newfstatat", Named),
    Call::new(332, "statx", Named),
    Call::new(9, "mmap", Named),
    Call::new(11, "munmap", Named),
    Call::new(74, "fsync", Named),
    Call::new(75, "fdatasync", Named),
    Call::new(26, "msync", Named),
    Call::new(221, "fadvise64", Named),
    Call::new(285, "fallocate", Named),
    Call::new(16, "ioctl", Named),
    Call::new(42, "connect", Named),
    Call::new(43, "accept", Named),
    Call::new(288, "accept4", Named),
    Call::new(48, "shutdown", Named),
    Call::new(54, "setsockopt", Named),
    Call::new(55, "getsockopt", Named),
    Call::new(233, "epoll_ctl", Named),
    Call::new(202, "futex", Named),
    Call::new(230, "clock_nanosleep", Named),
    Call::new(35, "nanosleep", Named),
    Call::new(24, "sched_yield", Named),
    Call::new(56, "clone", Named),
    Call::new(435, "clone3", Named),
    Call::new(57, "fork", Named),
    Call::new(58, "vfork", Named),
    Call::new(59, "execve", Named),
    Call::new(61, "wait4", Named),
    Call::new(247, "waitid", Named),
];

/// Requests of io_uring.
pub(super) const REQUESTS: &[Call] = &[
    Call::new(1, "IORING_OP_READV", Reads),
    Call::new(2, "IORING_OP_WRITEV", Writes),
    Call::new(3, "IORING_OP_FSYNC", Named),
    Call::new(4, "IORING_OP_READ_FIXED", Reads),
    Call::new(5, "IORING_OP_WRITE_FIXED", Writes),
    Call::new(6, "IORING_OP_POLL_ADD", Waits),
    Call::new(9, "IORING_OP_SENDMSG", Writes),
    Call::new(10, "IORING_OP_RECVMSG", Reads),
    Call::new(11, "IORING_OP_TIMEOUT", Waits),
    Call::new(13, "IORING_OP_ACCEPT", Named),
    Call::new(16, "IORING_OP_CONNECT", Named),
    Call::new(18, "IORING_OP_OPENAT", Named),
    Call::new(19, "IORING_OP_CLOSE", Named),
    Call::new(22, "IORING_OP_READ", Reads),
    Call::new(23, "IORING_OP_WRITE", Writes),
    Call::new(26, "IORING_OP_SEND", Writes),
    Call::new(27, "IORING_OP_RECV", Reads),
    Call::new(30, "IORING_OP_SPLICE", Moves),
    Call::new(33, "IORING_OP_TEE", Moves),
    Call::new(47, "IORING_OP_SEND_ZC", Writes),
    Call::new(48, "IORING_OP_SENDMSG_ZC", Writes),
    Call::new(49, "IORING_OP_READ_MULTISHOT", Reads),
    Call::new(58, "IORING_OP_RECV_ZC", Reads),
    Call::new(60, "IORING_OP_READV_FIXED", Reads),
    Call::new(61, "IORING_OP_WRITEV_FIXED", Writes),
];

/// The name of a system call, or of a request of io_uring, by its number.
pub(super) fn name(number: u16, is_request: bool) -> String {
    let table = if is_request { REQUESTS } else { CALLS };
    match table.iter().find(|call| call.number == number) {
        Some(call) => call.name.to_owned(),
        None if is_request => format!("io_uring opcode {number}"),
        None => "other calls".to_owned(),
    }
}

/// The class of a system call or request, by its number; none without a row in the table.
pub(super) fn class(number: u16, is_request: bool) -> Option<Class> {
    let table = if is_request { REQUESTS } else { CALLS };
    let row = table.iter().find(|call| call.number == number);
    row.map(|call| call.class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_number_and_name_has_one_row() {
        for table in [CALLS, REQUESTS] {
            let numbers: BTreeSet<u16> = table.iter().map(|c| c.number).collect();
            let names: BTreeSet<&str> = table.iter().map(|c| c.name).collect();
            assert_eq!(numbers.len(), table.len());
            assert_eq!(names.len(), table.len());
        }
        // The last number stands for all calls without a row.
        assert!(CALLS.iter().all(|c| c.number < 511));
    }

    #[test]
    fn a_row_has_the_bytes_of_the_struct_in_the_program() {
        let splice = CALLS.iter().find(|c| c.name == "splice").unwrap();
        assert_eq!(splice.row().to_le_bytes(), [3, 1, 3, 6, 0, 0, 1, 0]);
    }
}
