//! `libaio`: io_submit(2) and io_getevents(2).

use std::io;

use bytecost_sys::libaio::Libaio;
use rustix::io::Errno;

use super::queued;
use crate::mover::{FILE_READ, InFlight, MoveFile, Mover, MoverFacts, Open};
use crate::setup::Setup;
use crate::statement::{Each, FROM_FILE, call};

pub const MOVER: Mover = Mover {
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
    open: Open::File(open),
};

fn open(setup: Setup) -> io::Result<Box<dyn MoveFile>> {
    queued::reading(setup, |file, places| {
        Libaio::new(file, places).map_err(in_words)
    })
}

/// The one error of io_setup(2) that the reader can do something about.
fn in_words(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::AGAIN.raw_os_error()) {
        return error;
    }
    io::Error::new(
        io::ErrorKind::QuotaExceeded,
        "the limit of asynchronous requests is reached (io_setup: EAGAIN): raise fs.aio-max-nr, or choose a smaller --depth",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_reached_is_named() {
        let why = in_words(Errno::AGAIN.into()).to_string();
        assert!(
            why.contains("fs.aio-max-nr") && why.contains("--depth"),
            "{why}"
        );
        let other = in_words(Errno::NOSYS.into());
        assert_eq!(other.raw_os_error(), Some(Errno::NOSYS.raw_os_error()));
    }
}
