//! Writes what the report makes of the tests' results, to look at and for the page tests:
//! `cargo run -p bytecost-report --example sample_page -- report.html [planted|plain|hostile|empty|imported|paired]`,
//! with `figures` the figures as SVG and PNG files into that directory,
//! or with `findings` or `schema` the JSON of it.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::process::ExitCode;

use bytecost_report::{findings_json, html, pictures, png, schema_json};

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
        Some("schema") => schema_json(),
        Some(other) => {
            eprintln!(
                "`{other}` is not known: choose from planted, plain, hostile, empty, imported, paired, figures, findings, schema"
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
