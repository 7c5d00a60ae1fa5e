//! Writes what the report makes of the tests' results, to look at and for the page tests:
//! `cargo run -p bytecost-report --example sample_page -- report.html [planted|plain|hostile|empty|paired]`,
//! with `figures` the figures as SVG files into that directory,
//! or with `findings` or `hosts` the JSON of it; `schemas` writes what describes that into that directory.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::error::Error;
use std::fs::write;

use bytecost_report::hosts::{self, HostRun};
use bytecost_report::{findings_json, html, pictures};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .ok_or("name the file to write, for example report.html")?;
    let text = match args.next().as_deref() {
        None | Some("planted") => html(&fixture::planted()),
        Some("plain") => html(&fixture::analysis()),
        Some("hostile") => html(&fixture::hostile()),
        Some("empty") => html(&fixture::empty()),
        Some("paired") => html(&fixture::distances::paired()),
        Some("figures") => return figures(&path),
        Some("findings") => findings_json(&fixture::planted()),
        Some("hosts") => two_hosts(),
        Some("schemas") => return schemas(&path),
        Some(other) => {
            return Err(format!(
                "`{other}` is not known: choose from planted, plain, hostile, empty, paired, figures, findings, hosts, schemas"
            )
            .into());
        }
    };
    Ok(write(&path, text)?)
}

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

fn schemas(dir: &str) -> Result<(), Box<dyn Error>> {
    for (file, schema) in bytecost_report::schemas() {
        write(format!("{dir}/{file}.schema.json"), schema)?;
    }
    Ok(())
}

fn figures(dir: &str) -> Result<(), Box<dyn Error>> {
    for (kind, a) in [
        ("run", fixture::planted()),
        ("paired", fixture::distances::paired()),
    ] {
        for picture in pictures(&a) {
            write(format!("{dir}/{kind}-{}.svg", picture.name), picture.svg)?;
        }
    }
    Ok(())
}
