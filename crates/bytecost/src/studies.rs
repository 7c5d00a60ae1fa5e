//! The studies that are built in: one file a question.

/// Name and text of each, in the order of the documentation; the first is the default.
pub const STUDIES: &[(&str, &str)] = &[
    (
        "send-copies",
        include_str!("../../../studies/send-copies.toml"),
    ),
    ("pa02-a", include_str!("../../../studies/pa02-a.toml")),
    ("pa02-b", include_str!("../../../studies/pa02-b.toml")),
    ("send-wire", include_str!("../../../studies/send-wire.toml")),
    ("file-read", include_str!("../../../studies/file-read.toml")),
    ("file-copy", include_str!("../../../studies/file-copy.toml")),
    (
        "file-to-socket",
        include_str!("../../../studies/file-to-socket.toml"),
    ),
    ("placement", include_str!("../../../studies/placement.toml")),
    (
        "cpu-to-cpu",
        include_str!("../../../studies/cpu-to-cpu.toml"),
    ),
    ("smt", include_str!("../../../studies/smt.toml")),
    (
        "os-features",
        include_str!("../../../studies/os-features.toml"),
    ),
    (
        "access-patterns",
        include_str!("../../../studies/access-patterns.toml"),
    ),
    ("isolation", include_str!("../../../studies/isolation.toml")),
    ("ceiling", include_str!("../../../studies/ceiling.toml")),
    (
        "server-models",
        include_str!("../../../studies/server-models.toml"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known;
    use bytecost_plan::{check_asked, named};
    use bytecost_spec::Study;

    #[test]
    fn every_study_is_sound_and_has_the_name_of_its_row() {
        for (name, text) in STUDIES {
            let mut study = Study::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(study.name, *name);
            known::check(&study).unwrap();
            let for_something = check_asked(&study, &named(&study), &known::tables());
            assert_eq!(for_something, Ok(()), "{name}");
            if study.choose_as_published().is_ok() {
                known::check(&study).unwrap();
            }
        }
    }
}
