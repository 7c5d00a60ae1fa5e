//! Writes what the report makes of the tests' results, to look at and for the page tests:
//! `cargo run -p bytecost-report --example sample_page -- report.html [planted|plain|hostile|empty|imported|paired]`,
//! with `figures` the figures as SVG and PNG files into that directory,
//! or with `findings` or `hosts` the JSON of it; `schemas` writes what describes that into that directory.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::io;
use std::process::ExitCode;

use bytecost_report::hosts::{self, HostRun};
use bytecost_report::{JsonSchemaRow, SCHEMAS, findings_json, html, pictures, png};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("name the file to write, for example report.html");
        return ExitCode::FAILURE;
    };
    let text = match args.next().as_deref() {
        None | Some("planted") => html(&fixture::planted()),
        Some("plain") => html(&fixture::analysis()),
        Some("hostile") => html(&fixture::hostile()),
        Some("empty") => html(&fixture::empty()),
        Some("imported") => html(&fixture::imported()),
        Some("paired") => html(&fixture::distances::paired()),
        Some("figures") => return figures(&path),
        Some("findings") => findings_json(&fixture::planted()),
        Some("hosts") => two_hosts(),
        Some("schemas") => return schemas(&path),
        Some(other) => {
            eprintln!(
                "`{other}` is not known: choose from planted, plain, hostile, empty, imported, paired, figures, findings, hosts, schemas"
            );
            return ExitCode::FAILURE;
        }
    };
    written(&path, std::fs::write(&path, text))
}

fn written(path: &str, written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{path}: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs of two hosts in one table.
fn two_hosts() -> String {
    let analyses = [fixture::planted(), fixture::analysis()];
    let run = |(host, analysis)| HostRun {
        host,
        build: None,
        analysis,
    };
    let runs: Vec<HostRun<'_>> = ["db7", "db8"].into_iter().zip(&analyses).map(run).collect();
    hosts::json(&hosts::table(&runs))
}

fn schemas(dir: &str) -> ExitCode {
    let write = |row: &JsonSchemaRow| {
        let path = format!("{dir}/{}.schema.json", row.file);
        std::fs::write(path, row.json())
    };
    written(dir, SCHEMAS.iter().try_for_each(write))
}

fn figures(dir: &str) -> ExitCode {
    for (kind, a) in [
        ("run", fixture::planted()),
        ("imported", fixture::imported()),
        ("paired", fixture::distances::paired()),
    ] {
        for picture in pictures(&a) {
            let path = format!("{dir}/{kind}-{}", picture.name);
            let dots = match png(&picture) {
                Ok(dots) => dots,
                Err(e) => {
                    eprintln!("{path}: {e}");
                    return ExitCode::FAILURE;
                }
            };
            let written = std::fs::write(format!("{path}.svg"), picture.svg)
                .and_then(|()| std::fs::write(format!("{path}.png"), dots));
            if let Err(e) = written {
                eprintln!("{path}: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
