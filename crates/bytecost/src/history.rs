//! The history of rounds on this machine, which gives a new run the noise between rounds.

use std::fmt::Display;
use std::path::PathBuf;

use bytecost_analysis::{noise_between_rounds, round_summaries};
use bytecost_spec::manifest::RoundNoise;
use bytecost_spec::{RoundConditions, RoundSummary};
use bytecost_store::History;

use crate::recorded_run::RecordedRun;

/// Name of the directory of bytecost in each of those.
const DIRECTORY: &str = "bytecost";

/// The rounds of this user's earlier runs on this machine.
#[derive(Debug, Default)]
pub struct EarlierRounds {
    rounds: Vec<RoundSummary>,
    /// The store to which a run adds its rounds; none if it cannot be used.
    history: Option<History>,
}

impl EarlierRounds {
    /// Reads the history. If it cannot be used, it is not written to either, and a note gives the reason.
    pub fn read(note: impl FnOnce(String)) -> EarlierRounds {
        let Some(directory) = user_directory("XDG_STATE_HOME", ".local/state") else {
            note(
                "there is no history of rounds: neither XDG_STATE_HOME nor HOME names a directory"
                    .to_owned(),
            );
            return EarlierRounds::default();
        };
        let history = History::at(directory);
        let (rounds, problem) = match history.known() {
            Ok(known) => (known.rounds, known.damage),
            Err(why) => (Vec::new(), Some(why)),
        };
        let history = match problem {
            None => Some(history),
            Some(why) => {
                note(unused(why));
                None
            }
        };
        EarlierRounds { rounds, history }
    }

    /// The variance between rounds that a run under these conditions starts from.
    pub fn noise(&self, conditions: &RoundConditions) -> RoundNoise {
        let alike = |round: &&RoundSummary| round.conditions == *conditions;
        let rounds: Vec<_> = self.rounds.iter().filter(alike).cloned().collect();
        noise_between_rounds(&rounds)
    }

    /// The same for a new run. It is an assumption, with a note of the reason, if a machine of the
    /// run has no id.
    pub fn noise_of_new_run(
        &self,
        conditions: Option<&RoundConditions>,
        note: impl FnOnce(String),
    ) -> RoundNoise {
        match conditions {
            Some(conditions) => self.noise(conditions),
            None if self.history.is_none() => RoundNoise::ASSUMED,
            None => {
                note(unused(
                    "this machine, or the other one, has no id in /etc/machine-id",
                ));
                RoundNoise::ASSUMED
            }
        }
    }

    /// The conditions of all rounds, each once, newest last.
    pub fn conditions(&self) -> Vec<RoundConditions> {
        let mut conditions: Vec<RoundConditions> = Vec::new();
        for round in &self.rounds {
            conditions.retain(|known| *known != round.conditions);
            conditions.push(round.conditions.clone());
        }
        conditions
    }

    /// Adds the rounds of a run that has ended. An error is a note, since the run itself is stored.
    pub fn add(&self, run: &RecordedRun<'_>, note: impl FnOnce(String)) {
        let Some(history) = &self.history else {
            return;
        };
        if let Err(why) = history.add(round_summaries(run.input(None))) {
            note(unused(why));
        }
    }
}

fn unused(why: impl Display) -> String {
    format!("the history of rounds is not used: {why}")
}

/// The directory of bytecost below the one that the variable names, or else below `in_home` in HOME
/// (XDG Base Directory Specification).
pub fn user_directory(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(in_home)));
    Some(base?.join(DIRECTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    use bytecost_spec::round::MachineKernel;
    use bytecost_spec::{PeerSide, RoundComparison};

    fn machine(id: &str, kernel: &str) -> MachineKernel {
        MachineKernel {
            machine_id_hash: id.to_owned(),
            kernel: kernel.to_owned(),
        }
    }

    fn here() -> RoundConditions {
        RoundConditions {
            machine: machine("m", "6.1.0"),
            cpus_allowed: vec![0, 1],
            peer: Some((machine("other", "6.1.0"), PeerSide::Receiver)),
            warmup_ms: 10,
            window_ms: 20,
            design: None,
        }
    }

    fn known(conditions: &RoundConditions) -> bool {
        let comparison = RoundComparison {
            metric: "cpu_s_per_gb".parse().unwrap(),
            baseline: "a".to_owned(),
            cell: "b".to_owned(),
            log_ratio: 0.1,
            variance: 1e-4,
            degrees: 9.0,
            blocks: 12,
        };
        let round = |round| RoundSummary {
            run: "run".to_owned(),
            round,
            started: String::new(),
            conditions: conditions.clone(),
            foreign_cpus: 0.0,
            comparisons: vec![comparison.clone()],
        };
        let earlier = EarlierRounds {
            rounds: (0..3).map(round).collect(),
            history: None,
        };
        !earlier.noise(&here()).comparisons.is_empty()
    }

    #[test]
    fn rounds_count_for_the_same_machines_kernels_and_trials_alone() {
        assert!(known(&here()));
        let changes: [fn(&mut RoundConditions); 9] = [
            |c| c.machine.machine_id_hash = "n".to_owned(),
            |c| c.machine.kernel = "6.1.1".to_owned(),
            |c| c.cpus_allowed = vec![0],
            |c| c.peer = None,
            |c| c.peer = Some((machine("third", "6.1.0"), PeerSide::Receiver)),
            |c| c.peer = Some((machine("other", "6.1.0"), PeerSide::Sender)),
            |c| c.warmup_ms = 5,
            |c| c.window_ms = 40,
            |c| c.design = Some("as-published".to_owned()),
        ];
        for change in changes {
            let mut other = here();
            change(&mut other);
            assert!(!known(&other), "{other:?}");
        }
    }
}
