use super::*;
use crate::survey::{MoverFacts, ReceiverFacts, ServerFacts, ServerSurvey, ServiceFacts};

pub(super) const SMALL: &str = r#"
name = "small"
title = "Small"
question = "Which?"
prediction = "The first."
smallest-effect = "5%"
precision = "3%"
budget = "10s"
warmup = "10ms"
window = "50ms"
blocks-least = 6
blocks-most = 20

[axes]
mover = ["send", "sendfile"]
size = ["4KiB", 65536]
threads = [1, 2]

[[tier]]
title = "first"
[tier.axes]
size = ["64KiB"]
mover = ["send", "sendfile"]

[[compare]]
axis = "mover"
baseline = "send"
metrics = ["cpu_s_per_gb", "throughput_gbit_per_s"]

[[figure]]
title = "Throughput"
x = "size"
y = "throughput_gbit_per_s"
series = "mover"
"#;

/// A line of [`SMALL`].
const METRICS: &str = r#"metrics = ["cpu_s_per_gb", "throughput_gbit_per_s"]"#;

/// A survey with some names in its tables.
fn known() -> Survey {
    let mover = |(name, uses_fields)| MoverFacts {
        name,
        uses_fields,
        ..MoverFacts::default()
    };
    let service = |(name, sizes)| ServiceFacts {
        name,
        sizes,
        ..ServiceFacts::default()
    };
    let movers = [("send", false), ("sendfile", false), ("sendmsg", true)].map(mover);
    let services = [("top", None), ("echo", Some((1, 65_536)))].map(service);
    let server = |name: &str| ServerFacts {
        name: name.to_owned(),
        ..ServerFacts::default()
    };
    let receiver = ReceiverFacts {
        name: "recv".to_owned(),
        ..ReceiverFacts::default()
    };
    Survey {
        mover_facts: movers.iter().map(MoverFacts::owned).collect(),
        receiver_facts: vec![receiver],
        serving: Some(ServerSurvey {
            servers: ["single", "epoll"].map(server).into(),
            services: services.iter().map(ServiceFacts::owned).collect(),
            ..ServerSurvey::default()
        }),
        ..Survey::default()
    }
}

