//! What a server by hand meets on an open port and where a limit is reached, and what is refused.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use crate::common::{Ended, PATIENCE, Place, ended, nobody, says, until};
use crate::live_common::{ENDING, Running, last, objects};
use crate::service_common::{Served, is_closed, line, patient};
use bytecost_engine::SERVERS;
use rustix::process::Signal;

/// A message of `echo` that is a line as well.
fn message() -> String {
    format!("{}\n", "x".repeat(63))
}

#[test]
fn what_is_bad_is_refused_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let place = Place::new();
    place.refuses(
        "live server",
        &format!(
            "top --port {port} => port {port} is in use | choose another
            zap => 'zap'
            ecko => 'ecko' | 'echo'
            top --mover send => --mover
            top --model warp => `warp` | choose from single | uring
            top --size 64 => --size | top
            echo --size 0 => size `0` | 1 to 65536
            echo --size 1MiB => size `1048576` | 1 to 65536
            echo --workers 2 => `epoll` | --workers | pool
            top --patience 0 => patience `0s` | 1ms
            top --idle-timeout 9h => idle-timeout | 3600s
            top --listen 192.0.2.7 => 192.0.2.7 lets anyone | --insecure
            top --listen 192.0.2.7 --insecure => 192.0.2.7 is no address"
        ),
    );
    for command in ["live server top --port 0", "live load 127.0.0.1:1"] {
        place.refuses(
            command,
            "--cpu 60000 => CPU 60000 does not exist | choose from 0
            --cpu 0-60000 => does not exist
            --cpu x => --cpu `x` | 0-3,8
            --cpu 1-0 => runs backwards
            --cpu , => --cpu `,`",
        );
    }
    place.refuses(
        "live",
        "send --mover send top => 'top'
        load nowhere => `nowhere` is no IP address
        load 127.0.0.1 zap => `zap` | top, echo, fixed
        load --size 64 => --size | top
        load --connections 0 => 0 connections
        load --threads 2 => 2 threads | 1 connection
        load --depth 2 --think 1s => depth 2
        load --rate 0 => rate 0
        load --rate 5 --think 1s => --rate | --think
        load --duration 0s => duration `0s`
        load --ramp 48h => ramp | 86400s
        load --requests 1 --duration 1s => --requests | --duration",
    );
}

#[test]
fn nobody_and_somebody_else_are_told_with_what_to_do() {
    let (_held, port) = nobody();
    let check = |end: Ended, expected: &str| {
        assert_eq!((end.status, end.stderr.lines().count()), (Some(1), 1));
        says(&end.stderr, &[expected]);
    };
    let end = Place::new().call(format!("live load 127.0.0.1:{port} echo"));
    let told = format!("start `bytecost live server echo --port {port}`");
    check(end, &told);
    let served = Served::start("echo --size 100");
    for ask in ["echo --size 101", "fixed --size 4"] {
        let end = served.ask(&format!("{ask} --patience 300ms"));
        check(end, "no response from");
    }
    check(Served::start("fixed --size 100").ask("top"), "same service");
}

#[test]
fn a_signal_under_load_ends_every_model_with_its_tally() {
    for model in SERVERS {
        let mut served = Served::start(&format!("echo --model {}", model.name));
        let connections = if model.in_turn { 1 } else { 8 };
        let mut load = served.loaded(&format!("echo --connections {connections} --duration 100s"));
        load.until("an answer", |out, _| !objects(out).is_empty());
        // Besides, some who say nothing, who say half, and who do not read.
        let mut others = Vec::new();
        if !model.in_turn {
            for words in ["", "half a message"] {
                let mut client = served.client();
                assert_eq!(line(&mut client, &message()), message()); // it is in
                client.write_all(words.as_bytes()).unwrap();
                others.push(client);
            }
        }
        served
            .running
            .until("nothing on stdout", |out, _| out.is_empty());
        let tally = served.end(Signal::TERM);
        assert!(tally["requests"].as_u64().unwrap() > 0, "{}", model.name);
        assert!(others.iter_mut().all(is_closed), "{}", model.name);
        // The load ends by itself, long before its time, and says when the server went.
        let end = load.end(ENDING);
        assert_eq!(end.status, Some(1), "{}", model.name);
        let told = last(&end.stdout);
        assert!(told["server_gone_s"].is_number(), "{told}");
        assert!(told["elapsed_s"].as_f64().unwrap() < 99.0, "{told}");
        assert_eq!(told["errors"]["wrong"], 0, "{told}");
        assert_eq!(told["errors"]["timeout"], 0, "{told}");
    }
}

