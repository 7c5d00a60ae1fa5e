//! A row of the table of movers, and a mover at work.

use std::io;

use bytecost_spec::Held;
pub use bytecost_spec::survey::{InFlight, MoverFacts, Release, Route, WorkKind};

use crate::setup::Setup;
use crate::statement::{Requirement, Statement};
use crate::tally::Tally;

/// A row of the table of movers; it dereferences to its facts.
#[derive(Clone, Copy, Debug)]
pub struct Mover {
    /// The mover's name and properties, as surveys and plans have them.
    pub facts: MoverFacts<&'static str>,
    /// The calls by which the mover moves bytes, the places where these are copied, and its requirements.
    pub states: Statement,
    /// The mover's kind of work, with the function that opens the mover.
    pub open: Open,
}

/// The kind of a mover's work, with the function that opens it on the thread that will use it.
#[derive(Clone, Copy, Debug)]
pub enum Open {
    /// One message after the other, without pause.
    Stream(fn(Setup) -> io::Result<Box<dyn Move>>),
    /// Requests to a file.
    File(fn(Setup) -> io::Result<Box<dyn MoveFile>>),
    /// A message at each beat of a timer: the caller sleeps until a beat, and offers the message then.
    Beats {
        /// The time from one beat to the next, in ns.
        every_ns: u64,
        /// Opens the mover.
        open: fn(Setup) -> io::Result<Box<dyn Move>>,
    },
}

impl Mover {
    /// Opens the mover; `InvalidInput` for a setup that it cannot use.
    pub fn open(&self, setup: Setup) -> io::Result<Box<dyn Move>> {
        Ok(match self.open {
            Open::Stream(open) | Open::Beats { open, .. } => open(setup)?,
            Open::File(open) => open(setup)?,
        })
    }

    /// Opens a mover of files, for requests; `InvalidInput` for a mover of another kind.
    pub fn open_file(&self, setup: Setup) -> io::Result<Box<dyn MoveFile>> {
        match self.open {
            Open::File(open) => open(setup),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The mover's facts as a survey has them: those of the row, and those that its requirements imply.
    pub fn surveyed(&self) -> MoverFacts {
        let linux = self.states.needs.iter().find_map(|need| match need {
            Requirement::Linux(major, minor) => Some((*major, *minor)),
            _ => None,
        });
        MoverFacts {
            needs_linux: linux,
            uses_uring: self.states.needs.contains(&Requirement::Uring),
            ..self.facts.owned()
        }
    }

    /// The time from one beat to the next, in ns; none for a mover without beats.
    pub fn beat_ns(&self) -> Option<u64> {
        match self.open {
            Open::Beats { every_ns, .. } => Some(every_ns),
            _ => None,
        }
    }
}

// What each fact means stands in `crates/spec/src/survey/facts.rs`. A row names those in which it differs
// from the constant of its kind.
const PLAIN: MoverFacts<&str> = MoverFacts {
    name: "",
    summary: "",
    release: Release::AtReturn,
    uses_fields: false,
    route: Route::Nowhere,
    in_flight: InFlight::One,
    work: WorkKind::Memory,
    locks_rings: 0,
    descriptors_per_flow: 1,
    leaves_completions: false,
    needs_linux: None,
    uses_uring: false,
    condition: None,
    caution: None,
    caution_spares_direct: false,
};

/// Facts of a mover that sends from memory over a socket.
pub const STREAM: MoverFacts<&str> = MoverFacts {
    route: Route::MemoryToSocket,
    ..PLAIN
};

/// Facts of a mover that sends a file over a socket.
pub const FILE_SENT: MoverFacts<&str> = MoverFacts {
    route: Route::FileToSocket,
    descriptors_per_flow: 2,
    ..PLAIN
};

/// Facts of a mover that reads a file into memory.
pub const FILE_READ: MoverFacts<&str> = MoverFacts {
    route: Route::FileToMemory,
    ..PLAIN
};

/// Facts of a mover that writes a file from memory.
pub const FILE_WRITE: MoverFacts<&str> = MoverFacts {
    route: Route::MemoryToFile,
    ..PLAIN
};

/// Facts of a mover that copies a file to another file.
pub const FILE_COPY: MoverFacts<&str> = MoverFacts {
    route: Route::FileToFile,
    descriptors_per_flow: 2,
    ..PLAIN
};

/// Facts of a mover that moves a file to /dev/null.
pub const FILE_TO_NULL: MoverFacts<&str> = MoverFacts {
    route: Route::FileToNull,
    descriptors_per_flow: 2,
    ..PLAIN
};

/// Facts of a mover without descriptors: a CPU computes, or two threads take turns.
pub const WORK: MoverFacts<&str> = MoverFacts {
    route: Route::Work,
    descriptors_per_flow: 0,
    ..PLAIN
};

/// The state of a message after it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The kernel has the message, and its buffer is free again.
    Moved,
    /// The kernel has the message, but still reads its buffer.
    Held,
    /// The message waits for [`Move::flush`] or [`Move::reap`].
    Queued,
    /// The message was not accepted: [`Move::reap`] must come first.
    Full,
}

/// A thread or process that works for a mover in addition to the calling thread.
#[derive(Clone, Debug)]
pub enum Helper {
    /// A process, by its id: its CPU time counts as the mover's.
    Process(u32),
    /// A thread, with its CPUs and scheduler class once it has ended.
    Thread(Option<Held>),
}

/// A mover at work. All calls come from one thread; `TimedOut` when nothing moved for as long as
/// `Setup::patience`.
pub trait Move {
    /// Offers the next message to the kernel, all of it.
    fn offer(&mut self) -> io::Result<Offer>;

