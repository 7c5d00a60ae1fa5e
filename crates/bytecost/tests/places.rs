//! Placements, memory and neighbours, as a user asks for them and as the kernel shows them.

use std::collections::BTreeMap;

use crate::common::{Place, says};
use bytecost_spec::{Cell, Class, Counter, Held, LoadKind, Placement, Reading, Sample};
use bytecost_sys::process;

const SHORT: &str = "run --mover send --size 4KiB --budget 20s --blocks 6 --window 20ms --warmup 2ms --seed 7 --quiet";

fn samples(place: &Place, words: &str) -> BTreeMap<Cell, Vec<Sample>> {
    place.call(format!("{SHORT} {words}")).measured();
    let mut by_cell: BTreeMap<Cell, Vec<Sample>> = BTreeMap::new();
    for (cell, sample) in place.samples() {
        by_cell.entry(cell).or_default().push(sample);
    }
    assert!(!by_cell.is_empty());
    by_cell
}

fn cpus(held: &[Held]) -> Vec<Vec<u32>> {
    held.iter().map(|h| h.cpus.clone()).collect()
}

#[test]
fn threads_run_where_they_are_held_and_the_record_says_so() {
    let place = Place::new();
    let allowed = process::affinity().unwrap();
    let (first, last) = (allowed[0], allowed[allowed.len() - 1]);
    let words = format!("--threads 2 --placement free,same-cpu,{first}:{last} --placement {first}");
    for (cell, samples) in samples(&place, &words) {
        for sample in samples {
            let sender = &sample.sender.held;
            let receiver = sample.receiver.as_ref().map_or(&[][..], |r| &r.held);
            let name = cell.placement.to_string();
            let (there, here) = (cpus(receiver), cpus(sender));
            match &cell.placement {
                Placement::Free => assert!(here.is_empty() && there.is_empty()),
                // Without another end the flows take from both lists.
                _ if cell.mover == "null" => assert_eq!(here.len(), 2, "{name}"),
                Placement::Cpus { .. } => {
                    assert_eq!(here, [[first], [first]], "{name}");
                    assert_eq!(there, [[last], [last]], "{name}");
                }
                // Flow by flow on the same CPU.
                _ => assert_eq!(here, there, "{name}"),
            }
            for held in sender {
                assert!(held.cpus.contains(&held.last_cpu), "{name}: {held:?}");
            }
        }
    }
    let line = format!("placement {first}:{last}: sender on CPU {first}, receiver on CPU {last}");
    says(&place.read("report.md"), &[&line]);
    let columns = ",sender_cpus,receiver_cpus,neighbour_cpus\n";
    says(&place.read("samples.csv"), &[columns]);
}

#[test]
fn background_load_runs_with_the_trial_and_counts_as_its_own() {
    let place = Place::new();
    let first = process::affinity().unwrap()[0];
    let words = format!(
        "--placement same-cpu --background idle,spin@same-cpu,stream,chase@{first},awake@{first}"
    );
    let mut seen = Vec::new();
    for (cell, samples) in samples(&place, &words) {
        let noise = cell.neighbour.noise;
        seen.push(noise);
        let mut most = 0;
        for sample in samples {
            let used = sample.machine.get(&Counter::NeighbourNs);
            if noise == LoadKind::Idle {
                assert_eq!((used, sample.neighbour.len()), (None, 0));
                continue;
            }
            assert_eq!(sample.neighbour.len(), 1, "{}", cell.neighbour);
            let class = (noise == LoadKind::Awake).then_some(Class::Idle);
            assert_eq!(sample.neighbour[0].class, class, "{}", cell.neighbour);
            if noise != LoadKind::Stream {
                assert_eq!(sample.neighbour[0].cpus, [first]);
                assert_eq!(sample.neighbour[0].last_cpu, first);
            }
            most = most.max(used.and_then(Reading::measured).unwrap());
        }
        // Other processes may leave no time of a shared CPU.
        assert!(
            cell.neighbour.takes_no_time() || most > 0,
            "{}",
            cell.neighbour
        );
    }
    assert!(LoadKind::ALL.iter().all(|n| seen.contains(n)), "{seen:?}");
}
