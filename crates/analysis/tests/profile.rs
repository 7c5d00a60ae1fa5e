//! Advice for a profile: what its patterns would save, by planted prices and runs.

use bytecost_analysis::profile::{
    Advice, CallLength, Prediction, Price, Priced, advice, measured_price, patterns,
};
use bytecost_spec::profile::{
    CopyLoop, Descriptor, DescriptorKind, FailedCalls, Notifications, OtherEnd, Profile, Way,
};
use bytecost_spec::{Reading, Side, Transport};

use crate::world::{STUDY, True, World};

fn descriptor(kind: DescriptorKind) -> Descriptor {
    Descriptor {
        kind,
        other_end: (kind == DescriptorKind::Tcp).then_some(OtherEnd::Local),
        on: None,
        is_large: false,
        is_direct: false,
    }
}

/// 100 calls of 64 KiB.
fn way(call: &str, from: Option<DescriptorKind>, to: Option<DescriptorKind>, cpu_ns: u64) -> Way {
    let mut lengths = vec![0; 32];
    lengths[16] = 100;
    Way {
        call: call.to_owned(),
        from: from.map(descriptor),
        to: to.map(descriptor),
        flags: Vec::new(),
        calls: 100,
        bytes: 100 << 16,
        elapsed_ns: cpu_ns,
        cpu_ns: Some(cpu_ns),
        copied_bytes: Reading::Measured(100 << 16),
        lengths,
        failed: FailedCalls::default(),
        follows: 0,
        follow_bytes: 0,
        delayed_reads: 0,
        delayed_ns: 0,
        sequential: 0,
        notifications: Notifications::default(),
    }
}

/// A program that copies a file to a socket, which takes half of its CPU time.
fn copying() -> Profile {
    Profile {
        bytecost: String::new(),
        kernel: String::new(),
        program: "copying".to_owned(),
        began_s: 0,
        elapsed_ns: 2_000_000,
        cpu_ns: 1_000_000,
        processes: 1,
        ways: vec![
            way("read", Some(DescriptorKind::File), None, 200_000),
            way("write", None, Some(DescriptorKind::Tcp), 300_000),
        ],
        copy_loops: vec![CopyLoop {
            read: 0,
            write: 1,
            calls: 100,
            bytes: 100 << 16,
        }],
        mapped_bytes: Reading::Measured(0),
        work: Vec::new(),
        work_absent: None,
        faults: Reading::Measured(0),
        process_io: None,
        not_counted: None,
        calls: 200,
        skipped_calls: 0,
        lost_calls: 0,
        compat_calls: 0,
        own_cost_ns: 0,
        moments: Vec::new(),
    }
}

fn at_ratio(ratio: f64) -> Vec<Advice> {
    advice(&copying(), &mut |_, _, _| {
        let priced = Priced {
            ratio,
            low: ratio - 0.1,
            high: ratio + 0.1,
            call_bytes: 65_536,
        };
        Some(("a-run".to_owned(), Ok(priced)))
    })
}

/// A program that gathers two reads of a file into one write, of which no pair of calls was seen.
#[test]
fn ways_that_move_the_same_sum_of_bytes_copy_a_file_as_well() {
    let mut gathered = copying();
    gathered.copy_loops.clear();
    gathered.ways[0].calls = 200;
    let header = 242;
    gathered.ways[1].bytes += header;
    let found = patterns(&gathered);
    let [copies] = found.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!(copies.pattern, "file-to-socket-by-copies");
    assert!(copies.is_by_sums);
    assert_eq!((copies.ways.as_slice(), copies.share), (&[0, 1][..], 0.5));
    // Records of TLS are longer than what was read.
    gathered.ways[1].bytes += gathered.ways[1].bytes / 700;
    assert_eq!(patterns(&gathered), []);
}

#[test]
fn a_prediction_is_the_ratio_weighed_by_the_share_of_cpu_time() {
    let advised = at_ratio(0.4);
    let [advice] = advised.as_slice() else {
        panic!("{advised:#?}");
    };
    assert_eq!(advice.found.pattern, "file-to-socket-by-copies");
    let Prediction::Saves {
        share, low, high, ..
    } = &advice.prediction
    else {
        panic!("{advice:#?}");
    };
    for (found, expected) in [
        (advice.found.share, 0.5),
        (*share, 0.3),
        (*low, 0.25),
        (*high, 0.35),
    ] {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }
}

#[test]
fn what_saves_less_than_three_per_cent_is_no_advice() {
    assert_eq!(at_ratio(0.93).len(), 1);
    assert_eq!(at_ratio(0.95), []);
    assert_eq!(at_ratio(1.5), []);
}

#[test]
fn without_a_run_there_is_the_command_that_measures_it() {
    let found = advice(&copying(), &mut |_, _, _| None);
    let Prediction::NotMeasured { command, .. } = &found[0].prediction else {
        panic!("{found:#?}");
    };
    assert_eq!(
        command,
        "bytecost run send-copies --mover read-write,sendfile --size 64KiB"
    );
}

#[test]
fn a_program_that_writes_mostly_something_else_copies_no_file() {
    let mut profile = copying();
    profile.ways[1].bytes *= 4;
    assert_eq!(patterns(&profile), []);
}

const SENDFILE: Price = Price {
    study: "send-copies",
    now: "read-write",
    instead: "sendfile",
    length: CallLength::Size,
    instead_bytes: None,
    side: Side::Sender,
};

#[test]
fn a_run_prices_both_ways_at_the_nearest_length_within_a_factor_of_two() {
    let world = World::new(STUDY).run(7, 16, 0.02, |cell| match cell.mover.as_str() {
        "sendfile" => True::costs(0.1),
        _ => True::costs(0.25),
    });
    let by = |price_of: &Price, bytes: f64| {
        measured_price(world.input(), price_of, bytes, Transport::Loopback)
    };
    let sends = Price {
        now: "send",
        ..SENDFILE
    };
    let priced = by(&sends, 60_000.0)
        .expect("it is measured")
        .expect("nothing withholds it");
    assert_eq!(priced.call_bytes, 65_536);
    // Narrow, but for the tenth that another program may differ by.
    let (low, high) = (priced.low * 1.1, priced.high / 1.1);
    assert!(
        0.37 < low && low < 0.4 && 0.4 < high && high < 0.43,
        "{priced:?}"
    );
    assert_eq!(by(&sends, 9e9), None, "no length is near");
    assert_eq!(by(&SENDFILE, 60_000.0), None, "it has no read-write");
    let unix = measured_price(world.input(), &sends, 60_000.0, Transport::Unix);
    assert_eq!(unix, None, "another transport");
}
