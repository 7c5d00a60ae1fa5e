//! Hints on the interpretation of a live session's figures.

use bytecost_spec::live::Totals;
use bytecost_spec::{Counter, Pattern, Side, units};

use super::figures::counter;

/// Thresholds of the smoothed round-trip time that shows a stall, in µs and as a multiple of the
/// least: the timer of delayed acknowledgements is 40 ms, and memory is far quicker than either.
const STALL_US: u64 = 10_000;
const STALL_TIMES: u64 = 20;

/// Hints that the counters of this side give reason for; most are of a sender alone.
pub(super) fn hints(totals: &Totals) -> Vec<String> {
    let mut hints = Vec::new();
    if totals.session.side != Side::Receiver {
        hints.extend(stall(totals));
        if totals.congestion.starts_with("bbr") {
            hints.push(
                "the congestion control is bbr, which paces: the rate may be its choice and not what the mover can do; `--congestion reno` does not pace, and needs no root"
                    .to_owned(),
            );
        }
        let nobufs = counter(&totals.activity, Counter::Enobufs).unwrap_or(0);
        if nobufs > 0 {
            hints.push(format!(
                "{} times the kernel had no room to note another zero-copy send: raise `ulimit -l` or net.core.optmem_max",
                crate::numbers::whole(nobufs)
            ));
        }
    }
    if totals.is_cut {
        hints.push(
            "flows that did not end by themselves were cut off: the totals of the two sides differ by what was on the way".to_owned(),
        );
    }
    hints
}

fn stall(totals: &Totals) -> Option<String> {
    let rtt = counter(&totals.activity, Counter::TcpRttUs)?;
    let least = counter(&totals.activity, Counter::TcpMinRttUs)?;
    if rtt < STALL_US || rtt < least.saturating_mul(STALL_TIMES) {
        return None;
    }
    let cell = &totals.session.cell;
    let remedy = match cell.pattern {
        Pattern::RequestResponse if !cell.sends_at_once() => {
            "a small write may wait for a delayed acknowledgement: try `--nodelay on`"
        }
        Pattern::RequestResponse => {
            "something on the way waits, and it is not the sender's TCP_NODELAY"
        }
        Pattern::Stream => {
            "the receiver may be slower than the sender, or the buffers are deep: try a smaller `--socket-buffer`"
        }
    };
    Some(format!(
        "the sender was stalled: its round trips took {} µs of late and {} µs at least, which is not the cost of copying; {remedy}",
        units::number(rtt as f64),
        units::number(least as f64)
    ))
}
