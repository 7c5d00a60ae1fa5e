//! Each further kind of test of a claim, with every outcome.

use bytecost_analysis::{Grounds, Ruling, audit};
use bytecost_report::audit::text;
use bytecost_spec::evidence::CopyPlace;
use bytecost_spec::{Cell, Counter, Table};

use crate::judge::{
    NODELAY, check, check_rows, check_rows_in, claims, common, count_copies, is_ruled, judged,
    small, test,
};
use crate::world::{put, round_noise};

#[test]
fn a_caveat_is_found_or_not() {
    check_rows(
        "zero-copy-copied, send-zerocopy | present | Confirmed | 24 of 24
        zero-copy-copied, send-zerocopy | absent | Refuted |
        zero-copy-copied, sendmsg | present | Refuted |
        bad-luck, sendmsg | absent | Undecided | does not look for `bad-luck`",
        |what, expect| {
            let (caveat, mover) = what.split_once(", ").expect("a caveat and a mover");
            test(&format!(
                "kind = \"stall\"\ncaveat = \"{caveat}\"\nwhere = {{ mover = [\"{mover}\"] }}\nexpect = \"{expect}\"\n"
            ))
        },
    );
}

#[test]
fn copies_are_as_many_as_was_claimed_or_not() {
    let mut world = small();
    count_copies(&mut world, |cell| {
        let into_kernel = match cell.mover.as_str() {
            "sendmsg" => 1000,
            "send-zerocopy" => 0,
            _ => return None,
        };
        Some([
            (CopyPlace::IntoKernel, into_kernel),
            (CopyPlace::ToReader, 1000),
            (CopyPlace::FromFile, 0),
            (CopyPlace::Delivery, 0),
        ])
    });
    check_rows_in(
        &world,
        "sendmsg | below 1.05 | Refuted | 2.00, counted by tracepoints
        sendmsg | within 1.9..2.1 | Confirmed |
        sendmsg of the sender | below 0.05 | Refuted | of the sender
        send-zerocopy of the sender | below 0.05 | Confirmed |
        send-fields | below 9 | Undecided | --evidence copies",
        |what, expect| {
            let (mover, metric) = match what.split_once(" of the sender") {
                Some((mover, _)) => (mover, "metric = \"sender_copies_per_byte\"\n"),
                None => (what, ""),
            };
            test(&format!(
                "kind = \"copies-per-byte\"\n{metric}where = {{ mover = [\"{mover}\"] }}\nexpect = \"{expect}\"\n"
            ))
        },
    );
}

#[test]
fn crossovers_are_near_the_claimed_place_or_not() {
    check_rows(
        "send-zerocopy | 32KiB | Confirmed | 3 of 3 places
        send-zerocopy | 2KiB | Refuted | not better from 2 KiB to 8 KiB; better from 32 KiB to 128 KiB
        sendmsg | 8KiB | Refuted | better from 2 KiB to 128 KiB
        splice | 8KiB | Undecided | splice",
        |mover, from| {
            test(&format!(
                "kind = \"crossover\"\nmetric = \"throughput_gbit_per_s\"\naxis = \"mover\"\nvalue = \"{mover}\"\nagainst = \"send-fields\"\n{NODELAY}expect = \"from {from}\"\n"
            ))
        },
    );
}

#[test]
fn threads_are_reported_apart_by_the_cpus_that_there_are() {
    let of = |threads: &str, expect: &str| {
        let metric = match expect {
            "above 1" => "llc_load_misses_per_kib",
            _ => "throughput_gbit_per_s",
        };
        test(&format!(
            "kind = \"scaling\"\nmetric = \"{metric}\"\nwhere = {{ mover = [\"sendmsg\"], nodelay = [\"on\"], size = [\"2KiB\"] }}\nthreads = \"{threads}\"\nexpect = \"{expect}\"\n"
        ))
    };
    check_rows(
        "1..8 | below 1 | Confirmed | from 1 to 8 flows
        within-cpus | below 1 | Refuted | every thread has a CPU
        beyond-cpus | below 1 | Confirmed | with 8 flows against 2
        3..8 | below 1 | Undecided | with 3 and with 8
        1..8 | above 1 | Undecided | was not read",
        of,
    );
    // A flow has two threads, so that two flows are more than two CPUs hold.
    let mut two = small();
    two.manifest.host.cpus_allowed = vec![0, 1];
    let analysis = two.analyse();
    let found = judged(&two, &of("within-cpus", "below 1"));
    is_ruled(&found, Ruling::Undecided, &["2 CPUs no two"]);
    let crowded = analysis.caveats.iter().find(|c| c.kind == "threads");
    let two_flows = two.cells.iter().filter(|c| c.threads == 2).map(Cell::id);
    let affected = &crowded.expect("more threads than CPUs").cells;
    assert!(two_flows.into_iter().all(|id| affected.contains(&id)));
}

