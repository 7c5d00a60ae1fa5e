//! A number, or the reason for which there is none.

use bytecost_spec::{Counter, Reading, Sample, SideReadings};

use crate::result::NoValue;

pub(crate) type Found = Result<f64, NoValue>;

pub(crate) const FAULTS: [Counter; 2] = [Counter::PageFaultsMinor, Counter::PageFaultsMajor];
pub(crate) const SWITCHES: [Counter; 2] = [
    Counter::ContextSwitchesVoluntary,
    Counter::ContextSwitchesInvoluntary,
];

pub(super) fn over(above: f64, below: f64, otherwise: NoValue) -> Found {
    if below > 0.0 {
        Ok(above / below)
    } else {
        Err(otherwise)
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
        Some(Reading::Absent { absent }) => Err(NoValue::Recorded(absent.clone())),
        None => Err(NoValue::NotRead(counter)),
    }
}
