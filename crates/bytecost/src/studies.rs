//! The built-in studies: one file for each question.
//!
//! A new study is a file in `studies/` and its name here. It has a question, a prediction (written
//! before the first run, and left as it was) with rows of `[[expect]]`, the axes, what is compared with
//! which baseline (`primary` is what the first sentence needs; `over` asks for the effect over all values
//! of another axis), and the figures. One that sets up a published measurement again has its traffic in
//! `[[as-published]]`. Rows of `[[pair]]` are the overview: `values` `against` one, `where`, the metric,
//! and the speed-up that was `published`. `bytecost run my-study.toml` runs one from anywhere.

macro_rules! studies {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../studies/", $name, ".toml")))),*]
    };
}

/// Name and text of each study, in the order of the documentation; the first is the default.
pub const STUDIES: &[(&str, &str)] = studies![
    "send-copies",
    "pa02-a",
    "pa02-b",
    "send-wire",
    "file-read",
    "file-copy",
    "file-to-socket",
    "placement",
    "cpu-to-cpu",
    "smt",
    "os-features",
    "access-patterns",
    "isolation",
    "ceiling",
    "server-models",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{known, machine};
    use bytecost_engine::{MOVERS, RECEIVERS};
    use bytecost_plan::{SurveyedHost, check_asked, named};
    use bytecost_spec::survey::{FileSupport, FileSurvey};
    use bytecost_spec::{Cache, Host, Study, Support, Survey, Transport};

    #[test]
    fn every_study_is_sound_and_has_the_name_of_its_row() {
        for (name, text) in STUDIES {
            let mut study = Study::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(study.name, *name);
            study.check(&known::tables()).unwrap();
            let for_something = check_asked(&study, &named(&study), &known::tables());
            assert_eq!(for_something, Ok(()), "{name}");
            if study.choose_as_published().is_ok() {
                study.check(&known::tables()).unwrap();
            }
        }
    }

    /// The survey of a machine that has all but Java.
    fn everything_works() -> Survey {
        let movers = || MOVERS.iter().filter(|m| !m.is_helped());
        let over_each = |name: &'static str| {
            Transport::WITHIN.iter().map(move |transport| Support {
                name: name.to_owned(),
                transport: *transport,
                refused: None,
            })
        };
        let in_each_state = |name: &'static str| {
            Cache::ALL.iter().map(move |cache| FileSupport {
                name: name.to_owned(),
                cache: *cache,
                refused: None,
            })
        };
        Survey {
            mover_facts: MOVERS.iter().map(|m| m.surveyed()).collect(),
            receiver_facts: RECEIVERS.iter().map(|r| r.facts.owned()).collect(),
            movers: movers().flat_map(|m| over_each(m.name)).collect(),
            receivers: (RECEIVERS.iter()).flat_map(|r| over_each(r.name)).collect(),
            files: Some(FileSurvey {
                file_system: "ext4".to_owned(),
                free_bytes: 1 << 40,
                direct_bytes: Some(512),
                movers: movers().flat_map(|m| in_each_state(m.name)).collect(),
                ..FileSurvey::default()
            }),
            ..Survey::default()
        }
    }

    #[test]
    fn the_budget_of_each_study_of_a_publication_pays_for_every_cell() {
        let cubic = || vec!["cubic".to_owned()];
        let host = Host {
            congestion_available: cubic(),
            ..machine::host().0
        };
        let survey = Survey {
            congestion_controls: cubic(),
            ..everything_works()
        };
        let study_named = |name: &&str| STUDIES.iter().find(|(study, _)| study == name).unwrap();
        let here = SurveyedHost {
            host: &host,
            survey: &survey,
        };
        for (name, text) in ["pa02-a", "pa02-b", "os-features"].iter().map(study_named) {
            for as_published in [false, true] {
                let mut study = Study::parse(text).unwrap();
                if as_published {
                    study.choose_as_published().unwrap();
                }
                let plan = bytecost_plan::plan(&study, here, None, 7, None).unwrap();
                assert_eq!(plan.left_out, [], "{name}");
                if *name != "os-features" {
                    assert_eq!(study.tiers[0].size(), 48, "{name}");
                    assert_eq!(plan.refused, [], "{name}");
                    continue;
                }
                assert!(study.budget_ms < 180_000);
                assert_eq!(study.blocks_least, if as_published { 3 } else { 8 });
                for mover in [
                    "pread",
                    "posix-aio",
                    "work-integer",
                    "sendfile-null",
                    "read-null",
                ] {
                    assert!(plan.cells.iter().any(|c| c.mover == mover), "{mover}");
                }
            }
        }
    }
}
