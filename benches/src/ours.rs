//! bytecost's own trials, made by the lab as the command makes them.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytecost_lab::files::Files;
use bytecost_lab::peer::PeerLink;
use bytecost_lab::program::Program;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::settings::Settings;
use bytecost_lab::{Lab, TrialOutcome};
use bytecost_spec::{
    Axis, Cell, Counter, Reading, Readings, Record, Sample, SideReadings, TrialKey,
};
use bytecost_stats::quantile;

/// Time for which bytes move before the window opens.
pub const WARMUP: Duration = Duration::from_millis(100);

/// A lab that makes single trials, and notes how much other processes used of the machine.
pub struct Ours {
    lab: Lab,
    trials: u32,
    /// Share of the machine that other processes used, of each trial.
    others: Vec<f64>,
}

impl Ours {
    /// A lab that starts this program as its endpoints.
    pub fn new(window: Duration) -> Result<Ours> {
        let settings = Settings {
            warmup: WARMUP,
            window,
            // A disturbed trial is not repeated, since those of peers are not either.
            ..Settings::of_single_trials(Program::own()?, ContentCheck::Quick)
        };
        Ok(Ours {
            lab: Lab::new(settings),
            trials: 0,
            others: Vec::new(),
        })
    }

    /// Lets cells of files use these.
    pub fn with_files(mut self, files: Files) -> Ours {
        self.lab = self.lab.with_files(files);
        self
    }

    /// Runs one side of each trial on another host.
    pub fn with_peer(mut self, link: PeerLink) -> Ours {
        self.lab = self.lab.with_peer(link);
        self
    }

    /// Makes one trial.
    ///
    /// # Errors
    /// A trial that failed, or in which a flow moved nothing.
    pub fn trial(&mut self, cell: &Cell) -> Result<Sample> {
        let trial = TrialKey::first(self.trials, 0);
        self.trials += 1;
        match self.lab.trial(trial, cell, &AtomicBool::new(false)) {
            TrialOutcome::Interrupted => bail!("interrupted"),
            TrialOutcome::Ended(_, true) => bail!("a flow moved nothing within the window"),
            TrialOutcome::Ended(record, false) => match *record {
                Record::Failure(failure) => bail!("{}", failure.reason),
                Record::Evidence(_) | Record::Block(_) => {
                    bail!("a record came that is no timed trial")
                }
                Record::Sample(sample) => {
                    self.others.extend(share_of_others(&sample));
                    Ok(sample)
                }
            },
        }
    }

    /// Median over the trials of the share of the machine that other processes used; none if it could
    /// not be read.
    pub fn others(&self) -> Option<f64> {
        quantile(&self.others, 0.5)
    }
}

/// CPU time of all processes but the two sides, as a share of the machine's.
fn share_of_others(sample: &Sample) -> Option<f64> {
    let get = |readings: &Readings, counter| {
        readings
            .get(&counter)
            .and_then(Reading::measured)
            .map(|n| n as f64)
    };
    let capacity = get(&sample.machine, Counter::MachineElapsedNs)?
        * get(&sample.machine, Counter::MachineCpus)?;
    Some(get(&sample.machine, Counter::OtherProcessesNs)? / capacity)
}

/// The reading of one counter of a side as a number.
///
/// # Errors
/// A reading that is absent, with its reason.
pub fn read(side: &SideReadings, counter: Counter) -> Result<f64> {
    match side.readings.get(&counter) {
        Some(Reading::Measured(n)) => Ok(*n as f64),
        Some(Reading::Absent { absent }) => bail!("{}: {absent}", counter.name()),
        None => bail!("{} was not read", counter.name()),
    }
}

/// The receiving side of a trial.
///
/// # Errors
/// A trial of a mover that has no receiver.
pub fn receiver(sample: &Sample) -> Result<&SideReadings> {
    sample
        .receiver
        .as_ref()
        .context("the trial had no receiver")
}

/// The default cell with these values of axes instead.
///
/// # Errors
/// A value that its axis does not have.
pub fn cell(values: &[(Axis, &str)]) -> Result<Cell> {
    Ok(Cell::default().with(values)?)
}
