//! The table of movers: each row a way to send a message, each in a file of its own.
//!
//! A new mover is one file under `movers/` and two lines here: its `mod` and its row.

use crate::mover::Mover;

mod copy_file_range;
mod copying;
mod java;
mod libaio;
mod memcpy;
mod mmap_send;
mod mmap_touch;
mod null;
mod ping;
#[cfg(feature = "planted")]
mod planted;
mod posix_aio;
mod pread;
mod preadv2;
mod preadv2_nowait;
mod pwrite;
mod queued;
mod read;
mod read_null;
mod read_write;
mod read_write_file;
mod reading;
mod relay;
mod send;
mod send_fields;
mod send_more;
mod send_zerocopy;
mod sendfile;
mod sendfile_cork;
mod sendfile_null;
mod sendmsg;
mod sent_file;
mod splice;
mod splice_file;
mod uring_read;
mod uring_read_fixed;
mod uring_read_send;
mod uring_send;
mod uring_send_zc;
mod uring_splice;
mod uring_sqpoll;
mod uring_write;
mod vmsplice;
mod waking;
mod work;
mod write;
mod writev;
mod writing;

/// All movers, in the order of the documentation. The first says what the loop itself costs.
pub const MOVERS: &[Mover] = &[
    null::MOVER,
    send::MOVER,
    send_fields::MOVER,
    send_more::MOVER,
    writev::MOVER,
    sendmsg::MOVER,
    send_zerocopy::MOVER,
    sendfile::MOVER,
    sendfile_cork::MOVER,
    splice::MOVER,
    vmsplice::MOVER,
    uring_send::MOVER,
    uring_send_zc::MOVER,
    read_write::MOVER,
    mmap_send::MOVER,
    uring_splice::MOVER,
    uring_read_send::MOVER,
    java::STREAM,
    java::TRANSFER_TO,
    read::MOVER,
    pread::MOVER,
    preadv2::MOVER,
    preadv2_nowait::MOVER,
    mmap_touch::MOVER,
    posix_aio::MOVER,
    libaio::MOVER,
    uring_read::MOVER,
    uring_read_fixed::MOVER,
    uring_sqpoll::MOVER,
    write::MOVER,
    write::WITH_FDATASYNC,
    pwrite::MOVER,
    pwrite::WITH_FDATASYNC,
    uring_write::MOVER,
    uring_write::WITH_FDATASYNC,
    work::INTEGER,
    work::FLOAT,
    work::CHASE,
    work::TRIAD,
    work::SEQUENTIAL,
    work::BACKWARD,
    work::STRIDED,
    work::RANDOM,
    ping::CACHE_LINE,
    ping::FUTEX,
    ping::PIPE,
    ping::UNIX,
    ping::TCP,
    waking::MOVER,
    waking::WITH_WORK,
    read_null::MOVER,
    sendfile_null::MOVER,
    read_write_file::MOVER,
    copy_file_range::MOVER,
    splice_file::MOVER,
    memcpy::MOVER,
    #[cfg(feature = "planted")]
    planted::SEND_1,
    #[cfg(feature = "planted")]
    planted::SEND_2,
    #[cfg(feature = "planted")]
    planted::SEND_3,
    #[cfg(feature = "planted")]
    planted::PREAD_PLUS_5,
];

impl Mover {
    /// The row of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Mover> {
        MOVERS.iter().find(|m| m.name == name)
    }
}