#[test]
fn an_answer_that_is_under_way_is_finished() {
    const SIZE: usize = 1 << 20;
    for model in SERVERS {
        let served = Served::start(&format!("fixed --size 1MiB --model {}", model.name));
        let mut client = served.client();
        client.write_all(b"get\nget\n").unwrap();
        let mut answers = vec![0; 2 * SIZE];
        client.read_exact(&mut answers[..1000]).unwrap(); // it is under way
        served.running.send(Signal::INT);
        client.read_exact(&mut answers[1000..]).unwrap();
        assert_eq!(answers[SIZE - 1], b'\n');
        assert!(is_closed(&mut client));
        let end = served.running.end(ENDING);
        assert_eq!(end.status, Some(0), "{}: {}", model.name, end.stderr);
        assert_eq!(last(&end.stdout)["requests"], 2, "{}", model.name);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for model in SERVERS {
        let served = Served::start(&format!("fixed --size 1MiB --model {}", model.name));
        let mut client = served.client();
        client.write_all(b"get\nget\nget\nget\n").unwrap();
        client.read_exact(&mut [0]).unwrap(); // the answers wait for somebody to read them
        // Both signals are there when it goes on: the end does not depend on who is faster.
        served.running.send(Signal::STOP);
        served.running.send(Signal::INT);
        served.running.send(Signal::TERM);
        served.running.send(Signal::CONT);
        let end = served.running.end(ENDING);
        assert_eq!(end.status, Some(130), "{}", model.name);
        assert_eq!(end.stdout, "", "{}", model.name);
        assert!(is_closed(&mut client), "{}: a child is left", model.name);
    }
}

#[test]
fn what_a_client_does_wrong_is_in_the_tally() {
    let served = Served::start("top --patience 3s --idle-timeout 3s");
    let mut long = served.client();
    let _ = long.write_all(&vec![b'x'; 10 << 20]);
    let _ = long.shutdown(Shutdown::Write);
    assert!(is_closed(&mut long));
    let mut half = served.client();
    half.write_all(b"to").unwrap();
    let mut silent = served.client();
    assert!(is_closed(&mut half));
    assert!(is_closed(&mut silent));
    served.asked("top");
    let tally = served.end(Signal::INT);
    assert_eq!(tally["too_long"], 1, "{tally}");
    assert_eq!(tally["timed_out"], 2, "{tally}");
    assert_eq!(tally["requests"], 2, "{tally}");
}

/// Started by a shell with a limit set.
fn limited(limit: &str, words: &str) -> Served {
    let place = Place::new();
    let command = &mut place.limited(limit, &patient(words));
    Served::of(Running::of(place, command))
}

#[test]
fn the_limit_of_descriptors_is_raised_as_far_as_is_allowed_and_told_beyond() {
    let check = |words: &str| {
        let end = ended(&mut Place::new().limited("-n 200", words));
        end.refused(&["ulimit -Hn", "200 are allowed"]);
    };
    check("live server echo --port 0 --connections 1000");
    check("live load 127.0.0.1:1 --connections 1000");
    check("live load 127.0.0.1:1 --idle 1000");
    // Soft below hard: raised.
    let served = limited(
        "-Sn 100",
        "live server echo --port 0 --connections 300 --json",
    );
    let load = served.asked("echo --connections 200 --requests 2");
    assert_eq!(load["answers"], 400);
    served.end(Signal::INT);
}

#[test]
fn at_its_limit_a_server_serves_those_that_it_has_and_later_the_others() {
    for model in ["epoll", "uring", "pool", "thread"] {
        let words = format!("live server echo --port 0 --json --model {model}");
        let served = limited("-n 100", &words);
        let mut clients: Vec<_> = (0..120).map(|_| served.client()).collect();
        for client in &mut clients {
            client.write_all(message().as_bytes()).unwrap();
        }
        // Those at the end of the queue are served once the others have gone.
        for mut client in clients {
            let mut answer = vec![0; message().len()];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, message().as_bytes());
        }
        let tally = served.end(Signal::INT);
        assert_eq!(tally["requests"], 120, "{model}");
        assert!(tally["put_off"].as_u64().unwrap() > 0, "{model}: {tally}");
    }
}

#[test]
fn select_is_not_to_be_had_beyond_its_sets() {
    let words = "live server top --port 0 --model select --connections 1001";
    let end = Place::new().call(words);
    end.refused(&["FD_SETSIZE", "poll or epoll"]);
    let served = Served::start("echo --model select");
    assert!(served.running.err().contains("at most 1000 connections"));
    let mut first = served.client();
    assert_eq!(line_of(&mut first), message());
    // Those beyond are closed, and those within go on.
    let end = served.ask("echo --idle 1100 --json");
    assert_eq!(end.status, Some(1), "{}{}", end.stdout, end.stderr);
    let told = last(&end.stdout);
    let errors = ["closed", "reset"].map(|kind| told["errors"][kind].as_u64().unwrap());
    assert!(errors.iter().sum::<u64>() > 0, "{told}");
    assert_eq!(line_of(&mut first), message());
    assert!(served.end(Signal::INT)["broken"].as_u64().unwrap() > 0);
}

fn line_of(client: &mut std::net::TcpStream) -> String {
    line(client, &message())
}

/// The hard limit of descriptors.
fn descriptors() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|l| l.starts_with("Max open files"));
    let hard = line.unwrap().split_whitespace().nth(4).unwrap();
    hard.parse().unwrap_or(u64::MAX)
}

#[test]
fn ten_thousand_connections_are_held_and_served() {
    let most = descriptors().saturating_sub(200).min(10_000);
    let asking = most / 5;
    for model in ["poll", "epoll", "uring"] {
        let served = Served::start(&format!("echo --model {model}"));
        let load = served.asked(&format!(
            "echo --connections {asking} --idle {} --requests 2",
            most - asking
        ));
        assert_eq!(load["answers"], 2 * asking, "{model}");
        assert_eq!(load["connections_opened"], most, "{model}");
        assert_eq!(load["connection_answers_min"], 2, "{model}");
        // It has let go of all of them but its own few.
        let pid = served.running.pid();
        until("descriptors are let go", PATIENCE, || {
            fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() < 40
        });
        assert_eq!(served.end(Signal::INT)["connections"], most + 1, "{model}");
    }
}
