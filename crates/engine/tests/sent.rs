//! Movers that send a file: what becomes of a file that ends too early, one that
//! cannot be spliced, and a receiver that is gone.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bytecost_engine::file::{self, Opening, TestFile};
use bytecost_engine::{BlockOrder, FileWork, MOVERS, Move, Mover, Route, Setup};
use bytecost_spec::Access;

#[path = "../../../tests/lack.rs"]
mod lack;

use lack::{Lack, skipped};

/// Bytes of a message: neither whole pages nor whole blocks.
const SIZE: u64 = 300_007;
const MESSAGES: u64 = 3;
const BLOCK: usize = 5000;

/// Those that work over a socket without TCP.
fn movers() -> impl Iterator<Item = &'static Mover> {
    let sends = |m: &&Mover| m.route == Route::FileToSocket && m.name != "sendfile-cork";
    MOVERS.iter().filter(sends)
}

/// Ready to send the file at `path` over `socket`; none where the mover cannot be had here.
fn opened(mover: &Mover, path: &Path, socket: UnixStream, size: u64) -> Option<Box<dyn Move>> {
    let file = file::open(path, Opening::default()).unwrap();
    let opened = mover.open(Setup {
        socket: Some(OwnedFd::from(socket)),
        file: Some(FileWork {
            file,
            order: BlockOrder::new(Access::Sequential, 0, MESSAGES, size, 1),
            depth: 1,
            block: BLOCK,
            target: None,
        }),
        ..Setup::new(size as usize, Duration::from_secs(60))
    });
    if let Err(e) = &opened {
        skipped(Lack::Machine, format_args!("{}: {e}", mover.name));
    }
    opened.ok()
}

/// A file of so many bytes.
fn sent(bytes: u64) -> TestFile {
    let mut file = TestFile::in_memory().unwrap();
    file.grow(bytes).unwrap();
    file
}

/// The error of the first message that fails.
fn refused(engine: &mut dyn Move) -> io::Error {
    for _ in 0..=MESSAGES {
        if let Err(e) = engine.offer() {
            return e;
        }
    }
    panic!("every message was sent");
}

#[test]
fn a_file_that_ends_before_the_message_does_is_an_error() {
    // It ends within the second message, within a page and on one, and before the first.
    for bytes in [SIZE + 4097, (SIZE + 8192) / 4096 * 4096, 0] {
        for mover in movers() {
            let file = sent(bytes);
            let (a, mut b) = UnixStream::pair().unwrap();
            let Some(mut engine) = opened(mover, &file.path(), a, SIZE) else {
                continue;
            };
            let reader = thread::spawn(move || {
                let _ = b.read_to_end(&mut Vec::new());
            });
            let why = refused(&mut *engine);
            // An error of another program has no kind, but the same text.
            let is_known = mover.is_helped() || why.kind() == io::ErrorKind::UnexpectedEof;
            assert!(is_known, "{}: {why}", mover.name);
            assert!(why.to_string().contains("truncated"), "{why}");
            drop(engine);
            reader.join().unwrap();
        }
    }
}

#[test]
fn a_file_that_cannot_be_spliced_is_told_with_what_to_do() {
    // Files of procfs that are made up as they are read have no splice.
    let path = Path::new("/proc/self/auxv");
    for name in ["sendfile", "splice", "uring-splice"] {
        let (a, _b) = UnixStream::pair().unwrap();
        let mover = Mover::named(name).unwrap();
        let Some(mut engine) = opened(mover, path, a, 16) else {
            continue;
        };
        let why = refused(&mut *engine);
        assert_eq!(why.kind(), io::ErrorKind::Unsupported, "{name}: {why}");
        for word in ["splice", "--dir", "read-write"] {
            assert!(why.to_string().contains(word), "{name}: {why}");
        }
    }
    let (a, mut b) = UnixStream::pair().unwrap();
    let read_write = Mover::named("read-write").unwrap();
    let mut engine = opened(read_write, path, a, 16).unwrap();
    engine.offer().unwrap();
    b.read_exact(&mut [0; 16]).unwrap();
}

#[test]
fn a_receiver_that_is_gone_is_an_error() {
    let file = sent(MESSAGES * SIZE);
    for mover in movers() {
        let (a, b) = UnixStream::pair().unwrap();
        let Some(mut engine) = opened(mover, &file.path(), a, SIZE) else {
            continue;
        };
        drop(b);
        let why = refused(&mut *engine);
        let expected = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        let is_known = if mover.is_helped() {
            why.to_string().contains("the other side is gone")
        } else {
            expected.contains(&why.kind())
        };
        assert!(is_known, "{}: {why}", mover.name);
    }
}
