//! Programs with one pattern each that `bytecost profile` knows, the same by the other way, and one
//! that is near to it: `pattern_program NAME [COUNT]`. Tests and benches profile them.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytecost_sys::errqueue;
use rustix::event::epoll;
use rustix::fs::{OFlags, copy_file_range, sendfile};
use rustix::net::{SendFlags, send};
use rustix::pipe::{SpliceFlags, pipe, splice};

/// A program, repeated so many times.
type Program = fn(u64) -> io::Result<()>;

const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x0400_0000);
const CALL_BYTES: usize = 64 << 10;

/// Each with the repetitions that it has unless another number is given.
const PROGRAMS: &[(&str, u64, Program)] = &[
    ("file-to-socket-by-copies", 8, file_to_socket_by_copies),
    ("file-to-socket-by-sendfile", 8, file_to_socket_by_sendfile),
    ("file-to-socket-changed", 8, file_to_socket_changed),
    ("file-to-file-by-copies", 8, file_to_file_by_copies),
    ("file-to-file-in-kernel", 8, file_to_file_in_kernel),
    ("socket-to-socket-by-copies", 8, socket_to_socket_by_copies),
    ("socket-to-socket-by-splice", 8, socket_to_socket_by_splice),
    ("small-writes-in-a-row", 4000, small_writes),
    ("small-writes-gathered", 4000, gathered_writes),
    ("small-writes-by-eight", 4000, writes_by_eight),
    ("small-writes-answered", 4000, answered_writes),
    ("write-write-read-stall", 20, stalls),
    ("write-write-read-nodelay", 20, no_stalls),
    ("large-writes-answered-late", 20, late_answers),
    ("zero-copy-copied", 400, zero_copy_under_way),
    ("zero-copy-one-at-a-time", 400, zero_copy_one_at_a_time),
    ("zero-copy-of-little", 2000, zero_copy_of_little),
    ("zero-copy-not", 400, copied_sends),
    ("splice-refused", 8, splice_refused),
    ("one-event-a-wake-up", 4000, one_event),
    ("many-events-a-wake-up", 4000, many_events),
    ("small-sequential-reads", 4, small_sequential_reads),
    ("small-random-reads", 4, small_random_reads),
    ("large-sequential-reads", 4, large_sequential_reads),
    ("direct-one-at-a-time", 1, direct_reads),
    ("steady-calls", 200_000, steady_calls),
    ("sink", 1000, sinks),
];

fn main() -> io::Result<()> {
    let mut words = env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let row = PROGRAMS.iter().find(|(known, ..)| *known == name);
    let Some((_, usual, program)) = row else {
        let names = PROGRAMS.iter().map(|(known, ..)| *known);
        eprintln!("choose from {}", names.collect::<Vec<_>>().join(", "));
        std::process::exit(2);
    };
    let count = words.next().map(|count| count.parse()).transpose();
    program(count.map_err(io::Error::other)?.unwrap_or(*usual))
}

/// The length of a file: 4 MiB, unless `PATTERN_MIB` has another number.
fn file_bytes() -> usize {
    let mib = env::var("PATTERN_MIB")
        .ok()
        .and_then(|mib| mib.parse().ok());
    mib.unwrap_or(4_usize) << 20
}

/// A file in the page cache, without a name.
fn file() -> io::Result<File> {
    let path = unnamed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(&path)?;
    fs::remove_file(&path)?;
    let piece = vec![7; 1 << 20];
    (0..file_bytes() >> 20).try_for_each(|_| file.write_all(&piece))?;
    file.rewind()?;
    Ok(file)
}

fn unnamed() -> std::path::PathBuf {
    let directory = env::var_os("PATTERN_DIR").map_or_else(env::temp_dir, Into::into);
    directory.join(format!("bytecost-pattern-{}", std::process::id()))
}

fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// A thread that reads until the end.
fn sink(mut from: TcpStream) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while from.read(&mut buffer)? > 0 {}
        Ok(())
    })
}

/// Prints an address, and reads from so many connections to it, one after the other. It ends with its
/// parent.
fn sinks(count: u64) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..count {
        let (mut from, _) = listener.accept()?;
        while from.read(&mut buffer)? > 0 {}
    }
    Ok(())
}

