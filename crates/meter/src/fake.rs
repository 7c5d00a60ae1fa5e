//! A meter that counts what it is told to, for tests of whatever holds a meter.

use std::collections::BTreeMap;

use bytecost_spec::reading::COUNTERS;
use bytecost_spec::{Counter, Reading, Readings, Refusal};

use crate::Meter;

/// A deterministic [`Meter`]: each read advances its counters by the next step of a script, which
/// begins again when it is used up.
///
/// ```
/// use bytecost_meter::{FakeMeter, Meter};
/// use bytecost_spec::{Counter, Reading};
/// let mut meter = FakeMeter::new(&[&[(Counter::ElapsedNs, 100)], &[(Counter::ElapsedNs, 50)]])
///     .lacking(Counter::Cycles, "no such counter here");
/// let start = meter.read_start(); // first step
/// let end = meter.read_end(); // second step
/// let readings = meter.difference(&start, &end);
/// assert_eq!(readings[&Counter::ElapsedNs], Reading::Measured(50));
/// assert_eq!(readings[&Counter::Cycles], Reading::absent("no such counter here"));
/// ```
#[derive(Clone, Debug)]
pub struct FakeMeter {
    script: Vec<Vec<(Counter, u64)>>,
    lacking: BTreeMap<Counter, String>,
    reads: usize,
    now: FakeSnapshot,
}

/// What a [`FakeMeter`] had counted at a read: one number for each row of [`COUNTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeSnapshot {
    values: [u64; COUNTERS.len()],
}

impl FakeMeter {
    /// A meter whose `n`-th read adds the increments of `script[n % script.len()]`. It reads the
    /// counters that the script names anywhere; an empty script reads nothing.
    #[must_use]
    pub fn new(script: &[&[(Counter, u64)]]) -> FakeMeter {
        FakeMeter {
            script: script.iter().map(|step| step.to_vec()).collect(),
            lacking: BTreeMap::new(),
            reads: 0,
            now: FakeSnapshot {
                values: [0; COUNTERS.len()],
            },
        }
    }

    /// Makes a counter one that cannot be had, for the reason `why`, whatever the script says.
    #[must_use]
    pub fn lacking(mut self, counter: Counter, why: &str) -> FakeMeter {
        self.lacking.insert(counter, why.to_owned());
        self
    }

    fn read(&mut self) -> FakeSnapshot {
        if !self.script.is_empty() {
            for (counter, n) in &self.script[self.reads % self.script.len()] {
                let value = &mut self.now.values[*counter as usize];
                *value = value.wrapping_add(*n);
            }
        }
        self.reads += 1;
        self.now
    }
}

impl Meter for FakeMeter {
    type Snapshot = FakeSnapshot;

    fn read_start(&mut self) -> FakeSnapshot {
        self.read()
    }

    fn read_end(&mut self) -> FakeSnapshot {
        self.read()
    }

    fn difference(&self, start: &FakeSnapshot, end: &FakeSnapshot) -> Readings {
        let scripted = self.script.iter().flatten().map(|(counter, _)| *counter);
        let mut readings: Readings = scripted
            .map(|c| {
                let (start, end) = (start.values[c as usize], end.values[c as usize]);
                (c, Reading::Measured(end.wrapping_sub(start)))
            })
            .collect();
        let lacking = self.lacking.iter();
        readings.extend(lacking.map(|(c, why)| (*c, Reading::absent(why.as_str()))));
        readings
    }

    fn refused(&self) -> Vec<Refusal> {
        let refusal = |(counter, why): (&Counter, &String)| Refusal {
            what: counter.name().to_owned(),
            why: why.clone(),
        };
        self.lacking.iter().map(refusal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_counter_is_its_row() {
        for (place, row) in COUNTERS.iter().enumerate() {
            assert_eq!(row.counter as usize, place);
        }
    }

    #[test]
    fn the_script_begins_again() {
        let mut meter = FakeMeter::new(&[
            &[(Counter::ElapsedNs, 1), (Counter::CpuNs, 10)],
            &[(Counter::ElapsedNs, 2)],
        ]);
        let reads = [(); 5].map(|()| meter.read_start());
        let elapsed = |from: usize, to: usize| {
            meter.difference(&reads[from], &reads[to])[&Counter::ElapsedNs].measured()
        };
        assert_eq!(elapsed(0, 1), Some(2));
        assert_eq!(elapsed(1, 2), Some(1));
        assert_eq!(elapsed(0, 4), Some(6));
        let all = meter.difference(&reads[0], &reads[4]);
        assert_eq!(all[&Counter::CpuNs], Reading::Measured(20));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn the_same_script_gives_the_same_readings() {
        let window = || {
            let mut meter =
                FakeMeter::new(&[&[(Counter::TaskClockNs, 7)]]).lacking(Counter::Branches, "none");
            let (start, end) = (meter.read_start(), meter.read_end());
            (meter.difference(&start, &end), meter.refused())
        };
        assert_eq!(window(), window());
        assert_eq!(window().1[0].what, "branches");
    }

    #[test]
    fn without_a_script_nothing_is_read() {
        let mut meter = FakeMeter::new(&[]);
        let (start, end) = (meter.read_start(), meter.read_end());
        assert!(meter.difference(&start, &end).is_empty());
        assert_eq!(crate::own_cost_ns(&mut meter, 3), 0);
    }
}
