//! Reasons for which caveats withhold verdicts and amounts, in the order of the caveats.

use bytecost_analysis::CaveatKind;

/// The names of caveats, with the reason that they share.
#[rustfmt::skip] // a phrase book
const REASONS: &[(&[&str], &str)] = &[
    (&["wrong-bytes"], "some trials delivered wrong bytes"),
    (&["many-failed-trials"], "too many of its trials failed"),
    (&["stood-still"], "its flow stood still through whole windows"),
    (&["two-modes-cpu-time", "two-modes-time", "two-modes-latency"], "the trials of a cell fall into two groups that lie far apart"),
    (&["nagle-stall", "completion-waits-for-ack"], "one side waits for the timer of delayed acknowledgements, which is not the cost of copying"),
    (&["clients-limited"], "the clients may have limited the rate themselves"),
    (&["clients-busy"], "the clients were busy nearly all the time on both sides"),
    (&["listen-queue"], "the kernel's queue of new connections overflowed"),
    (&["connected-again"], "connections were tried again after 1 s or more"),
    (&["books-not-closed"], "CPU time not accounted for in these cells could reverse it"),
    (&["idle-interrupts-differ"], "interrupts on idle CPUs differ between the two, and are not known well enough to be added"),
    (&["many-failed-requests"], "too many of its requests failed"),
    (&["path-limit"], "a limit of the path sets the rate"),
    (&["tracer"], "a tracer stopped the processes at their system calls"),
    (&["quota-around"], "a CPU quota around the run stopped its threads"),
    (&["link-limited"], "the link is the limit"),
    (&["path-losses"], "the path lost packets"),
    (&["path-marks"], "the path marked packets as congested"),
    (&["busy-machine"], "other processes used the CPUs"),
    (&["pacing"], "TCP paces the sender"),
    (&["receive-window"], "the receive window limits the rate"),
    (&["same-rate"], "the rates of all are alike though their costs are not, so that something else is the bottleneck"),
    (&["receiver-bound"], "the receiver is the bottleneck"),
];

/// The reason for which a caveat withholds verdicts and amounts, as a clause.
pub(crate) fn withholding_reason(kind: CaveatKind) -> &'static str {
    reason_by_name(kind.0)
}

/// As [`withholding_reason`], of the caveat with this name; the name itself if no caveat that withholds has it.
pub(crate) fn reason_by_name(caveat: &str) -> &str {
    let mut rows = REASONS.iter();
    let row = rows.find(|(kinds, _)| kinds.contains(&caveat));
    row.map_or(caveat, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_analysis::withholding_kinds;

    #[test]
    fn each_caveat_that_withholds_has_a_reason_and_no_other_has_one() {
        let kinds = REASONS.iter().flat_map(|(kinds, _)| *kinds).copied();
        assert!(kinds.eq(withholding_kinds()));
    }
}
