//! A window in which a flow stood still, with the timer of TCP that it waited for.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use bytecost_spec::{Counter, Failure};

use crate::trial_output::TrialOutput;

/// Share of the stall that the receive window must have limited.
const LIMITED: f64 = 0.5;

/// A timer of TCP that a flow waits for.
#[derive(Clone, Copy)]
struct Timer {
    cause: &'static str,
    remedy: &'static str,
}

/// A segment is sent whole or, when this timer fires, as a probe (net/ipv4/tcp_output.c,
/// tcp_snd_wnd_test and tcp_write_wakeup).
const PERSIST: Timer = Timer {
    cause: "TCP waited for its persist timer, 200 ms or more, since the receiver's window was smaller than a segment",
    remedy: "use a larger receive buffer (--socket-buffer 4MiB), or one large field a message",
};
const RETRANSMISSION: Timer = Timer {
    cause: "TCP waited for its retransmission timer, 200 ms or more, after a segment was lost",
    remedy: "use a larger receive buffer (--socket-buffer 4MiB), or find what drops segments (nstat)",
};
const DELAYED_ACK: Timer = Timer {
    cause: "TCP waited for a delayed acknowledgement, 40 ms",
    remedy: "use several buffers in flight (--ring 4MiB)",
};

/// The wait of a flow that moved nothing in its window and used no CPU.
pub(crate) struct StalledWindow {
    /// The whole window, which stays open while the flow waits in a call.
    pub(crate) length: Duration,
    timer: Timer,
}

impl StalledWindow {
    /// Finds the timer by its counters; none where they name none, as where other programs have the CPUs.
    pub(crate) fn find(output: &TrialOutput, window: Duration) -> Option<StalledWindow> {
        Some(StalledWindow {
            length: output.stalled().unwrap_or(window).max(window),
            timer: timer(output, window)?,
        })
    }
}

impl Display for StalledWindow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (still, ms) = (Failure::STOOD_STILL, self.length.as_millis());
        let Timer { cause, remedy } = self.timer;
        write!(f, "{still} within {ms} ms: {cause}: {remedy}")
    }
}

fn timer(output: &TrialOutput, window: Duration) -> Option<Timer> {
    let sender = |counter| output.sender.side.measured(counter).unwrap_or(0);
    let network = |counter| output.machine(counter).unwrap_or(0);
    let limited = Duration::from_micros(sender(Counter::TcpRwndLimitedUs));
    if limited >= window.mul_f64(LIMITED) {
        Some(PERSIST)
    } else if sender(Counter::TcpRetransmits) > 0 || network(Counter::TcpRetransSegs) > 0 {
        Some(RETRANSMISSION)
    } else if network(Counter::TcpDelayedAcks) > 0 {
        Some(DELAYED_ACK)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::Reading;

    #[test]
    fn a_stall_is_named_by_the_timer_that_the_counters_show() {
        let named = |sender: &[(Counter, u64)], machine: &[(Counter, u64)]| {
            let mut output = TrialOutput::default();
            let measured = |(counter, n): &(Counter, u64)| (*counter, Reading::Measured(*n));
            output
                .sender
                .side
                .readings
                .extend(sender.iter().map(measured));
            output.machine.extend(machine.iter().map(measured));
            let stall = StalledWindow::find(&output, Duration::from_millis(20))?;
            assert_eq!(stall.length, Duration::from_millis(20));
            Some(stall.to_string())
        };
        let limited = [(Counter::TcpRwndLimitedUs, 16_000)];
        let check = |stall: Option<String>, words: &str| {
            let reason = stall.expect("a stall");
            assert!(reason.contains(words), "{reason}");
            assert!(reason.starts_with(Failure::STOOD_STILL), "{reason}");
        };
        let delayed = [(Counter::TcpDelayedAcks, 1)];
        check(named(&limited, &delayed), "persist timer");
        let again = [(Counter::TcpRetransSegs, 1)];
        check(named(&[], &again), "retransmission timer");
        check(named(&[], &delayed), "a delayed acknowledgement");
        assert_eq!(named(&[(Counter::TcpRwndLimitedUs, 1_000)], &[]), None);
    }
}