    /// Makes the kernel take all that is queued.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes back what is done: waits for at least `min` messages or buffers, if any are
    /// outstanding.
    fn reap(&mut self, _min: u32) -> io::Result<()> {
        Ok(())
    }

    /// The counts since the mover was opened.
    fn tally(&self) -> Tally;

    /// The thread or process that works in addition to the calling thread, if there is one.
    fn helper(&self) -> Option<Helper> {
        None
    }

    /// Releases pages of the file, so that the page cache can drop them. No request is in flight.
    fn let_go(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A mover of files at work. Each request uses a buffer of its own, which a number names, its *index*.
pub trait MoveFile: Move {
    /// The index of the last request that was offered.
    fn index(&self) -> usize {
        0
    }

    /// The index of a queued request that has finished, each returned once, or the request's error.
    fn finished(&mut self) -> io::Result<Option<usize>> {
        Ok(None)
    }

    /// Calls `see` with the last finished request at an index that has no new one yet: its offset in the
    /// file, and its first bytes, at most `most`.
    fn inspect(&self, _index: usize, _most: usize, _see: &mut dyn FnMut(u64, &[u8])) {}
}

/// A mover whose `step` moves and counts a whole message before it returns.
pub(crate) fn at_once(step: impl FnMut(&mut Tally) -> io::Result<()>) -> Box<impl MoveFile> {
    let tally = Tally::default();
    Box::new(AtOnce { step, tally })
}

struct AtOnce<F> {
    step: F,
    tally: Tally,
}

impl<F: FnMut(&mut Tally) -> io::Result<()>> Move for AtOnce<F> {
    fn offer(&mut self) -> io::Result<Offer> {
        (self.step)(&mut self.tally)?;
        Ok(Offer::Moved)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

impl<F: FnMut(&mut Tally) -> io::Result<()>> MoveFile for AtOnce<F> {}

/// Moves a message of `size` bytes by calls of `call`, and counts the message.
pub(crate) fn finish(
    size: usize,
    tally: &mut Tally,
    call: impl FnMut(usize, &mut Tally) -> io::Result<usize>,
) -> io::Result<()> {
    whole(size, tally, call)?;
    tally.moved(size);
    Ok(())
}

/// Repeats `call` until `size` bytes are moved, as a call may move fewer; its argument is the number of
/// bytes moved so far.
pub(crate) fn whole(
    size: usize,
    tally: &mut Tally,
    mut call: impl FnMut(usize, &mut Tally) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < size {
        tally.calls += 1;
        match call(done, tally) {
            Ok(0) => {
                let why = "the socket takes no more bytes";
                return Err(io::Error::new(io::ErrorKind::WriteZero, why));
            }
            Ok(n) => done += n,
            Err(e) => retry(e)?,
        }
    }
    Ok(())
}

/// Returns Ok for an interrupted call, which is to be made again, and otherwise the error, that of a
/// socket's timeout in words.
pub(crate) fn retry(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => Err(no_progress()),
        _ => Err(error),
    }
}

/// The error of a mover of which no byte moved before the timeout.
pub(crate) fn no_progress() -> io::Error {
    let why = "no byte moved for as long as patience lasts: does the receiver still read?";
    io::Error::new(io::ErrorKind::TimedOut, why)
}

#[cfg(test)]
mod tests {
    use bytecost_spec::survey::Condition;

    use crate::{MOVERS, SERVERS};

    #[test]
    fn a_way_that_not_everybody_can_use_has_its_conditions() {
        use Condition as C;
        let linux = C::Linux(6, 0);
        let held = C::NotWrittenUntilCompletion;
        let of_movers: [(&str, &[C]); 12] = [
            ("send", &[]),
            ("sendfile", &[]),
            ("pread", &[]),
            ("libaio", &[]),
            ("ping-futex", &[]),
            ("vmsplice", &[C::NeverWrittenAgain]),
            ("send-zerocopy", &[held]),
            ("uring-send-zc", &[held, C::Uring, linux]),
            ("mmap-touch", &[C::OneByteOfEachPage]),
            ("sendfile-null", &[C::NoDataNeeded]),
            ("uring-sqpoll", &[C::PollingCpu, C::Uring]),
            ("ping-cache-line", &[C::SpinningCpus]),
        ];
        for (name, conditions) in of_movers {
            let mover = MOVERS.iter().find(|m| m.name == name).expect(name);
            assert_eq!(mover.surveyed().conditions(), conditions, "{name}");
        }
        let of_servers: [(&str, &[C]); 7] = [
            ("epoll", &[]),
            ("pool", &[]),
            ("single", &[C::OneClientAtATime]),
            ("thread", &[C::ThreadEach]),
            ("fork", &[C::ProcessEach]),
            ("select", &[C::DescriptorsBelow(1024), C::NoneIdle]),
            ("uring", &[C::Uring, linux]),
        ];
        for (name, conditions) in of_servers {
            let server = SERVERS.iter().find(|s| s.name == name).expect(name);
            assert_eq!(server.facts.conditions(), conditions, "{name}");
        }
    }
}
