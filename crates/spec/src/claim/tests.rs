use super::*;
use crate::metric::Measure;

const HEAD: &str =
    "[[claim]]\nid = \"a\"\nsource = \"blog\"\nclaim = \"x beats y\"\nsettled_by = \"a run\"\n";

fn with(test: &str) -> String {
    format!("{HEAD}[[claim.test]]\n{test}\n")
}

fn refused(text: &str, line: usize, message: &str) {
    let e = parse(text).expect_err(text);
    assert_eq!(e.line, line, "{text}\n{e}");
    assert!(e.message.contains(message), "{e}");
    assert!(!e.to_string().contains('\n'));
}

/// The TOML of a test whose keys are written on one line, separated by ` / `.
fn lines(test: &str) -> String {
    test.replace(" / ", "\n")
}

#[test]
fn a_test_of_each_kind_is_read() {
    let contrast = r#"axis = "mover" / value = "sendmsg" / against = "send""#;
    let metric_key = r#"metric = "throughput_gbit_per_s""#;
    let table = r#"ratio | CONTRAST / METRIC / expect = "within 4.8..6" / where = { size = ["2KiB", 512], nodelay = ["off"] }
        crossover | CONTRAST / METRIC / expect = "from 8KiB"
        level | METRIC / expect = "is 0" / cells = "some"
        counter | CONTRAST / metrics = ["l1d_load_misses_per_kib", "llc_load_misses_per_kib"]
        stall | expect = "absent"
        scaling | METRIC / threads = "1..8" / expect = "below 1"
        arithmetic | table = "t" / column = "c" / other = { column = "d" } / expect = "among"
        copies-per-byte | expect = "below 0.05"
        not-in-this-run | study = "servers" / why = "needs servers""#;
    for row in table.lines() {
        let (kind, keys) = row.trim().split_once(" | ").unwrap();
        let test = keys
            .replace("CONTRAST", contrast)
            .replace("METRIC", metric_key);
        let text = with(&format!("kind = \"{kind}\"\n{}", lines(&test)));
        let claims = parse(&text).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert_eq!(claims[0].tests.len(), 1, "{kind}");
    }
    let copied = parse(&with("kind = \"copied-share\"\nexpect = \"below 0.01\"")).unwrap();
    assert!(
        matches!(&copied[0].tests[0].kind, TestKind::Level { metric, .. } if metric.measure == Measure::CopiedShare)
    );
}

#[test]
fn an_error_has_its_line() {
    refused("claim = 3", 1, "");
    refused("[[claim]]\nid = \"a\"\n", 1, "missing field");
    refused(HEAD, 2, "no [[claim.test]]");
    let table = r#"7 | kind = "vibes" | kind `vibes` is not known: choose from ratio
        8 | kind = "ratio" / colour = 3 | unknown field
        8 | kind = "stall" / metric = "cpu_s_per_gb" | a stall test has no `metric`
        7 | kind = "ratio" | a ratio test needs `axis`
        8 | kind = "level" / metric = "speed" / expect = "above 1" | metric `speed` is not known
        9 | kind = "level" / metric = "cpu_s_per_gb" / expect = "above NaN" | no expectation
        9 | kind = "level" / metric = "cpu_s_per_gb" / expect = "within 6..4" | no expectation
        9 | kind = "level" / metric = "cpu_s_per_gb" / expect = "among" | arithmetic
        8 | kind = "stall" / where = { size = ["big"] } | `big` is not a size
        8 | kind = "stall" / cells = "half" | every
        8 | kind = "stall" / expect = "maybe" | present
        8 | kind = "stall" / otherwise = "x" | [[claim.reason]]
        10 | kind = "ratio" / axis = "mover" / value = "send" / against = "send" | the same
        10 | kind = "scaling" / metric = "cpu_s_per_gb" / expect = "below 1" / threads = "8..1" | within-cpus"#;
    for row in table.lines() {
        let [line, test, says] = row.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        refused(&with(&lines(test)), line.parse().unwrap(), says);
    }
    let reason = format!("{HEAD}[[claim.reason]]\nkind = \"stall\"\n");
    refused(&reason, 7, "otherwise");
    let twice = with("kind = \"stall\"").repeat(2);
    refused(&twice, 9, "is there already");
    refused(&" ".repeat(MAX_CLAIMS_BYTES + 1), 1, "at most");
    let stall = with("kind = \"stall\"");
    let many = (0..=MAX_CLAIMS).map(|i| stall.replace("\"a\"", &format!("\"a{i}\"")));
    let error = parse(&many.collect::<String>()).unwrap_err();
    assert!(error.message.contains("at most"), "{error}");
}

#[test]
fn expectations_are_met_or_not() {
    for (text, value, met) in [
        ("above 1", 1.0, Some(false)),
        ("above 1", 1.1, Some(true)),
        ("below 0.5", 0.4, Some(true)),
        ("within 4.8..6", 6.0, Some(true)),
        ("within 4.8..6", 3.7, Some(false)),
        ("is 0", 9.0, Some(false)),
        ("alike", 1.0, None),
    ] {
        let expected: Expected = text.parse().unwrap();
        assert_eq!(expected.is_met(value), met, "{text} {value}");
    }
    let bad = "|above|above x|above -1|within 1|around 3|alike 3";
    for text in bad.split('|') {
        assert!(text.parse::<Expected>().is_err(), "{text}");
    }
}