#[test]
fn counters_are_compared_where_there_are_any() {
    let gains = test(
        "kind = \"counter\"\nmetrics = [\"l1d_load_misses_per_kib\", \"llc_load_misses_per_kib\"]\naxis = \"mover\"\nvalue = \"sendmsg\"\nagainst = \"send-fields\"\nwhere = { nodelay = [\"on\"], size = [\"2KiB\"], threads = [1] }\n",
    );
    check(&gains, Ruling::Undecided, &["L1d load misses per KiB"]);
    let with = |l1: u32, llc: u32, between: f64| {
        let mut world = small();
        world.manifest.rounds = round_noise(between);
        world.each(|sample| {
            let by = if sample.cell.contains("/sendmsg/") {
                2_u64
            } else {
                1
            };
            for side in sample.sides_mut() {
                for (counter, n) in [
                    (Counter::L1dLoadMisses, 1_000_000 / by.pow(l1)),
                    (Counter::LlcLoadMisses, 1_000_000 / by.pow(llc)),
                    (Counter::PerfEnabledNs, 10),
                    (Counter::PerfRunningNs, 10),
                ] {
                    put(&mut side.readings, counter, n);
                }
            }
        });
        judged(&world, &gains).ruling
    };
    assert_eq!(with(2, 1, 0.1), Ruling::Confirmed);
    assert_eq!(with(1, 3, 0.1), Ruling::Refuted);
    assert_eq!(with(1, 1, 0.1), Ruling::Undecided);
    // Half as much again is within what rounds differ by.
    assert_eq!(with(2, 1, 0.4), Ruling::Undecided);
}

#[test]
fn published_files_are_held_against_themselves() {
    let own =
        "impl,size,threads,gbit\na,1,1,2.0\na,1,2,3.0\na,2,1,5.0\nb,1,1,1.0\nb,1,2,1.0\nb,2,1,0\n";
    let tables = [
        Table::parse("own", own).unwrap(),
        Table::parse("headline", "impl,size,gbit\na,1,2.5\na,2,9.0\n").unwrap(),
        Table::parse("bad", "x\nNaN\n").unwrap(),
    ];
    let world = common();
    let among = "table = \"headline\"\ncolumn = \"gbit\"\nother = { table = \"own\" }\nby = [\"impl\", \"size\"]\nexpect = \"among\"";
    let small = format!("rows = {{ size = 1 }}\n{among}");
    let quotient = "table = \"own\"\ncolumn = \"gbit\"\nrows = { impl = \"a\", size = 1 }\nother = { rows = { impl = \"b\", size = 1 } }\n";
    let zero = quotient.replace("size = 1", "size = 2") + "expect = \"above 1\"";
    let by_threads = format!("{quotient}by = [\"threads\"]\nexpect = \"is 2.5\"");
    let alone = |table: &str, column: &str, rows: &str| {
        format!("table = \"{table}\"\ncolumn = \"{column}\"\n{rows}expect = \"is 0\"")
    };
    let apart = "impl a, size 2 9.00; its own data 5.00 to 5.00";
    let is_two_and_a_half = format!("{quotient}expect = \"is 2.5\"");
    let no_row = "rows = { impl = \"c\" }\n";
    use Ruling::{Confirmed, Refuted, Undecided};
    for (test, ruling, words) in [
        (among.to_owned(), Refuted, apart),
        (small, Confirmed, ""),
        (is_two_and_a_half, Confirmed, "2.50 (2.50 / 1.00)"),
        (by_threads.clone(), Refuted, "2 of 2 rows"),
        (by_threads + "\ntolerance = 0.25", Confirmed, ""),
        (zero, Undecided, "no number"),
        (alone("no", "x", ""), Undecided, "no.csv"),
        (
            alone("own", "x", ""),
            Undecided,
            "its columns are impl, size",
        ),
        (alone("bad", "x", ""), Undecided, "bad.csv, line 2"),
        (alone("own", "gbit", no_row), Undecided, "has no such row"),
    ] {
        let claims = claims(&format!("[[claim.test]]\nkind = \"arithmetic\"\n{test}\n"));
        let grounds = Grounds {
            claims,
            tables: tables.to_vec(),
            ..Grounds::default()
        };
        let found = audit(world.input(), &grounds).remove(0);
        is_ruled(&text(&found), ruling, &[words]);
    }
}
