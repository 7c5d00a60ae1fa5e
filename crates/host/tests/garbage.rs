//! Readers do not panic, whatever the files of a machine hold.

use crate::common;

use std::collections::BTreeMap;

use common::{MACHINES, Unpacked, host, probes, tree, unpacked};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..200),
        "[0-9,:\\- \n]{0,60}".prop_map(String::into_bytes),
        "(cpu|MemTotal:|CapEff:|Max open files|0::|flags)[ \t:]{0,2}[-0-9a-z./]{0,40}"
            .prop_map(String::into_bytes),
        Just(b"18446744073709551615 18446744073709551615 18446744073709551615\n".repeat(9)),
        Just(b"-1".to_vec()),
        Just(b"0-65535".to_vec()),
        Just("é\u{2028}\0K".as_bytes().to_vec()),
    ]
}

thread_local! {
    static ALL: BTreeMap<&'static str, Unpacked> =
        MACHINES.iter().map(|(name, _)| (*name, unpacked(name))).collect();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_panics_and_every_check_has_a_result(
        machine in 0..MACHINES.len(),
        contents in vec((any::<Index>(), proptest::option::of(content())), 1..30),
    ) {
        let machine = MACHINES[machine].0;
        let paths: Vec<String> = tree(machine)
            .into_keys()
            // A list of 65,536 CPUs is fine, but too slow to test often.
            .filter(|path| !path.ends_with("cpu/online"))
            .collect();
        let changes: Vec<_> = contents
            .into_iter()
            .map(|(which, content)| (which.get(&paths).clone(), content))
            .collect();
        let checks = host(machine).checks.len();
        let host = ALL.with(|all| all[machine].read(&changes, &probes()));
        prop_assert_eq!(host.checks.len(), checks);
        for check in &host.checks {
            prop_assert!(!check.found.is_empty() && !check.means.is_empty(), "{:?}", check);
            for text in [&check.found, &check.means] {
                prop_assert!(text.chars().count() <= 400);
                prop_assert!(!text.chars().any(char::is_control), "{:?}", text);
            }
        }
        for cpu in &host.cpus {
            prop_assert!(cpu.siblings.contains(&cpu.cpu));
        }
        for cache in &host.caches {
            prop_assert!(cache.size_bytes > 0 && !cache.shared_by.is_empty());
        }
    }
}
