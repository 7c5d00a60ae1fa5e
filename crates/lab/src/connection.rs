//! The kernel's account of a connection, read with the meter at the edges of the window.

use std::os::fd::OwnedFd;

use bytecost_meter::Meter;
use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::tcp::{self, TcpInfo};
use rustix::net::sockopt;

/// A meter with the connection's TCP_INFO.
pub(crate) struct ConnectionMeter<'a, M> {
    pub(crate) thread: M,
    /// The connection; none for a mover without a peer.
    pub(crate) socket: Option<&'a OwnedFd>,
    pub(crate) is_tcp: bool,
    /// SO_RCVBUF when the window opened.
    receive_buffer_from: Option<rustix::io::Result<usize>>,
}

impl<'a, M> ConnectionMeter<'a, M> {
    pub(crate) fn new(thread: M, socket: Option<&'a OwnedFd>, is_tcp: bool) -> Self {
        ConnectionMeter {
            thread,
            socket,
            is_tcp,
            receive_buffer_from: None,
        }
    }

    fn info(&self) -> Option<TcpInfo> {
        let socket = self.socket.filter(|_| self.is_tcp)?;
        tcp::info(socket).ok()
    }
}

impl<M: Meter> Meter for ConnectionMeter<'_, M> {
    type Snapshot = (M::Snapshot, Option<TcpInfo>);

    fn read_start(&mut self) -> Self::Snapshot {
        let info = self.info();
        let socket = self.socket;
        self.receive_buffer_from =
            (self.receive_buffer_from).or_else(|| socket.map(sockopt::socket_recv_buffer_size));
        (self.thread.read_start(), info)
    }

    fn read_end(&mut self) -> Self::Snapshot {
        let thread = self.thread.read_end();
        (thread, self.info())
    }

    fn difference(&self, start: &Self::Snapshot, end: &Self::Snapshot) -> Readings {
        let mut readings = self.thread.difference(&start.0, &end.0);
        readings.extend(self.connection(start.1, end.1));
        readings
    }
}

impl<M> ConnectionMeter<'_, M> {
    /// The connection's own readings, from TCP_INFO at two times.
    pub(crate) fn connection(&self, start: Option<TcpInfo>, end: Option<TcpInfo>) -> Readings {
        let mut readings = Readings::new();
        let Some(socket) = self.socket else {
            return readings;
        };
        let buffer = |size: rustix::io::Result<usize>| match size {
            Ok(bytes) => Reading::Measured(bytes as u64),
            Err(e) => Reading::absent(format!("getsockopt: {e}")),
        };
        let sends = sockopt::socket_send_buffer_size(socket);
        let receives = sockopt::socket_recv_buffer_size(socket);
        readings.insert(Counter::SendBufferBytes, buffer(sends));
        readings.insert(Counter::ReceiveBufferBytes, buffer(receives));
        let from = self.receive_buffer_from;
        readings.extend(from.map(|from| (Counter::ReceiveBufferStartBytes, buffer(from))));
        if self.is_tcp {
            readings.extend(tcp_readings(start, end));
        }
        readings
    }
}

fn tcp_readings(start: Option<TcpInfo>, end: Option<TcpInfo>) -> Readings {
    use Counter::*;
    let are_read = start.is_some() && end.is_some();
    let (from, to) = (start.unwrap_or_default(), end.unwrap_or_default());
    let added = |get: fn(&TcpInfo) -> u64| Reading::Measured(get(&to).saturating_sub(get(&from)));
    let pacing_rate = match to.pacing_rate {
        // All ones: the socket does not pace.
        u64::MAX => Reading::absent("the socket is not paced"),
        rate => Reading::Measured(rate),
    };
    let marked = match (from.delivered_marked, to.delivered_marked) {
        (Some(from), Some(to)) => Reading::Measured(to.wrapping_sub(from).into()),
        _ => Reading::absent("this kernel's TCP_INFO does not count marks (before 4.18)"),
    };
    // A counter of 32 bits, which wraps.
    let sent = to.data_segments_out.wrapping_sub(from.data_segments_out);
    let now = Reading::Measured;
    let all = [
        (TcpRttUs, now(to.rtt_us.into())),
        (TcpMinRttUs, now(to.min_rtt_us.into())),
        (TcpCwndSegments, now(to.cwnd_segments.into())),
        (TcpPacingRateBytesPerS, pacing_rate),
        (TcpDeliveryRateBytesPerS, now(to.delivery_rate)),
        (TcpBusyUs, added(|i| i.busy_us)),
        (TcpRwndLimitedUs, added(|i| i.rwnd_limited_us)),
        (TcpSndbufLimitedUs, added(|i| i.sndbuf_limited_us)),
        (TcpRetransmits, added(|i| i.retransmits.into())),
        (TcpDataSegments, now(sent.into())),
        (TcpMarkedSegments, marked),
        (TcpPathMtuBytes, now(to.path_mtu_bytes.into())),
    ];
    let unread = || Reading::absent("TCP_INFO could not be read");
    let if_read = |reading| if are_read { reading } else { unread() };
    all.map(|(counter, reading)| (counter, if_read(reading)))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_not_paced_has_no_pacing_rate() {
        let info = TcpInfo {
            pacing_rate: u64::MAX,
            busy_us: 7,
            data_segments_out: 2,
            delivered_marked: Some(5),
            path_mtu_bytes: 1420,
            ..TcpInfo::default()
        };
        let before = TcpInfo {
            busy_us: 3,
            data_segments_out: u32::MAX,
            delivered_marked: Some(1),
            path_mtu_bytes: 1500,
            ..info
        };
        let readings = tcp_readings(Some(before), Some(info));
        for (counter, expected) in [
            (Counter::TcpPacingRateBytesPerS, None),
            (Counter::TcpBusyUs, Some(4)),
            (Counter::TcpDataSegments, Some(3)),
            (Counter::TcpMarkedSegments, Some(4)),
            (Counter::TcpPathMtuBytes, Some(1420)),
        ] {
            assert_eq!(readings[&counter].measured(), expected, "{counter:?}");
        }
        let uncounted = TcpInfo {
            delivered_marked: None,
            ..info
        };
        let unmarked = tcp_readings(Some(uncounted), Some(uncounted));
        assert_eq!(unmarked[&Counter::TcpMarkedSegments].measured(), None);
        let mut unread = tcp_readings(None, Some(info)).into_values();
        assert!(unread.all(|reading| reading == Reading::absent("TCP_INFO could not be read")));
    }
}
