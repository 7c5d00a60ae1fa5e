//! The table of movers: each row a way to send a message. A file has one of them, or a family that
//! differs in one call.
//!
//! A new mover is one file under `movers/` and two lines here: its `mod`, in alphabetical order, and its
//! row, next to those that it is compared with. CONTRIBUTING.md has a whole one.

use crate::mover::{Mover, MoverFacts};
use crate::table::table;

mod aio;
mod file_copy;
mod file_send;
mod java;
mod memcpy;
mod mmap;
mod null;
mod ping;
#[cfg(feature = "planted")]
mod planted;
mod queued;
mod send;
mod send_zerocopy;
mod sync_file;
mod uring_file;
mod uring_relay;
mod uring_send;
mod vmsplice;
mod waking;
mod work;

/// All movers, in the order of `bytecost list` and of surveys. The first shows the cost of the loop itself.
pub const MOVERS: &[Mover] = &[
    null::MOVER,
    send::SEND,
    send::SEND_FIELDS,
    send::SEND_MORE,
    send::WRITEV,
    send::SENDMSG,
    send_zerocopy::MOVER,
    file_send::SENDFILE,
    file_send::SENDFILE_CORK,
    file_send::SPLICE,
    vmsplice::MOVER,
    uring_send::COPIED,
    uring_send::ZERO_COPY,
    file_send::READ_WRITE,
    mmap::SEND,
    uring_relay::SPLICE,
    uring_relay::READ_SEND,
    java::STREAM,
    java::TRANSFER_TO,
    sync_file::READ,
    sync_file::PREAD,
    sync_file::PREADV2,
    sync_file::PREADV2_NOWAIT,
    mmap::TOUCH,
    aio::POSIX,
    aio::LIBAIO,
    uring_file::READ,
    uring_file::READ_FIXED,
    uring_file::SQPOLL,
    sync_file::WRITE,
    sync_file::WRITE_FDATASYNC,
    sync_file::PWRITE,
    sync_file::PWRITE_FDATASYNC,
    uring_file::WRITE,
    uring_file::WRITE_FDATASYNC,
    work::INTEGER,
    work::FLOAT,
    work::CHASE,
    work::TRIAD,
    work::SEQUENTIAL,
    work::RANDOM,
    ping::CACHE_LINE,
    ping::FUTEX,
    ping::PIPE,
    ping::UNIX,
    ping::TCP,
    waking::MOVER,
    waking::WITH_WORK,
    file_copy::READ_NULL,
    file_copy::SENDFILE_NULL,
    file_copy::READ_WRITE_FILE,
    file_copy::COPY_FILE_RANGE,
    file_copy::SPLICE_FILE,
    memcpy::MOVER,
    #[cfg(feature = "planted")]
    planted::SEND_1,
    #[cfg(feature = "planted")]
    planted::SEND_2,
    #[cfg(feature = "planted")]
    planted::SEND_3,
    #[cfg(feature = "planted")]
    planted::PREAD_PLUS_5,
    #[cfg(feature = "planted")]
    planted::PREAD_PLUS_25,
];

table!(Mover, MoverFacts, MOVERS);