fn joined(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let ended = thread.join();
    ended.map_err(|_| io::Error::other("a thread panicked"))?
}

/// Sends to a sink: a thread, or another process at the address in `PATTERN_SINK`, whose CPU time is
/// not the sender's.
fn sending(work: impl FnOnce(&TcpStream) -> io::Result<()>) -> io::Result<()> {
    if let Ok(address) = env::var("PATTERN_SINK") {
        let mut to = TcpStream::connect(address)?;
        to.set_nodelay(true)?;
        work(&to)?;
        to.shutdown(Shutdown::Write)?;
        // The sink closes when it has everything.
        return to.read(&mut [0]).map(drop);
    }
    let (to, from) = connection()?;
    let sink = sink(from);
    work(&to)?;
    drop(to);
    joined(sink)
}

/// Reads and writes until the end: all bytes, or a part of each read.
fn copy(mut from: impl Read, mut to: impl Write, is_whole: bool) -> io::Result<()> {
    let mut buffer = vec![0; CALL_BYTES];
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        let written = if is_whole { n } else { n - n / 3 };
        to.write_all(&buffer[..written])?;
    }
}

fn file_to_socket(count: u64, is_whole: bool) -> io::Result<()> {
    let mut file = file()?;
    sending(|to| {
        for _ in 0..count {
            file.rewind()?;
            copy(&file, to, is_whole)?;
        }
        Ok(())
    })
}

fn file_to_socket_by_copies(count: u64) -> io::Result<()> {
    file_to_socket(count, true)
}

/// As a program that compresses: another length goes out than came in.
fn file_to_socket_changed(count: u64) -> io::Result<()> {
    file_to_socket(count, false)
}

fn file_to_socket_by_sendfile(count: u64) -> io::Result<()> {
    let file = file()?;
    sending(|to| {
        for _ in 0..count {
            let mut at = 0;
            while at < file_bytes() as u64 {
                sendfile(to, &file, Some(&mut at), file_bytes())?;
            }
        }
        Ok(())
    })
}

fn file_to_file_by_copies(count: u64) -> io::Result<()> {
    let mut from = file()?;
    let mut to = file()?;
    for _ in 0..count {
        from.rewind()?;
        to.rewind()?;
        copy(&from, &to, true)?;
    }
    Ok(())
}

fn file_to_file_in_kernel(count: u64) -> io::Result<()> {
    let from = file()?;
    let to = file()?;
    for _ in 0..count {
        let mut at = 0;
        let mut there = 0;
        while at < file_bytes() as u64 {
            copy_file_range(&from, Some(&mut at), &to, Some(&mut there), file_bytes())?;
        }
    }
    Ok(())
}

/// A proxy between a source and a sink.
fn proxy(count: u64, pass: fn(&TcpStream, &TcpStream) -> io::Result<()>) -> io::Result<()> {
    let (mut source, from) = connection()?;
    let (to, end) = connection()?;
    let sink = sink(end);
    let source = thread::spawn(move || {
        let bytes = vec![7; file_bytes()];
        (0..count).try_for_each(|_| source.write_all(&bytes))
    });
    pass(&from, &to)?;
    drop(to);
    joined(source)?;
    joined(sink)
}

fn socket_to_socket_by_copies(count: u64) -> io::Result<()> {
    proxy(count, |from, to| copy(from, to, true))
}

fn socket_to_socket_by_splice(count: u64) -> io::Result<()> {
    proxy(count, |from, to| {
        let (out, into) = pipe()?;
        loop {
            let mut left = splice(from, None, &into, None, CALL_BYTES, SpliceFlags::empty())?;
            if left == 0 {
                return Ok(());
            }
            while left > 0 {
                left -= splice(&out, None, to, None, left, SpliceFlags::empty())?;
            }
        }
    })
}

fn small_writes(count: u64) -> io::Result<()> {
    sending(|mut to| (0..8 * count).try_for_each(|_| to.write_all(&[7; 100])))
}

