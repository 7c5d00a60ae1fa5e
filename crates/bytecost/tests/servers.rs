//! The study of servers from the command line to its report, and what a served trial leaves when
//! the run is killed or another one cleans up.

use crate::common::{PATIENCE, Place, ended, endpoints_of, records, says, until};
use rustix::process::Signal;
use serde_json::Value;

/// What the processes of one trial are: the coordinator's two, the server, and its children.
const SERVED: &str = "run server-models --placement free --blocks 6 --warmup 2ms --budget 60s";

#[test]
fn a_study_of_servers_is_measured_and_told() {
    let place = Place::new();
    let words = format!("{SERVED} --window 100ms --server epoll,thread,select --connections 2");
    place.call(words).measured();
    let found = place.json("findings.json");
    let cells = found["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3, "no loop's cost beside them");
    for cell in cells.iter().filter(|c| c["trials"].as_u64() > Some(0)) {
        let estimates = &cell["estimates"];
        for metric in [
            "messages_per_s",
            "latency_us_p99",
            "server_cpu_ns_per_message",
            "client_context_switches_per_message",
            "memory_kib_per_connection",
        ] {
            assert!(estimates[metric]["value"].is_number(), "{metric}: {cell}");
        }
        assert!(estimates.get("throughput_gbit_per_s").is_none());
    }
    let roles = found["roles"].as_array().unwrap();
    let measured = cells.iter().filter(|c| c["trials"].as_u64() > Some(0));
    assert_eq!(
        roles.len(),
        2 * measured.count(),
        "the server and its clients"
    );
    for counter in roles.iter().flat_map(|r| r["counters"].as_array().unwrap()) {
        assert_ne!(
            counter["per_request"].is_number(),
            counter["absent"].is_string(),
            "{counter}"
        );
    }
    let asked = found["explanations"].as_array().unwrap().iter();
    let asked: Vec<&str> = asked.map(|e| e["key"].as_str().unwrap()).collect();
    assert_eq!(
        asked,
        [
            "which-server",
            "idle-connections",
            "clients-share",
            "memory-per-connection",
            "single-soonest",
            "unexpected"
        ]
    );
    let claims = found["audit"].as_array().unwrap();
    assert_eq!(claims.len(), 3, "{claims:?}");
    says(&place.read("samples.csv"), &["server", "connections"]);
}

/// So many that they are greeted one by one: none is lost, and none fails.
#[test]
fn thousands_of_connections_are_a_trial_like_any() {
    let place = Place::new();
    let words = format!(
        "{SERVED} --window 100ms --server epoll --service echo --size 64 --connections 3000 --connect kept --idle 0"
    );
    place.call(words).measured();
    let found = place.json("findings.json");
    let cells = found["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1);
    assert!(cells[0]["trials"].as_u64() > Some(0), "{found:#}");
    let caveats = found["caveats"].as_array().unwrap();
    assert!(
        caveats.iter().all(|d| d["kind"] != "failed-requests"),
        "{caveats:#?}"
    );
}

/// Clients that think for longer than a window lasts: it is made longer until something comes, and
/// no trial fails. The longest is over a second, so that a busy machine leaves time for it.
#[test]
fn a_window_in_which_nothing_came_is_made_longer() {
    let place = Place::new();
    let words = format!(
        "{SERVED} --window 20ms --server epoll --service echo --size 64 --connections 1 --connect kept --idle 0 --think 300ms"
    );
    place.call(words).measured();
    let found = place.json("findings.json");
    assert_eq!(found["failures"], Value::Array(Vec::new()), "{found:#}");
    assert!(found["roles"][0]["window_ms"].as_f64() > Some(30.0));
}

#[test]
fn what_a_server_cannot_is_one_line() {
    let place = Place::new();
    place.refuses(
        SERVED,
        "--server epol => server `epol` is not known: choose from none, single
        --service tip => service `tip` is not known: choose from top, echo, fixed
        --connections 0 => connections `0` is out of bounds: a whole number from 1 to 100000
        --rate often => rate `often` is out of bounds: `closed`, or requests per second
        --server select --connections 2000 => FD_SETSIZE
        --server single --connections 2 => choose --connect new",
    );
    let words = format!("{SERVED} --server epoll --connections 1000");
    let end = ended(&mut place.limited("-n 500", &words));
    end.refused(&["RLIMIT_NOFILE", "ulimit -Hn"]);
}

#[test]
fn a_server_in_use_is_no_leftover_and_a_killed_run_leaves_none() {
    let place = Place::new();
    let words = format!("{SERVED} --window 3s --server fork --connections 2");
    let mut run = place.start(&mut place.bytecost(words));
    // Both endpoints, the server, and a child for each connection.
    let pid = run.pid();
    run.until("a whole trial", || endpoints_of(pid).len() >= 5);
    let other = Place::new();
    let said = other.call("doctor --clean").stdout;
    for pid in run.endpoints() {
        assert!(!said.contains(&format!("process {pid},")), "{said}");
    }
    run.send(Signal::KILL);
    until("the end of all of them", PATIENCE, || {
        endpoints_of(pid).is_empty()
    });
    drop(run);
    assert!(records(&place.run()).len() < 20);
}
