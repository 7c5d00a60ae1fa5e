//! Servers by hand: `bytecost live server` and `bytecost live load`, as a newcomer starts them.

use crate::common::{Lack, Place, Started, says, skipped};
use crate::live_common::{MESSAGE, Server, last, line, objects, patient, places};
use bytecost_engine::SERVERS;
use rustix::process::Signal;
use serde_json::Value;

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}"))
}

#[test]
fn who_is_busy_is_told_to_a_person_to_clients_and_to_nc() {
    let served = Server::of_service("top");
    let lines = objects(&served.ask("--connections 4 --json").succeeded());
    let [answer, load] = &lines[..] else {
        panic!("{lines:?}");
    };
    let processes = answer["processes"].as_array().unwrap();
    assert!((1..=2).contains(&processes.len()), "{answer}");
    for process in processes {
        assert!(number(process, "pid") > 0 && process["user_s"].is_f64());
    }
    assert_eq!(number(load, "answers"), 4);
    let mut client = served.connected();
    for _ in 0..2 {
        says(&line(&mut client, "whatever\n"), &[" pid ", " kernel "]);
    }
    drop(client);
    let tally = served.tally(Signal::INT);
    assert_eq!(tally["model"], "epoll");
    assert_eq!(number(&tally, "requests"), 4 + 1 + 2);
    assert_eq!(number(&tally, "connections"), 4 + 1 + 1);
}

#[test]
fn an_answer_and_what_a_load_found_are_told_in_words() {
    let served = Server::of_service("top");
    // Where a line is wrapped depends on its figures.
    says(
        &served.ask("top --connections 3 --requests 2").flat(),
        &[
            "responds to `top`",
            "process pid user s kernel s",
            "over 3 connections, kept",
            "of 6 requests",
            "errors none",
        ],
    );
    let unasked = Server::of(Started::alone("live server echo --port 0"));
    let output = unasked.running.ended_by(Signal::INT).stdout;
    let nothing = "`epoll` served 0 requests of `echo` on 0 connections\n";
    assert_eq!(output, nothing);
}

#[test]
fn a_load_is_what_its_options_say() {
    let many = "--connections 4 --requests 3 --new-connections";
    for (serve, ask, answers, opened) in [
        ("echo", "--requests 20", 20, 1),
        (
            "echo --size 4KiB",
            "--size 4096 --connections 8 --requests 5",
            40,
            8,
        ),
        ("fixed --size 1MiB", "--size 1MiB --requests 3", 3, 1),
        ("echo", "--connections 6 --threads 3 --requests 7", 42, 6),
        ("echo", many, 12, 12),
        ("echo", "--connections 2 --depth 8 --requests 24", 48, 2),
        ("echo", "--connections 2 --idle 30 --ramp 50ms", 2, 32),
        ("echo", "--connections 2 --requests 2 --think 20ms", 4, 2),
        ("echo", "--connections 4 --requests 5 --rate 500", 20, 4),
        (
            "echo --model pool --workers 3 --connections 50",
            "--connections 40 --requests 3",
            120,
            40,
        ),
    ] {
        let service = serve.split(' ').next().unwrap();
        let ask = format!("{service} {ask}");
        let served = Server::of_service(serve);
        let load = served.asked(&ask);
        assert_eq!(number(&load, "answers"), answers, "{ask}: {load}");
        assert_eq!(number(&load, "connections_opened"), opened, "{ask}: {load}");
        assert_eq!(number(&load, "latency_count"), answers);
        let at = |key: &str| load[key].as_f64().unwrap();
        assert!(at("latency_us_p50") <= at("latency_us_p999"));
        assert!(at("latency_us_p999") <= at("latency_us_max") * 1.01);
        // Answers of an open loop may be missing from the rate, which the window makes.
        assert!(at("answers_per_s") > 0.0, "{load}");
        let tally = served.tally(Signal::TERM);
        assert_eq!(number(&tally, "requests"), answers + 1, "{ask}");
        assert_eq!(number(&tally, "connections"), opened + 1, "{ask}");
    }
}

#[test]
fn who_is_pinned_stays_so_with_all_threads_and_children() {
    for model in SERVERS {
        let served = Server::of_service(&format!("echo --cpu 0 --model {}", model.name));
        let mut clients: Vec<_> = (0..3).map(|_| served.connected()).collect();
        // The first one is in when it is answered; of a model in turn it is the only one.
        let waits_for = if model.in_turn { 1 } else { 3 };
        for client in &mut clients[..waits_for] {
            assert_eq!(line(client, MESSAGE), MESSAGE);
        }
        let places = places(served.running.pid());
        assert!(!places.is_empty());
        let are_there = places.iter().all(|p| p == "0");
        assert!(are_there, "{}: {places:?}", model.name);
        drop(clients);
        served.tally(Signal::INT);
    }
}

#[test]
fn ctrl_c_ends_a_load_which_tells_what_it_has_found() {
    let served = Server::of_service("echo");
    for how in [
        "--connections 2 --duration 100s",
        // Of a thousand years, all of which were once counted.
        "--rate 100 --requests 4000000000000",
    ] {
        let load = served.loaded(&format!("echo {how}"));
        let totals = last(&load.interrupted().stdout);
        assert_eq!(totals["interrupted"], true, "{how}");
        assert_eq!(number(&totals["errors"], "closed"), 0, "{how}");
    }
    served.tally(Signal::INT);
}

// Load by epoll and by io_uring, connections that are kept and new ones.
#[test]
fn servers_listen_at_ipv6_as_well() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return skipped(Lack::Machine, "IPv6");
    }
    for model in ["epoll", "thread", "uring"] {
        let served = Server::of_service(&format!("echo --model {model} --listen ::1"));
        for how in ["", "--new-connections", "--idle 2"] {
            let load = format!(
                "live load [::1]:{} echo --connections 2 --requests 20 {how} --json",
                served.port
            );
            let totals = last(&Place::new().call(patient(&load)).succeeded());
            assert_eq!(number(&totals, "answers"), 40, "{model} {how}: {totals}");
        }
        assert_eq!(served.tally(Signal::INT)["model"], model);
    }
}
