//! Claims files and published tables: any text.

use bytecost_report::layout::LAYOUTS;
use bytecost_spec::{Table, claim};

use crate::edit::edited;
use crate::target::target;

const CLAIMS: &str = include_str!("../../published/claims.toml");
const TABLES: &[&str] = &[
    include_str!("../../published/pa02-a.csv"),
    include_str!("../../published/pa02-b.csv"),
    include_str!("../../published/os-features.csv"),
];

/// Words of claims and tables, and some others.
const WORDS: &[&str] = &[
    "",
    "\n",
    "\r\n",
    ",",
    "\"",
    "=",
    "[",
    "]]",
    "{ size = [512] }",
    "[[claim]]",
    "[[claim.test]]",
    "[[claim.reason]]",
    "[[claim.beside]]",
    "kind = \"ratio\"",
    "kind = \"arithmetic\"",
    "expect = \"within 4..1\"",
    "otherwise = \"x\"",
    "tolerance = nan",
    "above 1e999",
    "from 8KiB",
    "1..8",
    "A1",
    "TwoCopy",
    "sync_io",
    "-1",
    "NaN",
    "inf",
    "1e300",
    "99999999999999999999",
    "0",
    "é",
    "\u{1b}[2J",
];

fn any_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    check_claims(&text);
    check_table(&text);
}

fn spoilt_claims(input: &[u8]) {
    let text = edited(CLAIMS.as_bytes(), WORDS, 4, input);
    check_claims(&String::from_utf8_lossy(&text));
}

fn spoilt_tables(input: &[u8]) {
    for table in TABLES {
        let text = edited(table.as_bytes(), WORDS, 4, input);
        check_table(&String::from_utf8_lossy(&text));
    }
}

fn check_claims(text: &str) {
    match claim::parse(text) {
        Ok(claims) => assert!(claims.iter().all(|c| c.tests.len() + c.reasons.len() > 0)),
        Err(error) => {
            let line = text.split('\n').nth(error.line.wrapping_sub(1));
            let columns = line.expect("a line of the text").chars().count() + 1;
            assert!((1..=columns).contains(&error.column), "{error}");
            assert!(!error.message.contains(char::is_control), "{error:?}");
        }
    }
}

fn check_table(text: &str) {
    match Table::parse("table", text) {
        Ok(table) => {
            for layout in LAYOUTS {
                if let Ok(published) = layout.published(&table) {
                    assert_eq!(published.cells.len(), table.rows.len());
                }
            }
        }
        Err(error) => {
            assert!(error.line >= 1, "{error}");
            assert!(!error.message.contains(char::is_control), "{error:?}");
        }
    }
}

target!(any_text_is_claims_a_table_or_an_error, 200, any_text);
target!(
    spoilt_claims_are_claims_or_an_error_with_its_place,
    300,
    spoilt_claims
);
target!(a_spoilt_table_is_a_table_or_an_error, 300, spoilt_tables);
