//! The growth of a side's connections, observed from another thread while the flows warm up.

use std::io;
use std::os::fd::OwnedFd;

use bytecost_sys::{clock, tcp};
use rustix::net::sockopt;

use crate::protocol::Role;

/// Connections that are observed: the first ones, which are like the others.
const OBSERVED: usize = 8;
/// Steps of the receive buffer are larger than this ratio, rates of slices of 5 ms seldom.
const GROWN: f64 = 1.2;

/// The observed connections of a side.
pub(super) struct Growth {
    sockets: Vec<OwnedFd>,
    role: Role,
    /// The last three readings, the latest last; none where nothing could be read.
    samples: [Option<GrowthSample>; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct GrowthSample {
    at_ns: u64,
    /// Bytes that were acknowledged or came, since the connections began.
    bytes: u64,
    /// The buffer that the kernel sizes: of a receiver SO_RCVBUF, of a sender SO_SNDBUF.
    buffer_bytes: u64,
    segments: u64,
}

impl Growth {
    /// Observes the first of these connections; none where there are none. To be dropped before the
    /// window: as long as it is there, no connection ends.
    pub(super) fn open(role: Role, sockets: &[Option<OwnedFd>]) -> io::Result<Option<Growth>> {
        let sockets: Vec<OwnedFd> = (sockets.iter().flatten().take(OBSERVED))
            .map(OwnedFd::try_clone)
            .collect::<io::Result<_>>()?;
        Ok((!sockets.is_empty()).then_some(Growth {
            sockets,
            role,
            samples: [None; 3],
        }))
    }

    /// Reads once more. Returns true if nothing has grown over the last two slices of time.
    pub(super) fn has_stopped(&mut self) -> bool {
        self.samples.rotate_left(1);
        self.samples[2] = self.sample().ok();
        match self.samples {
            [Some(first), Some(second), Some(last)] => is_steady(first, second, last),
            _ => false,
        }
    }

    fn sample(&self) -> io::Result<GrowthSample> {
        let mut sample = GrowthSample {
            at_ns: clock::monotonic_ns(),
            ..GrowthSample::default()
        };
        for socket in &self.sockets {
            let info = tcp::info(socket)?;
            let buffer = match self.role {
                Role::Receiver => sockopt::socket_recv_buffer_size(socket)?,
                _ => sockopt::socket_send_buffer_size(socket)?,
            };
            sample.bytes += info.bytes_acked + info.bytes_received;
            sample.buffer_bytes += buffer as u64;
            sample.segments += u64::from(info.cwnd_segments);
        }
        Ok(sample)
    }
}

/// Connections over which nothing came are not steady: they have not begun.
fn is_steady(first: GrowthSample, second: GrowthSample, last: GrowthSample) -> bool {
    let rate = |from: GrowthSample, to: GrowthSample| {
        to.bytes.saturating_sub(from.bytes) as f64 / to.at_ns.saturating_sub(from.at_ns) as f64
    };
    let has_grown = |before: f64, now: f64| now > GROWN * before;
    let segments = first.segments.max(second.segments);
    rate(first, second) > 0.0
        && !has_grown(first.buffer_bytes as f64, last.buffer_bytes as f64)
        && !has_grown(segments as f64, last.segments as f64)
        && !has_grown(rate(first, second), rate(second, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback_exchange;

    #[test]
    fn what_grows_in_buffer_window_or_rate_is_not_steady() {
        // Three samples 5 ms apart, each `(bytes, buffer, window)`.
        let check = |expected, samples: [(u64, u64, u64); 3], what: &str| {
            let sample = |n: usize| GrowthSample {
                at_ns: 5_000_000 * n as u64,
                bytes: samples[n].0,
                buffer_bytes: samples[n].1,
                segments: samples[n].2,
            };
            assert_eq!(
                is_steady(sample(0), sample(1), sample(2)),
                expected,
                "{what}"
            );
        };
        check(true, [(0, 9, 10), (100, 9, 12), (210, 9, 11)], "all");
        check(true, [(0, 9, 10), (100, 9, 10), (150, 9, 10)], "slower");
        check(false, [(0, 9, 10), (100, 9, 10), (230, 9, 10)], "rate");
        check(false, [(0, 9, 10), (100, 9, 10), (210, 11, 10)], "buffer");
        check(false, [(0, 9, 10), (100, 9, 11), (210, 9, 14)], "window");
        check(false, [(7, 9, 10), (7, 9, 10), (7, 9, 10)], "nothing moved");
    }

    #[test]
    fn a_connection_is_steady_once_it_has_moved_without_growing_and_none_is_not_looked_at() {
        use std::io::{Read, Write};
        let (mut sending, mut receiving) = loopback_exchange::connection().unwrap();
        let kept = [Some(OwnedFd::from(receiving.try_clone().unwrap()))];
        let mut growth = Growth::open(Role::Receiver, &kept).unwrap().unwrap();
        assert!(!growth.has_stopped(), "there is nothing to compare with");
        assert!(!growth.has_stopped());
        assert!(!growth.has_stopped(), "nothing came");
        // From now on it receives bytes at an ever lower rate, and few enough for its first buffer.
        let mut stopped = false;
        for pause_ms in [5, 10, 20, 40, 80, 160] {
            std::thread::sleep(std::time::Duration::from_millis(pause_ms));
            sending.write_all(&[1; 1000]).unwrap();
            receiving.read_exact(&mut [0; 1000]).unwrap();
            stopped |= growth.has_stopped();
        }
        assert!(stopped);
        assert!(Growth::open(Role::Sender, &[None]).unwrap().is_none());
    }
}
