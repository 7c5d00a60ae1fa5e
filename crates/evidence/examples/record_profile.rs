//! Records which functions of the kernel a CPU is found in while bytes are moved, for the fixtures
//! in `crates/evidence/tests/profiles`: `profile COUNT INNERMOST;CALLER;…`. Needs root.
//! CONTRIBUTING.md says how another kernel is booted with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use bytecost_evidence::symbols::{Symbols, plain};
use bytecost_evidence::time::EVERY_NS;
use bytecost_sys::errqueue;
use bytecost_sys::iovecs::{Iovecs, MSG_ZEROCOPY};
use bytecost_sys::region::Region;
use bytecost_sys::sampler::Sampler;
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::SendFlags;

const EACH: Duration = Duration::from_millis(1500);
/// Frames of a chain that are kept: one of the first decides.
const MOST_FRAMES: usize = 3;
/// A chain that was met less often is left out, which keeps a fixture small.
const LEAST_LOOKS: u64 = 2;
const MESSAGE: usize = 64 << 10;

type Work = fn(&AtomicBool) -> io::Result<()>;

const ALL: &[Work] = &[
    |stop| stream(stop, |mut socket, bytes| socket.write_all(bytes)),
    zero_copy,
    file_sent,
    asked,
    unix,
    datagrams,
    file_read,
    file_written,
    connections,
    memory,
];

fn main() -> io::Result<()> {
    let cpus: Vec<u32> = (0..thread::available_parallelism()?.get() as u32).collect();
    let symbols = Symbols::read(Path::new("/"))?;
    let mut chains: BTreeMap<String, u64> = BTreeMap::new();
    for work in ALL {
        record(&cpus, &symbols, *work, &mut chains)?;
    }
    for (chain, count) in chains.iter().filter(|(_, count)| **count >= LEAST_LOOKS) {
        println!("profile {count} {chain}");
    }
    Ok(())
}

fn record(
    cpus: &[u32],
    symbols: &Symbols,
    work: Work,
    chains: &mut BTreeMap<String, u64>,
) -> io::Result<()> {
    let mut sampler = Sampler::open(cpus, EVERY_NS)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let working = scope.spawn(|| work(&stop));
        sampler.enable()?;
        let began = Instant::now();
        while began.elapsed() < EACH {
            thread::sleep(Duration::from_millis(20));
            sampler.take(&mut |look| {
                if look.kernel_chain.is_empty() {
                    return;
                }
                let frames = look.kernel_chain.iter().take(MOST_FRAMES);
                let names = frames.map(|at| plain(symbols.name(*at).unwrap_or("?")));
                let chain = names.collect::<Vec<_>>().join(";");
                *chains.entry(chain).or_default() += 1;
            });
        }
        sampler.disable()?;
        stop.store(true, Ordering::Relaxed);
        ended(working)
    })
}

fn ended(thread: ScopedJoinHandle<'_, io::Result<()>>) -> io::Result<()> {
    let panicked = |_| Err(io::Error::other("it panicked"));
    thread.join().unwrap_or_else(panicked)
}

/// Somebody reads all that comes, and what does the work closes the other end.
fn while_read(
    mut receiver: impl Read + Send,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut room = vec![0; 4 * MESSAGE];
            while receiver.read(&mut room)? > 0 {}
            Ok(())
        });
        work()?;
        ended(reading)
    })
}

