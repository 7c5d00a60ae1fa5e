//! Asynchronous reads of old: glibc's aio_read(3), and io_submit(2) with io_getevents(2).

use std::io;

use bytecost_sys::libaio::Libaio;
use bytecost_sys::posix_aio::PosixAio;
use rustix::io::Errno;

use super::queued;
use crate::mover::{FILE_READ, InFlight, Mover, MoverFacts, Open};
use crate::statement::{Each, FROM_FILE, call};

pub const POSIX: Mover = Mover {
    facts: MoverFacts {
        name: "posix-aio",
        summary: "aio_read(3) of glibc, whose threads call pread(2) in the caller's place; its calls are the library's",
        in_flight: InFlight::SeveralByThreads,
        caution: Some(
            "glibc carries out the requests to one file descriptor one after the other, so more of them in flight wait in its queue, not at the disk",
        ),
        ..FILE_READ
    },
    states: FROM_FILE.by(&[call("pread64")]),
    open: Open::File(|setup| {
        queued::reading(setup, |file, buffers| Ok(PosixAio::new(file, buffers)))
    }),
};

pub const LIBAIO: Mover = Mover {
    facts: MoverFacts {
        name: "libaio",
        summary: "io_submit(2) of an eighth of the depth at once, io_getevents(2) for at least one: the kernel's asynchronous I/O of old",
        in_flight: InFlight::Several,
        caution: Some(
            "without O_DIRECT the kernel reads within io_submit, so that nothing is asynchronous",
        ),
        caution_spares_direct: true,
        ..FILE_READ
    },
    states: FROM_FILE.by(&[
        call("io_submit").each(Each::Several),
        call("io_getevents").each(Each::Wait),
    ]),
    open: Open::File(|setup| {
        queued::reading(setup, |file, buffers| {
            Libaio::new(file, buffers).map_err(in_words)
        })
    }),
};

/// The one error of io_setup(2) that the reader can do something about.
fn in_words(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::AGAIN.raw_os_error()) {
        return error;
    }
    let why = "the limit of asynchronous requests is reached (io_setup: EAGAIN): raise fs.aio-max-nr, or choose a smaller --depth";
    io::Error::new(io::ErrorKind::QuotaExceeded, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_named() {
        let why = in_words(Errno::AGAIN.into()).to_string();
        let says = ["fs.aio-max-nr", "--depth"].map(|word| why.contains(word));
        assert_eq!(says, [true; 2], "{why}");
        let other = in_words(Errno::NOSYS.into());
        assert_eq!(other.raw_os_error(), Some(Errno::NOSYS.raw_os_error()));
    }
}