/// Checks the error for a study with lines added and the last occurrence of `from` replaced.
fn check(added: &str, from: &str, to: &str, expected: &str) {
    let whole = format!("{SMALL}{added}");
    let (before, after) = whole.rsplit_once(from).expect(from);
    let text = format!("{before}{to}{after}");
    let error = Study::parse(&text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

/// Checks rows of `from => to => error`.
fn check_all(added: &str, table: &str) {
    for line in table.lines() {
        let row: Vec<&str> = line.split(" => ").map(str::trim).collect();
        let [from, to, expected] = row.try_into().expect(line);
        check(added, from, to, expected);
    }
}

fn small() -> Study {
    Study::parse(SMALL).unwrap()
}

#[test]
fn cells_come_tier_by_tier_and_each_once() {
    let study = small();
    let cells = study.cells();
    assert_eq!(cells.len(), 8);
    assert_eq!(cells.iter().filter(|(tier, _)| *tier == 0).count(), 2);
    let is_first = |(_, c): &(usize, Cell)| c.size_bytes == 65_536 && c.threads == 1;
    assert!(cells[..2].iter().all(is_first));
    assert_eq!(study.check(&known()), Ok(()));
}

#[test]
fn an_error_has_its_line_and_column() {
    check_all(
        "",
        r#"budget = "10s" => budgte = "10s" => line 8, column 1: unknown field `budgte`
        threads = [1, 2] => threads = [] => line 17, column 11: axis `threads` has no values
        threads = [1, 2] => threads = [1.5] => line 17, column 12
        threads = [1, 2] => thread = [1] => line 17, column 1: axis `thread` is not known: did you mean `threads`?
        blocks-least = 6 => blocks-least = "six" => line 11, column 16: invalid type
        blocks-least = 6 => blocks-least = 2 => at least 6
        size = ["4KiB", 65536] => size = ["4KiB", 0] => line 16, column 17: size `0` is out of bounds
        size = ["4KiB", 65536] => size = "4KiB" => expected a list
        baseline = "send" => baseline = "sendto" => no value of axis `mover`
        axis = "mover" => axis = "weight" => line 26, column 8: axis `weight` is not known
        metrics = ["cpu_s_per_gb",  => metrics = ["cost",  => line 28, column 12: metric `cost` is not known
        x = "size" => x = "weight" => line 32, column 5: axis `weight` is not known
        y = "throughput_gbit_per_s" => y = "speed" => line 33, column 5: metric `speed` is not known
        question = "Which?" =>  => missing field `question`
        name = "small" => name = "small => line 2
        precision = "3%" => precision = "3 apples" => line 7, column 13"#,
    );
}

#[test]
fn the_word_pairs_is_replaced_by_several_placements() {
    let mut study = small();
    let placements = ["free", "pairs", "0:1"];
    study.set_axis(Axis::Placement, &placements).unwrap();
    let compare = Compare::new(Axis::Placement, "pairs", Vec::new());
    study.compare.push(compare);
    assert!(study.asks_for_pairs());
    study.take_pairs(&["0:0", "1:1", "0:1"].map(Value::from), &"0:1".into());
    assert!(!study.asks_for_pairs());
    let (_, values) = study.tiers[0].axes.last().unwrap();
    assert_eq!(values, &["free", "0:0", "1:1", "0:1"], "each once");
    assert_eq!(study.compare.last().unwrap().baseline, "0:1");
}

#[test]
fn the_command_line_narrows_a_study_to_the_named_values() {
    let mut study = small();
    let movers = ["sendfile", "sendmsg"];
    study.set_axis(Axis::Mover, &movers).unwrap();
    study.set_axis(Axis::Threads, &["4"]).unwrap();
    let cells = study.cells();
    let is_asked = |(_, c): &(usize, Cell)| c.threads == 4 && c.size_bytes == 65_536;
    assert!(cells.len() == 2 && cells.iter().all(is_asked));
    assert_eq!(
        study.compare[0].baseline, "sendfile",
        "the baseline is one of the values"
    );
    assert!(study.set_axis(Axis::Size, &["0"]).is_err());
}

#[test]
fn both_means_on_and_off_of_a_switch() {
    let mut study = small();
    for axis in [Axis::Nodelay, Axis::Cork, Axis::Quickack] {
        study.set_axis(axis, &["both", "off"]).unwrap();
        let values = study.tiers[0].axes.last().unwrap();
        assert_eq!(values, &(axis, vec![Value::Flag(true), Value::Flag(false)]));
    }
    assert_eq!(study.cells().len(), 2 * 2 * 2 * 2);
    assert!(study.set_axis(Axis::Pattern, &["both"]).is_err());
}

#[test]
fn times_have_bounds() {
    let check = |change: fn(&mut Study), expected: &str| {
        let mut study = small();
        change(&mut study);
        let error = study.check(&known()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let window = "window is out of bounds: from 1ms to 60s";
    check(|s| s.window_ms = 60_001, window);
    check(|s| s.warmup_ms = 0, "warmup is out of bounds");
    check(|s| s.budget_ms = u64::MAX, "budget is out of bounds");
}

#[test]
fn a_published_design_replaces_the_cells_and_the_number_of_blocks() {
    let tier = "\n[[as-published]]\ntitle = \"theirs\"\naxes = { mover = [\"send-fields\"], nodelay = [\"off\"] }\n";
    let most = "blocks-most = 20";
    let with_blocks = SMALL.replace(most, &format!("{most}\nas-published-blocks = 3"));
    let text = format!("{with_blocks}{tier}");
    let mut study = Study::parse(&text).unwrap();
    assert_eq!((study.blocks_least, study.blocks_most), (6, 20));
    let own = study.tiers.clone();
    study.choose_as_published().unwrap();
    assert_ne!(study.tiers, own);
    assert_eq!((study.blocks_least, study.blocks_most), (3, 3));
    assert_eq!(study.design.as_deref(), Some(AS_PUBLISHED));
    let cells = study.cells();
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].1.mover, "send-fields");
    assert_eq!(cells[0].1.receiver, Cell::default().receiver);
    let refusal = small().choose_as_published().unwrap_err().to_string();
    assert!(refusal.contains("no published design"), "{refusal}");
    let few = text.replace("blocks = 3", "blocks = 2");
    for (wrong, expected) in [
        (few, "from 3 to 10000"),
        (with_blocks, "which this study does not have"),
    ] {
        let error = Study::parse(&wrong).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

const EXPECTED: &str = r#"
[[expect]]
metric = "cpu_s_per_gb"
axis = "mover"
baseline = "send"
value = "sendfile"
where = { size = ["64KiB", 1048576], threads = [1] }
outcome = "no difference"
"#;

#[test]
fn an_expectation_holds_for_the_cells_that_it_names() {
    let study = Study::parse(&format!("{SMALL}{EXPECTED}")).unwrap();
    let [expect] = study.expects.as_slice() else {
        panic!("{:?}", study.expects)
    };
    assert_eq!(
        (expect.axis, expect.value.clone(), expect.outcome),
        (Axis::Mover, "sendfile".into(), Outcome::NoDifference)
    );
    let at = |size_bytes: u64, threads: u32, fields: u32| {
        let cell = Cell {
            size_bytes,
            threads,
            fields,
            ..Cell::default()
        };
        expect.holds_at(&CellFacts::new(&cell, &Survey::default()))
    };
    assert!(at(65_536, 1, 8) && at(1 << 20, 1, 4));
    assert!(!at(4096, 1, 8) && !at(65_536, 2, 8));
    let text = serde_json::to_string(&study).unwrap();
    assert_eq!(serde_json::from_str::<Study>(&text).unwrap(), study);
    assert_eq!(small().expects, []);
}

#[test]
fn an_error_in_an_expectation_has_its_place() {
    check_all(
        EXPECTED,
        r#""no difference" => "fine" => outcome `fine` is not known: choose from better, worse, no difference
        cpu_s_per_gb => speed => metric `speed` is not known
        axis = "mover" => axis = "weight" => axis `weight` is not known
        size = ["64KiB",  => size = ["0",  => size `0` is out of bounds
        where = { size = => where = { weight = => axis `weight` is not known"#,
    );
}

#[test]
fn names_fields_and_sizes_are_compared_with_the_tables() {
    let check = |values: &[(Axis, &str)], expected: &str| {
        let mut cell = Cell {
            size_bytes: 64,
            ..Cell::default()
        };
        for (axis, value) in values {
            cell.set(*axis, value).unwrap();
        }
        let error = (known().check(&cell).err()).map_or(String::new(), |e| e.to_string());
        let is_expected = error.contains(expected) && error.is_empty() == expected.is_empty();
        assert!(is_expected, "{values:?}: {error}");
    };
    use Axis::{Mover, Receiver, Server, Service, Size};
    let (fields, server) = ((Mover, "sendmsg"), (Server, "epoll"));
    check(&[fields, (Size, "4096")], "");
    check(&[fields, (Size, "1001")], "does not divide into 8 fields");
    let movers = "choose from send, sendfile, sendmsg";
    check(&[(Mover, "teleport")], movers);
    check(&[(Receiver, "catch")], "choose from recv");
    check(&[server], "");
    check(&[server, (Service, "top")], "");
    let servers = "server `epol` is not known: did you mean `epoll`?";
    check(&[(Server, "epol")], servers);
    check(&[server, (Service, "tip")], "did you mean `top`?");
    check(&[server, (Service, "static")], "choose from top, echo");
    let sizes = "size 1MiB is out of bounds for service `echo`: from 1 to 64KiB";
    check(&[server, (Size, "1MiB")], sizes);
    // Without a server its axes have no meaning.
    check(&[(Service, "tip")], "");
}

const PAIR: &str = r#"
[[pair]]
title = "sendfile against send"
metric = "throughput_gbit_per_s"
axis = "mover"
values = ["sendfile"]
against = "send"
where = { size = ["64KiB"] }
published = 2
"#;

#[test]
fn pairs_are_parsed_and_bounded() {
    let study = Study::parse(&format!("{SMALL}{PAIR}")).unwrap();
    let pair = &study.pairs[0];
    assert_eq!(
        (pair.axis, pair.against.clone()),
        (Axis::Mover, "send".into())
    );
    assert_eq!(pair.at, [(Axis::Size, vec![Value::Bytes(65_536)])]);
    assert_eq!((pair.published, &pair.note), (Some(2.0), &None));
    check_all(
        PAIR,
        r#"values = ["sendfile"] => values = [] => line 40, column 10: axis `mover`
        against = "send" => against = "sendfile" => compared with itself
        published = 2 => published = 0 => published 0 is out of bounds
        published = 2 => published = nan => out of bounds
        where = { size =  => where = { mover =  => `where` cannot name `mover`
        metric =  => metrics_ =  => unknown field `metrics_`"#,
    );
}

#[test]
fn an_effect_is_over_another_axis_of_several_values() {
    let over = |axis: &str| {
        let text = format!("baseline = \"send\"\nover = \"{axis}\"");
        Study::parse(&SMALL.replacen("baseline = \"send\"", &text, 1))
    };
    assert_eq!(over("size").unwrap().compare[0].over, Some(Axis::Size));
    for wrong in ["mover", "rate", "colour"] {
        assert!(over(wrong).is_err(), "{wrong}");
    }
    assert_eq!(small().compare[0].over, None);
}

#[test]
fn the_first_metric_of_a_comparison_is_primary_unless_the_study_says_otherwise() {
    use Family::{Exploratory, Primary, Secondary};
    let survey = Survey::default();
    let check = |key: &str, by_place: [[Family; 2]; 4]| {
        let text = SMALL.replacen(METRICS, &format!("{METRICS}\n{key}"), 1);
        let study = Study::parse(&text).unwrap();
        let compare = &study.compare[0];
        let places = [(4096, 1), (4096, 2), (65_536, 1), (65_536, 2)];
        for ((size_bytes, threads), expected) in places.into_iter().zip(by_place) {
            let cell = Cell {
                mover: "sendfile".to_owned(),
                size_bytes,
                threads,
                ..Cell::default()
            };
            let facts = CellFacts::new(&cell, &survey);
            let families = compare
                .metrics
                .iter()
                .map(|m| compare.family_of(&facts, *m));
            assert!(families.eq(expected), "{key} at {size_bytes}, {threads}");
        }
    };
    check("", [[Primary, Secondary]; 4]);
    check("family = \"primary\"", [[Primary, Secondary]; 4]);
    check("family = \"secondary\"", [[Secondary; 2]; 4]);
    check("family = \"exploratory\"", [[Exploratory; 2]; 4]);
    check("primary = [{ values = [\"writev\"] }]", [[Secondary; 2]; 4]);
    let at_64k = "primary = [{ values = [\"sendfile\"], where = { size = [\"64KiB\"] } }]";
    let [secondary, one] = [[Secondary; 2], [Primary, Secondary]];
    check(at_64k, [secondary, secondary, one, one]);
    let metric = "primary = [{ metric = \"throughput_gbit_per_s\", where = { threads = [2] } }]\nfamily = \"exploratory\"";
    let [exploratory, two] = [[Exploratory; 2], [Exploratory, Primary]];
    check(metric, [exploratory, two, exploratory, two]);
}

#[test]
fn an_axis_of_the_command_line_is_primary() {
    let parts = r#"throughput_gbit_per_s"]
primary = [{ where = { size = ["64KiB"], threads = [1] } }]"#;
    let with_primary = SMALL.replacen(r#"throughput_gbit_per_s"]"#, parts, 1);
    let mut declared = Study::parse(&with_primary).unwrap();
    declared.ask(&[]).unwrap();
    assert_eq!(
        declared.compare[0].primary.len(),
        1,
        "nothing was asked for"
    );
    declared.ask(&[(Axis::Threads, vec!["2".into()])]).unwrap();
    assert!(declared.compare[0].primary.is_empty());
    assert_eq!(declared.compare[0].family, Family::Primary);
    let secondary = parts.split_once('\n').unwrap().0.to_owned() + "\nfamily = \"secondary\"";
    let text = SMALL.replacen(r#"throughput_gbit_per_s"]"#, &secondary, 1);
    for (axis, value, family) in [
        (Axis::Size, "4KiB", Family::Secondary),
        (Axis::Mover, "send", Family::Primary),
    ] {
        let mut study = Study::parse(&text).unwrap();
        study.ask(&[(axis, vec![value.into()])]).unwrap();
        assert_eq!(study.compare[0].family, family, "{axis}");
    }
}

#[test]
fn an_error_in_a_family_names_it() {
    let check = |key: &str, expected: &str| {
        check("", METRICS, &format!("{METRICS}\n{key}"), expected);
    };
    let other = "no metric of this comparison";
    let both = "family = \"primary\"\nprimary = [{}]";
    check("family = \"first\"", "family `first` is not known");
    check("primary = [{ metric = \"latency_us_p50\" }]", other);
    check("primary = [{ where = { size = [\"many\"] } }]", "many");
    check(both, "leave family or primary out");
}

#[test]
fn only_studies_about_cpus_pin_threads() {
    const OF_CPUS: [&str; 6] = [
        "access-patterns",
        "cpu-to-cpu",
        "os-features",
        "placement",
        "server-models",
        "smt",
    ];
    let studies = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
    let mut free_studies = 0;
    for entry in std::fs::read_dir(studies).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let study = Study::parse(&text).unwrap();
        if OF_CPUS.contains(&study.name.as_str()) {
            continue;
        }
        free_studies += 1;
        let has_pinned = study.name == "pa02-a";
        for (tier, cell) in study.cells() {
            let is_pinned = has_pinned && study.tiers[tier].title == "pinned";
            let placement = if is_pinned { "pinned" } else { "free" };
            assert_eq!(cell.value(Axis::Placement), placement, "{}", study.name);
        }
        // Pinned cells are a comparison of their own, and are in no primary one.
        let free = (Axis::Placement, vec!["free".into()]);
        let mut parts = study.compare.iter().flat_map(|compare| &compare.primary);
        assert!(!has_pinned || parts.all(|part| part.at.contains(&free)));
    }
    assert_eq!(free_studies, 15 - OF_CPUS.len());
}

#[test]
fn arrivals_at_a_rate_are_poisson_unless_a_manifest_names_none() {
    let arrivals = |study: &Study| {
        let of_tier = |tier: &Tier| tier.values(Axis::Arrivals).to_vec();
        study.tiers.iter().map(of_tier).collect::<Vec<_>>()
    };
    let text = SMALL.replacen("size = [\"64KiB\"]", "rate = [100]", 1);
    let study = Study::parse(&text).unwrap();
    let (poisson, none) = (vec!["poisson".into()], Vec::<Value>::new());
    assert_eq!(arrivals(&study), [poisson.clone(), none.clone()]);
    let mut asked = small();
    asked.ask(&[(Axis::Rate, vec!["100".to_owned()])]).unwrap();
    assert_eq!(arrivals(&asked), [poisson]);
    let fixed = [(Axis::Arrivals, vec!["fixed".to_owned()])];
    let rate = [(Axis::Rate, vec!["100".to_owned()])];
    asked.ask(&[&fixed[..], &rate].concat()).unwrap();
    assert_eq!(arrivals(&asked), [vec![Value::from("fixed")]]);
    // A study in a manifest is read as it was written.
    let mut old = study.clone();
    old.tiers[0]
        .axes
        .retain(|(axis, _)| *axis != Axis::Arrivals);
    let json = serde_json::to_string(&old).unwrap();
    let read: Study = serde_json::from_str(&json).unwrap();
    assert_eq!(arrivals(&read), [none.clone(), none]);
    let cell = Cell::from_id(&(Cell::default().id() + "/server=epoll/rate=100")).unwrap();
    assert_eq!(cell.serving.arrivals, Arrivals::Fixed);
}

#[test]
fn a_study_of_tcp_within_a_machine_becomes_one_of_tcp_to_another_host() {
    let mut study = Study::parse(include_str!("../../../../studies/file-to-socket.toml")).unwrap();
    study.go_to_peer();
    let transports: Vec<&[Value]> = (study.tiers.iter())
        .map(|tier| tier.values(Axis::Transport))
        .collect();
    assert_eq!(transports[0], ["peer"]);
    assert!(study.prediction.starts_with("Of one machine: "));
    assert!(transports.iter().any(|values| **values == ["unix"]));
    assert!(transports.iter().all(|values| !values.is_empty()));
    let text = serde_json::to_string(&study).unwrap();
    assert!(
        !text.contains("\"loopback\"") && !text.contains("\"veth\""),
        "{text}"
    );
    let mut unnamed = small();
    unnamed.go_to_peer();
    let cells = unnamed.cells();
    assert!(cells.iter().all(|(_, c)| c.transport == Transport::Peer));
}