fn stream(
    stop: &AtomicBool,
    mut send: impl FnMut(&TcpStream, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    while_read(receiver, || {
        let message = vec![7; MESSAGE];
        while !stop.load(Ordering::Relaxed) {
            send(&sender, &message)?;
        }
        sender.shutdown(std::net::Shutdown::Write)
    })
}

fn zero_copy(stop: &AtomicBool) -> io::Result<()> {
    let slots = 16;
    let ranges: Vec<_> = (0..slots).map(|i| i * MESSAGE..(i + 1) * MESSAGE).collect();
    let mut gather = Iovecs::new(Region::new(slots * MESSAGE)?, &ranges, 1)?;
    let (mut ready, mut next) = (false, 0);
    stream(stop, |socket, _| {
        if !ready {
            errqueue::set_zerocopy(socket)?;
            ready = true;
        }
        let flags = SendFlags::NOSIGNAL | MSG_ZEROCOPY;
        let mut done = 0;
        while done < MESSAGE {
            match gather.sendmsg(socket, next % slots, done, flags) {
                Ok(n) => done += n,
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    errqueue::wait(socket, EACH)?;
                }
                Err(e) => return Err(e),
            }
            while errqueue::completion(socket)?.is_some() {}
        }
        next += 1;
        Ok(())
    })
}

fn memory_file() -> io::Result<File> {
    let file = File::from(memfd_create("profile", MemfdFlags::CLOEXEC)?);
    file.set_len(4 << 20)?;
    Ok(file)
}

fn file_sent(stop: &AtomicBool) -> io::Result<()> {
    let file = memory_file()?;
    stream(stop, |socket, _| {
        let (mut offset, mut left) = (0, 1 << 20);
        while left > 0 {
            left -= sendfile(socket, &file, Some(&mut offset), left)?;
        }
        Ok(())
    })
}

fn asked(stop: &AtomicBool) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut asker = TcpStream::connect(listener.local_addr()?)?;
    let (mut answerer, _) = listener.accept()?;
    asker.set_nodelay(true)?;
    answerer.set_nodelay(true)?;
    thread::scope(|scope| {
        let answering = scope.spawn(move || -> io::Result<()> {
            let mut message = [0; 64];
            while answerer.read(&mut message)? > 0 {
                answerer.write_all(&message)?;
            }
            Ok(())
        });
        let mut message = [7; 64];
        while !stop.load(Ordering::Relaxed) {
            asker.write_all(&message)?;
            asker.read_exact(&mut message)?;
        }
        drop(asker);
        ended(answering)
    })
}

fn unix(stop: &AtomicBool) -> io::Result<()> {
    let (mut sender, receiver) = UnixStream::pair()?;
    while_read(receiver, move || {
        while !stop.load(Ordering::Relaxed) {
            sender.write_all(&[7; 4096])?;
        }
        Ok(())
    })
}

fn datagrams(stop: &AtomicBool) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    let mut room = vec![0; MESSAGE];
    while !stop.load(Ordering::Relaxed) {
        socket.send(&room[..32_000])?;
        socket.recv(&mut room)?;
    }
    Ok(())
}

fn file_read(stop: &AtomicBool) -> io::Result<()> {
    let (file, mut room) = (memory_file()?, vec![0; MESSAGE]);
    while !stop.load(Ordering::Relaxed) {
        for slot in 0..64 {
            file.read_exact_at(&mut room, slot * MESSAGE as u64)?;
        }
    }
    Ok(())
}

fn file_written(stop: &AtomicBool) -> io::Result<()> {
    let bytes = vec![7; MESSAGE];
    while !stop.load(Ordering::Relaxed) {
        // A new one each time, so that its pages are made and freed.
        let file = memory_file()?;
        for slot in 0..64 {
            file.write_all_at(&bytes, slot * MESSAGE as u64)?;
        }
    }
    Ok(())
}

fn connections(stop: &AtomicBool) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    while !stop.load(Ordering::Relaxed) {
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        client.write_all(&[7; 64])?;
        server.read_exact(&mut [0; 64])?;
        // Who closes first keeps the port for a minute, unless it gives up the connection.
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO))?;
    }
    Ok(())
}

fn memory(stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        Region::new(MESSAGE * 16)?.bytes_mut().fill(7);
        let _: OwnedFd = memfd_create("profile", MemfdFlags::CLOEXEC)?;
    }
    Ok(())
}