#[test]
fn nodelay_conditions_use_the_value_in_effect() {
    let mut cell = Cell::default();
    cell.set(Axis::Pattern, "request-response").unwrap();
    let nodelay = |value: &str| vec![(Axis::Nodelay, vec![value.into()])];
    for (value, at) in [("on", true), ("auto", true), ("off", false)] {
        assert_eq!(is_at(&cell, &nodelay(value)), at, "{value}");
    }
    assert!(is_at(&cell, &Vec::new()));
}

const GUIDE: &str = include_str!("../../../../published/README.md");

#[test]
fn the_worked_example_of_the_guide_is_a_claims_file() {
    let (_, example) = GUIDE.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let claims = parse(example).unwrap();
    assert_eq!((claims[0].tests.len(), claims[0].reasons.len()), (2, 1));
}

#[test]
fn the_guide_describes_every_kind_of_test_with_its_keys() {
    for (kind, keys) in raw::KINDS {
        let begin = format!("| `{kind}` |");
        let row = GUIDE
            .lines()
            .find(|l| l.starts_with(&begin))
            .unwrap_or_else(|| panic!("{kind}"));
        let common = ["where", "cells"];
        for key in keys.split(' ').filter(|k| !common.contains(k)) {
            assert!(row.contains(&format!("`{key}")), "{kind}: {key}");
        }
    }
}

#[test]
fn a_claim_names_the_studies_that_settle_it() {
    let level = "kind = \"copies-per-byte\"\nexpect = \"is 0\"";
    let claim = |text: &str| parse(text).unwrap().remove(0);
    let alone = claim(&with(level));
    assert!(alone.is_of_study("blog") && !alone.is_of_study("files"));
    let text = with(level).replace("claim = ", "studies = [\"files\", \"copies\"]\nclaim = ");
    let two = claim(&text);
    assert!(two.is_of_study("files") && two.is_of_study("copies") && !two.is_of_study("blog"));
    let odd = with(level).replace("claim = ", "studies = [\"no name\"]\nclaim = ");
    refused(&odd, 4, "a name is made of");
}

#[test]
fn only_an_arithmetic_test_takes_a_mean_and_a_ratio_can_be_left_unmeasured() {
    let sum = lines(r#"kind = "arithmetic" / table = "t" / column = "c" / expect = "is 2" / "#);
    let ratio = lines(
        r#"kind = "ratio" / metric = "throughput_gbit_per_s" / axis = "mover" / value = "a" / against = "b" / expect = "above 1" / "#,
    );
    let among = sum.replace("is 2", "among") + "other = { column = \"d\" }\n";
    let [mean, some, most] = ["mean", "some", "most"].map(|n| format!("cells = \"{n}\""));
    let unmeasured = "if-measured = true";
    let test = |keys: &str, more: &str| {
        let claim = parse(&with(&format!("{keys}{more}"))).unwrap().remove(0);
        claim.tests[0].clone()
    };
    let of_mean = |more: &str| match test(&sum, more).kind {
        TestKind::Arithmetic(sum) => sum.of_mean,
        other => panic!("{other:?}"),
    };
    assert!(of_mean(&mean) && !of_mean("") && !of_mean(&some));
    assert!(test(&ratio, unmeasured).if_measured && !test(&ratio, "").if_measured);
    assert_eq!(test(&ratio, &most).cells, Quantity::Most);
    for (keys, more, line, message) in [
        (&among, &*mean, 10, "`among` is for"),
        (&ratio, &*mean, 13, "arithmetic test"),
        (&sum, unmeasured, 11, "has no `if-measured`"),
    ] {
        refused(&with(&format!("{keys}{more}")), line, message);
    }
}

#[test]
fn an_observation_next_to_a_claim_is_a_test_without_a_reason() {
    let beside = "[[claim.beside]]\nkind = \"copies-per-byte\"\nexpect = \"is 0\"\n";
    let text = with("kind = \"copies-per-byte\"\nexpect = \"is 0\"");
    let claim = parse(&format!("{text}\n{beside}")).unwrap().remove(0);
    assert_eq!((claim.tests.len(), claim.beside.len()), (1, 1));
    let says = parse(&format!("{text}\n{beside}says = \"x\"\n")).unwrap();
    assert_eq!(says[0].beside[0].says.as_deref(), Some("x"));
    for (odd, key) in [
        (format!("{text}\n{beside}otherwise = \"x\"\n"), "otherwise"),
        (format!("{text}\nsays = \"x\"\n"), "says"),
    ] {
        let error = parse(&odd).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}` belongs to")), "{error}");
    }
    // It decides nothing, so that it alone is no claim.
    let alone = text.replace("[[claim.test]]", "[[claim.beside]]");
    let error = parse(&alone).unwrap_err().to_string();
    assert!(error.contains("has no [[claim.test]]"), "{error}");
}
