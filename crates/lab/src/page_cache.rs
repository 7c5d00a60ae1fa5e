//! Makes a file cold, also where the network still holds pages of it.
//!
//! A socket that sends a file refers to its pages, which cannot be dropped until the packets are
//! freed. A packet that another CPU has read waits on a list of the CPU that made it, of at most 64
//! (net.core.skb_defer_max), until that one takes packets in: perhaps never. Source:
//! skb_attempt_defer_free and net_rx_action, net/core/skbuff.c and net/core/dev.c since Linux 5.19.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use bytecost_engine::file;
use bytecost_sys::{clock, process};

use crate::deadline::after;
use crate::limits;

/// The time between two attempts: a receiver may still be reading.
const PAUSE: Duration = Duration::from_millis(1);

/// Drops a piece of a file from the page cache, and checks that; tries for `timeout` while sockets hold
/// pages: [`file::cool`] answers `Unsupported` as long as pages stay, and so does this after `timeout`.
pub(crate) fn cool(file: impl AsFd, offset: u64, len: u64, timeout: Duration) -> io::Result<()> {
    let until_ns = after(timeout);
    loop {
        match file::cool(&file, offset, len) {
            Err(e)
                if e.kind() == io::ErrorKind::Unsupported && clock::monotonic_ns() < until_ns =>
            {
                free_packets();
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Makes each CPU that this thread may use take packets in, which frees those that wait. In a thread of its
/// own, so that the caller's affinity stays as it is.
fn free_packets() {
    let Ok(cpus) = process::affinity() else {
        return;
    };
    thread::scope(|scope| {
        // Without a thread packets that wait are freed later.
        let _ = limits::start(scope, || {
            for cpu in cpus {
                let _ = process::set_affinity(&[cpu]).and_then(|()| send_to_self());
            }
        });
    });
}

/// Sends a packet over loopback to a socket of its own: the kernel of this CPU takes it in (net_rx_action).
/// Nobody needs to read it.
fn send_to_self() -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.send_to(&[], socket.local_addr()?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback_exchange;
    use bytecost_engine::file::TestFile;
    use bytecost_sys::file_map::resident_pages;
    use std::net::TcpStream;
    use std::time::Instant;

    fn sent(file: &TestFile) -> (TcpStream, TcpStream) {
        let (sender, mut taker) = loopback_exchange::connection().unwrap();
        let len = file.len();
        let reader = thread::spawn(move || {
            let mut left = vec![0; len as usize];
            io::Read::read_exact(&mut taker, &mut left).unwrap();
            taker
        });
        let mut offset = 0;
        while offset < len {
            let left = (len - offset) as usize;
            rustix::fs::sendfile(&sender, file, Some(&mut offset), left).unwrap();
        }
        (sender, reader.join().unwrap())
    }

    #[test]
    fn a_file_that_was_sent_a_moment_ago_is_cold_all_the_same() {
        let mut file = TestFile::in_dir(env!("CARGO_MANIFEST_DIR").as_ref()).unwrap();
        file.grow(4 << 20).unwrap();
        for _ in 0..5 {
            let connection = sent(&file);
            cool(&file, 0, file.len(), Duration::from_secs(60)).unwrap();
            let (resident, pages) = resident_pages(&file, 0, file.len()).unwrap();
            assert!(resident * 100 <= pages, "{resident} of {pages}");
            drop(connection);
        }
    }

    #[test]
    fn a_file_that_is_never_cold_is_an_error_after_its_patience() {
        let mut file = TestFile::in_memory().unwrap();
        file.grow(1 << 16).unwrap();
        let began = Instant::now();
        let why = cool(&file, 0, file.len(), Duration::from_millis(30)).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::Unsupported);
        assert!(began.elapsed() >= Duration::from_millis(30));
    }
}
