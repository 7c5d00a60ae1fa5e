//! Known answers of SciPy; fixtures.py says how they were made.

use bytecost_stats::*;
use serde_json::Value;

fn fixtures() -> Value {
    serde_json::from_str(include_str!("fixtures.json")).expect("fixtures.json is JSON")
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(number).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[track_caller]
fn check(what: &str, value: Option<f64>, expected: f64) {
    let found = value.unwrap_or(f64::NAN);
    let slack = 1e-9 * expected.abs().max(1e-3);
    assert!(
        (found - expected).abs() <= slack,
        "{what}: {found} against {expected}"
    );
}

#[test]
fn series_have_the_known_answers() {
    for series in list(&fixtures()["series"]) {
        let values = numbers(&series["values"]);
        let name = series["name"].as_str().expect("a name");
        let check = |what: &str, found: Option<f64>, expected: &Value| {
            check(&format!("{name}: {what}"), found, number(expected));
        };
        check("variance", variance(&values), &series["variance"]);
        for pair in list(&series["quantiles"]) {
            check("quantile", quantile(&values, number(&pair[0])), &pair[1]);
        }
        check("lag 1", lag1_autocorrelation(&values), &series["lag1"]);
        let student = student_mean(&values).expect("two values or more");
        let interval = student.interval(0.95).expect("a level");
        let known = &series["student"];
        check("t test", student.p_value(0.0), &known["p"]);
        check("t low", Some(interval.low), &known["low"]);
        check("t high", Some(interval.high), &known["high"]);
    }
}

#[test]
fn trimmed_means_have_the_known_answers() {
    for series in list(&fixtures()["series"]) {
        let values = numbers(&series["values"]);
        let known = &series["trimmed"];
        let found = trimmed_mean(&values).expect("two values or more");
        check("value", Some(found.value), number(&known["value"]));
        check("value alone", trimmed_mean_value(&values), found.value);
        check(
            "error",
            Some(found.standard_error),
            number(&known["standard_error"]),
        );
        let classical = number(&known["classical_degrees"]);
        let p = t_two_sided_p(found.value / found.standard_error, classical);
        check("p", p, number(&known["classical_p"]));
        let factor = if values.len() < 5 {
            1.0
        } else {
            TRIMMED_DEGREES_FACTOR
        };
        check("degrees", Some(found.degrees), factor * classical);
        let wider = found.p_value(0.0).expect("a p value");
        assert!(wider >= number(&known["classical_p"]) - 1e-12);
    }
}

#[test]
fn trends_have_the_known_answers() {
    for series in list(&fixtures()["series"]) {
        let values = numbers(&series["values"]);
        let known = &series["trend"];
        if known.is_null() {
            assert_eq!(mann_kendall(&values), None);
            continue;
        }
        let found = mann_kendall(&values).expect("a trend");
        check("p", Some(found.p), number(&known["p"]));
        check("slope", Some(found.slope), number(&known["slope"]));
    }
}

#[test]
fn the_t_distribution_has_the_known_answers() {
    for row in list(&fixtures()["t_quantiles"]) {
        let row = numbers(row);
        let found = t_quantile(row[0], row[1]).expect("a quantile");
        let error = (found - row[2]).abs();
        assert!(error <= 1e-8 * row[2].abs(), "quantile {row:?}: {found}");
    }
    for row in list(&fixtures()["t_two_sided_p"]) {
        let row = numbers(row);
        let found = t_two_sided_p(row[0], row[1]).expect("a p value");
        let error = (found - row[2]).abs();
        assert!(error <= 1e-9 * row[2], "p {row:?}: {found}");
    }
}

#[test]
fn holm_has_the_known_answers() {
    for row in list(&fixtures()["holm"]) {
        let found = holm(&numbers(&row["p"]));
        let expected = numbers(&row["corrected"]);
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            check("corrected", Some(*f), e);
        }
    }
}