fn gathered_writes(count: u64) -> io::Result<()> {
    sending(|mut to| (0..count / 8).try_for_each(|_| to.write_all(&[7; 6400])))
}

/// Eight pieces of memory in one call, where [`small_writes`] has a call for each.
fn writes_by_eight(count: u64) -> io::Result<()> {
    let piece = [7; 100];
    let pieces = [IoSlice::new(&piece); 8];
    sending(|mut to| {
        (0..count).try_for_each(|_| {
            let written = to.write_vectored(&pieces)?;
            // A full socket may take a part.
            let rest = vec![7; 800 - written];
            to.write_all(&rest)
        })
    })
}

/// Requests in so many writes, each answered after a time by the other end.
#[derive(Clone, Copy)]
struct Requests {
    writes: usize,
    write_bytes: usize,
    nodelay: bool,
    answered_after: Duration,
}

impl Requests {
    const SMALL: Requests = Requests {
        writes: 2,
        write_bytes: 100,
        nodelay: true,
        answered_after: Duration::ZERO,
    };

    fn run(self, count: u64) -> io::Result<()> {
        let (mut to, mut from) = connection()?;
        to.set_nodelay(self.nodelay)?;
        let answers = thread::spawn(move || {
            let mut message = vec![0; self.write_bytes * self.writes];
            (0..count).try_for_each(|_| {
                from.read_exact(&mut message)?;
                thread::sleep(self.answered_after);
                from.write_all(&[1])
            })
        });
        let bytes = vec![7; self.write_bytes];
        for _ in 0..count {
            for _ in 0..self.writes {
                to.write_all(&bytes)?;
            }
            to.read_exact(&mut [0])?;
        }
        joined(answers)
    }
}

fn answered_writes(count: u64) -> io::Result<()> {
    let requests = Requests {
        writes: 1,
        ..Requests::SMALL
    };
    requests.run(count)
}

fn stalls(count: u64) -> io::Result<()> {
    let requests = Requests {
        nodelay: false,
        ..Requests::SMALL
    };
    requests.run(count)
}

fn no_stalls(count: u64) -> io::Result<()> {
    Requests::SMALL.run(count)
}

/// An answer that takes as long as a delayed acknowledgement, to more than waits for one.
fn late_answers(count: u64) -> io::Result<()> {
    let requests = Requests {
        write_bytes: CALL_BYTES,
        answered_after: Duration::from_millis(50),
        ..Requests::SMALL
    };
    requests.run(count)
}

/// Zero-copy messages, of which so many may be under way.
fn zero_copy(count: u64, bytes: usize, most: u64) -> io::Result<()> {
    sending(|to| {
        errqueue::set_zerocopy(to)?;
        let message = vec![7; bytes];
        let mut sent = 0;
        let mut done = 0;
        while done < count {
            while sent < count && sent - done < most {
                send(to, &message, MSG_ZEROCOPY)?;
                sent += 1;
            }
            errqueue::wait(to, Duration::from_secs(1))?;
            while let Some(completion) = errqueue::completion(to)? {
                done += u64::from(completion.sends());
            }
        }
        Ok(())
    })
}

fn zero_copy_under_way(count: u64) -> io::Result<()> {
    zero_copy(count, CALL_BYTES, 8)
}

fn zero_copy_one_at_a_time(count: u64) -> io::Result<()> {
    zero_copy(count, CALL_BYTES, 1)
}

fn zero_copy_of_little(count: u64) -> io::Result<()> {
    zero_copy(count, 1000, 8)
}

fn copied_sends(count: u64) -> io::Result<()> {
    let message = vec![7; CALL_BYTES];
    sending(|mut to| (0..count).try_for_each(|_| to.write_all(&message)))
}

/// A file that is open to append to takes no splice: the program falls back to reads and writes.
fn splice_refused(count: u64) -> io::Result<()> {
    let mut from = file()?;
    let path = unnamed();
    let to = OpenOptions::new().append(true).create(true).open(&path)?;
    fs::remove_file(&path)?;
    let (out, mut into) = pipe().map(|(out, into)| (out, File::from(into)))?;
    into.write_all(&[7; 100])?;
    for _ in 0..count {
        from.rewind()?;
        if splice(&out, None, &to, None, 1, SpliceFlags::NONBLOCK).is_ok() {
            return Err(io::Error::other("the kernel took it"));
        }
        copy(&from, &to, true)?;
    }
    Ok(())
}

