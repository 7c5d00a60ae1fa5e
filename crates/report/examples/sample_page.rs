//! Writes what the report makes of the tests' example result, to look at and for the page tests:
//! `cargo run -p bytecost-report --example sample_page -- report.html [latency|plain|hostile|empty]`,
//! or with `findings` or `schema` the JSON of it.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::process::ExitCode;

use bytecost_report::{findings_json, html, schema_json};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("name the file to write, for example report.html");
        return ExitCode::FAILURE;
    };
    let text = match args.next().as_deref() {
        None | Some("latency") => html(&fixture::with_latency()),
        Some("plain") => html(&fixture::analysis()),
        Some("hostile") => html(&fixture::hostile()),
        Some("empty") => html(&fixture::empty()),
        Some("findings") => findings_json(&fixture::with_latency()),
        Some("schema") => schema_json(),
        Some(other) => {
            eprintln!(
                "`{other}` is not known: choose from latency, plain, hostile, empty, findings, schema"
            );
            return ExitCode::FAILURE;
        }
    };
    match std::fs::write(&path, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{path}: {e}");
            ExitCode::FAILURE
        }
    }
}
