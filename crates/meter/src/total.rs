//! Readings of all threads of a side, combined by a rule for each counter.

use std::collections::BTreeSet;

use bytecost_spec::reading::Scope;
use bytecost_spec::{Counter, Reading, Readings};

/// The rule by which the values of several threads are combined.
#[derive(Clone, Copy)]
enum Rule {
    Sum,
    /// The mean, rounded down.
    Mean,
    Largest,
    Smallest,
    First,
}

fn rule(counter: Counter) -> Rule {
    match counter {
        Counter::ElapsedNs => Rule::Mean,
        Counter::TcpRttUs | Counter::TcpMinRttUs => Rule::Largest,
        Counter::TcpCwndSegments
        | Counter::TcpPacingRateBytesPerS
        | Counter::TcpDeliveryRateBytesPerS
        | Counter::TcpPathMtuBytes => Rule::Smallest,
        Counter::SendBufferBytes
        | Counter::ReceiveBufferBytes
        | Counter::ReceiveBufferStartBytes => Rule::First,
        _ => Rule::Sum,
    }
}

/// Combines the readings of a side's threads into the readings of the side: amounts are added, elapsed
/// times averaged, and of other values the largest, smallest or first is taken.
///
/// A counter that is absent on one thread is absent in the result, with that thread's reason. A counter
/// that some threads lack, or that counts for the whole machine, is absent with a reason of its own.
pub fn sum(threads: &[Readings]) -> Readings {
    let counters: BTreeSet<Counter> = threads.iter().flat_map(|t| t.keys().copied()).collect();
    counters
        .into_iter()
        .map(|counter| (counter, combined(threads, counter)))
        .collect()
}

/// The reading of one counter for all threads together.
fn combined(threads: &[Readings], counter: Counter) -> Reading {
    if counter.row().scope == Scope::Machine {
        return Reading::absent("a counter of the whole machine is not one of a thread");
    }
    let mut numbers = Vec::with_capacity(threads.len());
    for thread in threads {
        match thread.get(&counter) {
            Some(Reading::Measured(n)) => numbers.push(*n),
            Some(absent) => return absent.clone(),
            None => return Reading::absent("not every thread of the side has read it"),
        }
    }
    let total = || numbers.iter().copied().fold(0, u64::saturating_add);
    let value = match rule(counter) {
        Rule::Sum => Some(total()),
        Rule::Mean => total().checked_div(numbers.len() as u64),
        Rule::Largest => numbers.iter().copied().max(),
        Rule::Smallest => numbers.iter().copied().min(),
        Rule::First => numbers.first().copied(),
    };
    let none = || Reading::absent("there were no threads");
    value.map_or_else(none, Reading::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(rows: &[(Counter, u64)]) -> Readings {
        rows.iter()
            .map(|(c, n)| (*c, Reading::Measured(*n)))
            .collect()
    }

    #[test]
    fn each_counter_is_combined_by_its_rule() {
        for (counter, of_each, expected) in [
            (Counter::CpuNs, [5, 7, 9], 21),
            (Counter::ElapsedNs, [10, 20, 40], 23),
            (Counter::PerfEnabledNs, [10, 20, 40], 70),
            (Counter::PerfRunningNs, [10, 20, 40], 70),
            (Counter::TcpRttUs, [3, 9, 4], 9),
            (Counter::TcpCwndSegments, [30, 10, 40], 10),
            (Counter::SendBufferBytes, [7, 8, 9], 7),
            (Counter::Bytes, [u64::MAX, 1, 1], u64::MAX),
        ] {
            let threads = of_each.map(|n| readings(&[(counter, n)]));
            assert_eq!(sum(&threads), readings(&[(counter, expected)]));
        }
        let one = readings(&[(Counter::CpuNs, 1), (Counter::ElapsedNs, 3)]);
        assert_eq!(sum(std::slice::from_ref(&one)), one);
        assert_eq!(sum(&[]), Readings::new());
    }

    #[test]
    fn absent_on_one_thread_is_absent() {
        let has = readings(&[(Counter::CpuNs, 1), (Counter::Cycles, 2)]);
        let mut lacks = has.clone();
        lacks.insert(Counter::Cycles, Reading::absent("no counter"));
        let both = sum(&[has.clone(), lacks.clone()]);
        assert_eq!(both[&Counter::CpuNs], Reading::Measured(2));
        assert_eq!(both[&Counter::Cycles], Reading::absent("no counter"));
        lacks.remove(&Counter::Cycles);
        let why = "not every thread of the side has read it";
        assert_eq!(sum(&[lacks, has])[&Counter::Cycles], Reading::absent(why));
        let threads = [readings(&[(Counter::MachineBusyNs, 1)])];
        assert_eq!(sum(&threads)[&Counter::MachineBusyNs].measured(), None);
    }
}
