//! Published claims compared with a run whose truth is known: effects, reasons, stalls.

use bytecost_analysis::Ruling;
use bytecost_spec::{Cell, Counter, Placement, RefusedCell, Sample};

use crate::judge::{
    self, NODELAY, STUDY, check, check_in, check_rows, check_rows_in, is_ruled, judged,
    of_one_size, ratio, reason, small, test, truth,
};
use crate::world::{At, True, World, put, round_noise, says};

#[test]
fn a_ratio_holds_or_not() {
    let of = |value: &str, expect: &str| test(&ratio(value, "send-fields", NODELAY, expect));
    check_rows(
        "sendmsg | above 1 | Confirmed | in 12 of 12 cells
        sendmsg | within 1.3..1.8 | Confirmed | from 1.3 to 1.8
        sendmsg | within 4.8..6 | Refuted | 1.5
        sendmsg | below 1 | Refuted | 12 of 12
        send-zerocopy | above 1 | Refuted | 6 of 12
        send-zerocopy | above 1 | Refuted | KiB (8 × ",
        of,
    );
    let some = of("send-zerocopy", "above 1") + "cells = \"some\"\n";
    check(&some, Ruling::Confirmed, &["6 of 12", "The kernel copied"]);
    // Against a value that no comparison of the study has as its baseline.
    let turned = test(&ratio("send-fields", "sendmsg", NODELAY, "below 1"));
    check(&turned, Ruling::Confirmed, &[]);
    let also = test(&ratio("send-zerocopy", "sendmsg", NODELAY, "below 1"));
    check(&also, Ruling::Confirmed, &["12 of 12"]);
}

#[test]
fn what_was_not_measured_cannot_be_settled() {
    let veth = "where = { transport = [\"veth\"] }\n";
    let absent = test(&ratio("sendmsg", "send-fields", veth, "above 1"));
    let undecided = |tests: &str, words: &[&str]| check(tests, Ruling::Undecided, words);
    undecided(&absent, &["transport veth", "sendmsg and send-fields"]);
    let cycles = absent
        .replace("throughput_gbit_per_s", "cycles_per_byte")
        .replace(veth, NODELAY);
    undecided(&cycles, &["no hardware counters"]);
    let copies = test("kind = \"copies-per-byte\"\nexpect = \"below 1.5\"\n");
    undecided(&copies, &["were not counted"]);
    let elsewhere = "kind = \"not-in-this-run\"\nstudy = \"servers\"\nwhy = \"clients\"\n";
    undecided(&test(elsewhere), &["servers", "does not have"]);
    let mut world = small();
    let id = world.id("sendmsg", 2048).replace("loopback", "veth");
    world.refused.push(RefusedCell {
        cell: Cell::from_id(&id).expect("an id"),
        why: "needs root".to_owned(),
    });
    let found = judged(&world, &absent);
    says(&found.because, ["needs root"]);
    assert!(found.is_silent());
}

#[test]
fn what_is_not_decided_says_what_it_would_take() {
    let world = World::new(STUDY).run(5, 8, 0.5, |cell| True {
        gbit_per_s: if cell.mover == "sendmsg" { 1.1 } else { 1.0 },
        ..truth(cell)
    });
    let test = test(&ratio("sendmsg", "send-fields", NODELAY, "within 1..1.3"));
    let found = judged(&world, &test);
    is_ruled(&found, Ruling::Undecided, &["more blocks"]);
    assert!(!found.is_silent());
}

#[test]
fn the_reason_is_judged_after_the_effect() {
    let large = "where = { nodelay = [\"on\"], size = [\"32KiB\", \"128KiB\"] }\n";
    let faster = test(&ratio("send-zerocopy", "send-fields", large, "above 1"));
    let flag = reason(
        "kind = \"copied-share\"\nwhere = { mover = [\"send-zerocopy\"] }\nexpect = \"below 0.01\"",
        "it was copied",
    );
    let than_one_call = |expect| ratio("send-zerocopy", "sendmsg", NODELAY, expect);
    let calls = reason(&than_one_call("above 1"), "one call against eight");
    let good = reason(&than_one_call("below 1"), "x");
    let open = reason("kind = \"copies-per-byte\"\nexpect = \"below 1.5\"", "x");
    let slower = test(&ratio("sendmsg", "send-fields", NODELAY, "below 1"));
    let otherwise = Ruling::ConfirmedForAnotherReason;
    let both = ["It was copied.", "One call against eight."];
    let is_open = ["The effect is confirmed", "were not counted"];
    for (tests, ruling, words) in [
        (vec![&faster], Ruling::Confirmed, &["6 of 6"][..]),
        (
            vec![&faster, &flag],
            otherwise,
            &["It was copied.", "100 %"],
        ),
        (vec![&faster, &flag, &calls], otherwise, &both),
        (vec![&faster, &good], Ruling::Confirmed, &[]),
        (vec![&faster, &open], Ruling::Undecided, &is_open),
        (vec![&slower, &flag], Ruling::Refuted, &[]),
    ] {
        let text: String = tests.into_iter().map(String::as_str).collect();
        check(&text, ruling, words);
    }
}

/// Lets the acknowledgements of cells that answer late come late.
fn stall(world: &mut World, which: impl Fn(&Cell) -> bool) {
    let signs = [(Counter::TcpRttUs, 20_500), (Counter::TcpMinRttUs, 3)];
    world.put(which, At::Sender, signs);
}

#[test]
fn a_stall_on_one_side_is_reported_apart_from_the_effect() {
    let mut world = judge::world(STUDY);
    stall(&mut world, |c| {
        c.mover == "send-fields" && !c.sends_at_once()
    });
    let check = |tests: &str, ruling: Ruling, word: &str| {
        check_in(&world, tests, ruling, &[word]);
    };
    let off = "where = { nodelay = [\"off\"] }\n";
    let only = test(&ratio("sendmsg", "send-fields", off, "above 1"));
    let otherwise = Ruling::ConfirmedForAnotherReason;
    check(&only, otherwise, "delayed acknowledgement");
    // The same cells without the stall were measured too, and count alone.
    let both = test(&ratio("sendmsg", "send-fields", "", "within 1.3..1.8"));
    let aside = "12 cells in which one side stalls are left aside";
    check(&both, Ruling::Confirmed, aside);
    let hidden = test(&ratio("sendmsg", "send-fields", off, "below 1"));
    check(&hidden, Ruling::Undecided, "hides everything else");
}

/// A small world in which sendmsg gains so much over eight calls, and send-zerocopy as much again.
fn gaining(gain: impl Fn(&Cell) -> f64) -> World {
    World::new(&of_one_size()).run(9, 12, 0.002, |cell| True {
        gbit_per_s: match cell.mover.as_str() {
            "sendmsg" => gain(cell),
            "send-zerocopy" => gain(cell).powi(2),
            _ => 1.0,
        },
        copied: (cell.mover == "send-zerocopy").then_some(1.0),
        ..True::costs(1.0)
    })
}

#[test]
fn what_is_smaller_than_what_matters_is_confirmed_by_less_or_refuted() {
    for (world, table) in [
        (
            gaining(|_| 1.02),
            "above 1 | ConfirmedByLessThanMatters | confirmed, by less than matters
            below 1 | Refuted | refuted
            alike | Confirmed | is about 1",
        ),
        (
            gaining(|_| 1.0),
            "above 1 | Refuted | is not above 1
            below 1 | Refuted | is not below 1",
        ),
        (
            gaining(|_| 1.2),
            "above 1 | Confirmed | confirmed
            alike | Refuted | is not about 1",
        ),
        (
            gaining(|c| if c.threads == 1 { 1.02 } else { 1.2 }),
            "above 1 | Confirmed | confirmed, in 1 of 3 cells by less than matters",
        ),
    ] {
        // The one pair is a finding of the run, the other one is not.
        for (value, against) in [("sendmsg", "send-fields"), ("send-zerocopy", "sendmsg")] {
            let rows: Vec<String> = table.lines().map(|row| format!("| {row}")).collect();
            check_rows_in(&world, &rows.join("\n"), |_, expect| {
                test(&ratio(value, against, NODELAY, expect))
            });
        }
    }
}

/// Makes the throughput of cells useless: a third and thrice of it in turns.
fn disturb(world: &mut World, which: impl Fn(&Cell) -> bool) {
    world.change(which, |sample| {
        let block = sample.trial.block;
        for flow in sample.sides_mut().flat_map(|s| &mut s.flows) {
            flow.bytes = match block % 2 {
                0 => flow.bytes * 3,
                _ => flow.bytes / 3,
            };
        }
    });
}

#[test]
fn a_ruling_says_in_how_many_cells_it_is_confirmed() {
    let test = test(&ratio("sendmsg", "send-fields", NODELAY, "above 1"));
    let check = |world: &World, ruling: Ruling, words: &str| {
        check_in(world, &test, ruling, &[words]);
    };
    let one = |flows: u32| move |c: &Cell| c.mover == "sendmsg" && c.threads == flows;
    let mut disturbed = gaining(|_| 1.5);
    disturb(&mut disturbed, one(8));
    let in_part = "confirmed in 2 of 3 cells, 1 undecided";
    check(&disturbed, Ruling::ConfirmedInPart, in_part);
    disturb(&mut disturbed, one(2));
    check(&disturbed, Ruling::Undecided, "undecided in 2 of 3 cells");
    let mut with_loss = gaining(|_| 1.5);
    let cells = with_loss.cells.clone();
    let is_lost = |s: &Sample| one(8)(&cells[s.trial.cell as usize]);
    with_loss.samples.retain(|s| !is_lost(s));
    let partly_known = "confirmed in 2 of 3 cells, 1 not known";
    check(&with_loss, Ruling::ConfirmedInPart, partly_known);
    let mut slower = gaining(|_| 0.5);
    disturb(&mut slower, one(8));
    let partly_refuted = "refuted in 2 of 3 cells, 1 undecided";
    check(&slower, Ruling::Refuted, partly_refuted);
}

#[test]
fn what_is_claimed_of_most_cells_falls_with_half_of_them() {
    let world = gaining(|c| if c.threads == 8 { 1.5 } else { 0.5 });
    check_rows_in(
        &world,
        "most | below 1 | ConfirmedInPart | confirmed in 2 of 3 cells, refuted in 1
        every | below 1 | Refuted | refuted in 1 of 3 cells
        most | above 1 | Refuted | refuted in 2 of 3 cells
        some | above 1 | Confirmed | in 1 of 3 cells",
        |cells, expect| {
            let test = test(&ratio("sendmsg", "send-fields", NODELAY, expect));
            format!("{test}cells = \"{cells}\"\n")
        },
    );
}

#[test]
fn a_reason_is_refuted_also_where_the_effect_is_undecided() {
    let mut world = gaining(|_| 1.5);
    disturb(&mut world, |c| c.mover == "sendmsg");
    let effect = test(&ratio("sendmsg", "send-fields", NODELAY, "above 1"));
    let flag = "kind = \"copied-share\"\nwhere = { mover = [\"send-zerocopy\"] }\nexpect = ";
    let of =
        |expect: &str| effect.clone() + &reason(&format!("{flag}\"{expect}\""), "it was copied");
    let check = |expect: &str, words: &[&str]| {
        check_in(&world, &of(expect), Ruling::Undecided, words);
    };
    let words = "undecided; the reason given is refuted";
    let already = "The reason given is refuted already. It was copied.";
    check("below 0.01", &[words, already]);
    let found = judged(&world, &of("above 0.99"));
    assert_eq!(found.ruling, Ruling::Undecided);
    assert_eq!(found.words, "undecided");
}

#[test]
fn a_caveat_that_withholds_a_verdict_withholds_the_ruling() {
    let with = |reason: &str, is_still: bool| {
        let mut world = judge::world(STUDY);
        let sendmsg = world.cells.iter().filter(|c| c.mover == "sendmsg");
        for id in sendmsg.map(Cell::id).collect::<Vec<String>>() {
            world.fail(1, &id, reason);
            let failure = world.failures.last_mut().expect("a failure");
            failure.stood_still_ns = is_still.then_some(10_000_000_000);
        }
        world
    };
    // No finding of the run: its comparisons are with send-fields.
    let rate = test(&ratio("send-zerocopy", "sendmsg", NODELAY, "below 1"));
    let cost = rate
        .replace("throughput_gbit_per_s", "cpu_s_per_gb")
        .replace("below 1", "alike");
    let level = test(&format!(
        "kind = \"level\"\nmetric = \"throughput_gbit_per_s\"\n{}expect = \"above 0.1\"\n",
        "where = { mover = [\"sendmsg\"] }\n"
    ));
    for test in [&rate, &cost, &level] {
        check(test, Ruling::Confirmed, &[]);
    }
    let still = with("a flow moved nothing and used no CPU.", true);
    let why = &["there is no verdict: its flow stood still through whole windows"];
    check_in(&still, &rate, Ruling::Undecided, why);
    check_in(&still, &cost, Ruling::Confirmed, &[]);
    check_in(&still, &level, Ruling::Undecided, why);
    let mut wrong = with("receiver: byte 7 is wrong", false);
    wrong.failures.iter_mut().for_each(|f| f.wrong_bytes = true);
    for test in [&rate, &cost, &level] {
        check_in(&wrong, test, Ruling::Undecided, &["wrong bytes"]);
    }
}

#[test]
fn a_level_holds_what_rounds_differ_by() {
    let above = test(
        "kind = \"level\"\nmetric = \"throughput_gbit_per_s\"\nwhere = { mover = [\"sendmsg\"], nodelay = [\"on\"], threads = [1] }\nexpect = \"above 1.4\"\n",
    );
    let mut world = small();
    let mut check = |between, ruling, words: &str| {
        world.manifest.rounds = round_noise(between);
        check_in(&world, &above, ruling, &[words]);
    };
    check(0.0, Ruling::Confirmed, "1.50 Gbit/s (1.49 Gbit/s to ");
    check(0.06, Ruling::Undecided, "1.50 Gbit/s (1.34 Gbit/s to ");
    // A metric with an upper bound, or one that does not vary over time, has no such reason.
    let copied = test(
        "kind = \"level\"\nmetric = \"copied_share\"\nwhere = { mover = [\"send-zerocopy\"] }\nexpect = \"above 0.99\"\n",
    );
    check_in(&world, &copied, Ruling::Confirmed, &["100 %"]);
}

#[test]
fn a_level_of_zero_is_confirmed_by_what_was_counted() {
    let none = test("kind = \"level\"\nmetric = \"migrations_per_s\"\nexpect = \"is 0\"\n");
    let mut world = small();
    // Nothing in 12 trials of 100 ms: the rule of three gives 2.5 a second at most.
    let at_most = &["0 in 12 trials, at most 2.50 1/s (95 %)"];
    check_in(&world, &none, Ruling::Confirmed, at_most);
    world.each(|s| {
        let is_first = (s.trial.cell, s.trial.block) == (0, 0);
        put(
            &mut s.sender.readings,
            Counter::Migrations,
            u64::from(is_first),
        );
    });
    let words = "refuted in 1 of 18 cells";
    check_in(&world, &none, Ruling::Refuted, &[words]);
}

/// A world of one size with free ends and pinned ones, in which sendmsg gains so much with each.
fn pinned_and_free(free: f64, pinned: f64) -> World {
    let study = of_one_size().replace("pattern =", "placement = [\"free\", \"pinned\"]\npattern =");
    World::new(&study).run(9, 12, 0.002, |cell| True {
        gbit_per_s: match (cell.mover.as_str(), cell.placement == Placement::Free) {
            ("sendmsg", true) => free,
            ("sendmsg", false) => pinned,
            _ => 1.0,
        },
        ..True::costs(1.0)
    })
}

#[test]
fn a_claim_that_names_no_cpus_is_compared_with_free_ends() {
    let faster = test(&ratio("sendmsg", "send-fields", NODELAY, "above 1"));
    let check = |world: &World, test: &str, ruling: Ruling| {
        check_in(world, test, ruling, &[]);
    };
    check(&pinned_and_free(1.5, 0.5), &faster, Ruling::Confirmed);
    check(&pinned_and_free(0.5, 1.5), &faster, Ruling::Refuted);
    let pinned = NODELAY.replace(" }", ", placement = [\"pinned\"] }");
    let pinned = test(&ratio("sendmsg", "send-fields", &pinned, "above 1"));
    check(&pinned_and_free(1.5, 0.5), &pinned, Ruling::Refuted);
    // Without free ends the pinned ones are what there is.
    let mut alone = pinned_and_free(1.5, 0.5);
    alone.keep(|c| c.placement != Placement::Free);
    check(&alone, &faster, Ruling::Refuted);
    // Several flows are compared in the same way.
    let scaling = test(
        "kind = \"scaling\"\nmetric = \"throughput_gbit_per_s\"\nwhere = { mover = [\"sendmsg\"], nodelay = [\"on\"] }\nthreads = \"1..8\"\nexpect = \"above 1\"\n",
    );
    let study = of_one_size().replace("pattern =", "placement = [\"free\", \"pinned\"]\npattern =");
    let more = World::new(&study).run(9, 12, 0.002, |cell| {
        let is_free = cell.placement == Placement::Free;
        let gains = cell.threads == 8 && is_free;
        True::costs(1.0).at_rate(if gains { 2.0 } else { 1.0 })
    });
    check(&more, &scaling, Ruling::Confirmed);
}

#[test]
fn a_cell_that_stalls_neither_refutes_nor_confirms_how_threads_scale() {
    let mut world = small();
    let is_stalled = |c: &Cell| c.mover == "send-fields" && !c.sends_at_once() && c.threads == 8;
    let scaling = test(
        "kind = \"scaling\"\nmetric = \"throughput_gbit_per_s\"\nwhere = { mover = [\"send-fields\"], nodelay = [\"off\"] }\nthreads = \"1..8\"\nexpect = \"above 1\"\n",
    );
    check_in(&world, &scaling, Ruling::Refuted, &["0.5"]);
    stall(&mut world, is_stalled);
    let why = "hides everything else";
    check_in(&world, &scaling, Ruling::Undecided, &[why]);
}

#[test]
fn the_test_that_falls_in_most_cells_says_how_far_a_claim_falls() {
    let world = gaining(|c| if c.threads == 8 { 0.5 } else { 1.5 });
    let of = |expect: &str| test(&ratio("sendmsg", "send-fields", NODELAY, expect));
    let in_one = of("above 1");
    let words = "refuted in 1 of 3 cells";
    check_in(&world, &in_one, Ruling::Refuted, &[words]);
    let both = in_one + &of("within 3..4");
    let found = judged(&world, &both);
    assert_eq!((found.ruling, &*found.words), (Ruling::Refuted, "refuted"));
}

#[test]
fn a_claim_finer_than_what_matters_is_neither_confirmed_nor_refuted_by_less() {
    let fine = test(&ratio(
        "sendmsg",
        "send-fields",
        NODELAY,
        "within 0.995..1.005",
    ));
    let ruled = |gain: f64| {
        let world = gaining(move |_| gain);
        judged(&world, &fine)
    };
    let near = ruled(1.02);
    assert_eq!(near.ruling, Ruling::Undecided, "{near:#?}");
    assert_eq!(near.words, "within 5 %, not confirmed at 0.5 %");
    assert_eq!(ruled(1.2).ruling, Ruling::Refuted);
}
