//! A number, or why there is none.

use bytecost_spec::{Counter, Reading, Sample, SideReadings};

pub(crate) type Found = Result<f64, String>;

pub(crate) const FAULTS: [Counter; 2] = [Counter::PageFaultsMinor, Counter::PageFaultsMajor];
pub(crate) const SWITCHES: [Counter; 2] = [
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
];

pub(super) fn over(above: f64, below: f64, why_not: &str) -> Found {
    if below > 0.0 {
        Ok(above / below)
    } else {
        Err(why_not.to_owned())
    }
}

pub(crate) fn read(side: &SideReadings, counter: Counter) -> Found {
    found(side.readings.get(&counter), counter)
}

pub(crate) fn machine(sample: &Sample, counter: Counter) -> Found {
    found(sample.machine.get(&counter), counter)
}

fn found(reading: Option<&Reading>, counter: Counter) -> Found {
    match reading {
        Some(Reading::Measured(n)) => Ok(*n as f64),
        Some(Reading::Absent { absent }) => Err(absent.clone()),
        None => Err(format!("{} was not read", counter.name())),
    }
}