/// An echo by epoll: a client has so many requests under way at once, and all of them have arrived
/// before the server looks.
fn echo(count: u64, connections: usize, pause: Duration) -> io::Result<()> {
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    let set = epoll::create(epoll::CreateFlags::empty())?;
    for at in 0..connections {
        let (client, server) = connection()?;
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&set, &server, data, epoll::EventFlags::IN)?;
        clients.push(client);
        servers.push(server);
    }
    let client = thread::spawn(move || {
        for _ in 0..count {
            for client in &mut clients {
                client.write_all(&[7; 64])?;
            }
            for client in &mut clients {
                client.read_exact(&mut [0; 64])?;
            }
        }
        Ok(())
    });
    let mut events = Vec::with_capacity(connections);
    let mut answered = 0;
    while answered < count * connections as u64 {
        thread::sleep(pause);
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let server = &mut servers[event.data.u64() as usize];
            let mut message = [0; 64];
            server.read_exact(&mut message)?;
            server.write_all(&message)?;
            answered += 1;
        }
    }
    joined(client)
}

fn one_event(count: u64) -> io::Result<()> {
    echo(count, 1, Duration::ZERO)
}

fn many_events(count: u64) -> io::Result<()> {
    echo(count / 2, 16, Duration::from_micros(500))
}

fn sequential_reads(count: u64, bytes: usize) -> io::Result<()> {
    let mut file = file()?;
    let mut buffer = vec![0; bytes];
    for _ in 0..count {
        file.rewind()?;
        (0..file_bytes() / bytes).try_for_each(|_| file.read_exact(&mut buffer))?;
    }
    Ok(())
}

fn small_sequential_reads(count: u64) -> io::Result<()> {
    sequential_reads(count, 4096)
}

fn large_sequential_reads(count: u64) -> io::Result<()> {
    sequential_reads(count, CALL_BYTES)
}

fn small_random_reads(count: u64) -> io::Result<()> {
    // A step without a common divisor visits each page once, none after its neighbour.
    const STEP: u64 = 389;
    let file = file()?;
    let pages = file_bytes() as u64 / 4096;
    let mut buffer = vec![0; 4096];
    (0..count * pages).try_for_each(|at| file.read_exact_at(&mut buffer, at * STEP % pages * 4096))
}

/// Requests past the page cache.
fn direct_reads(count: u64) -> io::Result<()> {
    let path = unnamed();
    let mut written = File::create(&path)?;
    written.write_all(&vec![7; file_bytes()])?;
    written.sync_all()?;
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(OFlags::DIRECT.bits() as i32);
    let file = options.open(&path);
    fs::remove_file(&path)?;
    let mut file = file?;
    let mut room = vec![0; 2 * 4096];
    let aligned = room.as_ptr().align_offset(4096);
    let buffer = &mut room[aligned..aligned + 4096];
    for _ in 0..count {
        file.seek(SeekFrom::Start(0))?;
        (0..file_bytes() / 4096).try_for_each(|_| file.read_exact(buffer))?;
    }
    Ok(())
}

/// Small reads and writes with work between them that takes about as long as a machine of today needs
/// for 100,000 such calls a second; prints the seconds that it took.
fn steady_calls(count: u64) -> io::Result<()> {
    const WORK: u64 = 20_000;
    let mut from = File::open("/dev/zero")?;
    let mut to = OpenOptions::new().write(true).open("/dev/null")?;
    let mut buffer = [0; 512];
    let began = std::time::Instant::now();
    for _ in 0..count / 2 {
        from.read_exact(&mut buffer)?;
        (0..WORK).for_each(|step| {
            std::hint::black_box(step);
        });
        to.write_all(&buffer)?;
        (0..WORK).for_each(|step| {
            std::hint::black_box(step);
        });
    }
    println!("{}", began.elapsed().as_secs_f64());
    Ok(())
}
