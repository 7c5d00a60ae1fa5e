//! Who may open a live session, and what it is granted: each limit by a real connection.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::thread;

use crate::common::{Place, Started, says};
use crate::live_common::{Server, bytes_of, last, rest, summaries};
use bytecost_lab::hand::greeting::{VERSION, opening};
use rustix::process::Signal;

/// Bytes of a word of the greeting: its length, a public key and its tag.
const WORD: usize = 4 + 32 + 16;

fn new_key(keys: &Place, name: &str) -> String {
    let path = keys.path().join(name).display().to_string();
    keys.call(format!("key {path}")).succeeded();
    format!("--key-file {path}")
}

#[test]
fn who_has_the_key_is_served_and_nobody_else() {
    let keys = Place::new();
    let (right, wrong) = (new_key(&keys, "right"), new_key(&keys, "wrong"));
    let mut server = Server::start(&format!("--json --size 4KiB --threads 2 {right}"));
    server.drive("--duration 1s").refused(&["--key-file"]);
    let other = format!("--duration 1s {wrong}");
    server.drive(&other).refused(&["did not prove"]);
    let mut stranger = server.connected();
    stranger.write_all(&opening(VERSION, true)).unwrap();
    stranger.write_all(&[48, 0, 0, 0]).unwrap();
    stranger.write_all(&[7; 48]).unwrap();
    assert_eq!(rest(&mut stranger), b"", "it fails closed");
    let client = server.driven(&format!("--pattern request-response {right}"));
    let told = client.ended_by(Signal::INT).succeeded();
    assert!(bytes_of(&last(&told)["own"]) > 0);
    server.until_sessions_over(1);
    let end = server.end();
    assert_eq!(last(&end.stdout)["sessions"], 1);
    assert_eq!(last(&end.stdout)["turned_away"], 3, "{}", end.stderr);
    says(&end.stderr, &["has no key", "did not prove"]);

    let server = Server::start("--json --size 4KiB");
    let keyed = format!("--duration 1s {right}");
    server.drive(&keyed).refused(&["did not prove"]);
    says(&server.end().stderr, &["this sender has none"]);
}

/// What a client says to a server until it is to be served, seen by who stands between them.
fn overheard(server: &Server, key: &str) -> Vec<u8> {
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = relay.local_addr().unwrap().port();
    let words = format!("live receive 127.0.0.1:{port} --duration 1s {key}");
    let client = thread::spawn(move || Place::new().call(words));
    let (mut near, _) = relay.accept().unwrap();
    let mut far = server.connected();
    let mut said = vec![0; 16 + WORD];
    near.read_exact(&mut said).unwrap();
    far.write_all(&said).unwrap();
    let mut word = [0; WORD];
    far.read_exact(&mut word).unwrap();
    near.write_all(&word).unwrap();
    let mut length = [0; 4];
    near.read_exact(&mut length).unwrap();
    let mut hello = vec![0; u32::from_le_bytes(length) as usize];
    near.read_exact(&mut hello).unwrap();
    far.write_all(&length).unwrap();
    far.write_all(&hello).unwrap();
    // So the server answered: the words were those of a client that it serves.
    far.read_exact(&mut [0; 4]).unwrap();
    drop((near, far));
    assert_ne!(client.join().unwrap().status, Some(0));
    [said, length.to_vec(), hello].concat()
}

#[test]
fn a_greeting_that_is_said_again_opens_nothing() {
    let keys = Place::new();
    let key = new_key(&keys, "key");
    let server = Server::start(&format!("--json --size 4KiB {key}"));
    let said = overheard(&server, &key);
    let hello = br#""hello""#;
    assert!(!said.windows(hello.len()).any(|w| w == hello));
    let mut again = server.connected();
    again.write_all(&said).unwrap();
    assert_eq!(rest(&mut again).len(), WORD, "the greeting's word alone");
    let end = server.end();
    says(&end.stderr, &["did not prove that it has the key"]);
    assert_eq!(last(&end.stdout)["sessions"], 0);
}

#[test]
fn a_key_file_is_its_users_alone() {
    let keys = Place::new();
    let key = new_key(&keys, "key");
    let path = keys.path().join("key");
    let made = fs::read_to_string(&path).unwrap();
    assert_eq!((made.len(), made.trim_end().len()), (33, 32));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    new_key(&keys, "other");
    assert_ne!(fs::read_to_string(keys.path().join("other")).unwrap(), made);
    let again = keys.call(format!("key {}", path.display()));
    again.refused(&["exists", "left as it is"]);
    symlink(keys.path().join("nowhere"), keys.path().join("link")).unwrap();
    let link = keys.call(format!("key {}", keys.path().join("link").display()));
    link.refused(&["exists"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), made);

    let check = |says: &[&str]| {
        for side in ["send --port 0", "receive --port 1"] {
            keys.call(format!("live {side} {key}")).refused(says);
        }
    };
    for mode in [0o644, 0o640, 0o602] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        check(&["chmod 600"]);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    let said = keys.call(format!("live receive --port 1 {key}")).stderr;
    assert!(!said.contains("key file"), "{said}");
    for text in [
        "",
        "x",
        &made[1..],
        &format!("{made}{made}"),
        &"+0".repeat(16),
    ] {
        fs::remove_file(&path).unwrap();
        new_key(&keys, "key");
        fs::write(&path, text).unwrap();
        check(&["32 hexadecimal digits"]);
    }
    let directory = keys.call(format!("live send --key-file {}", keys.path().display()));
    directory.refused(&["no regular file"]);
}

// Invariant 10.
#[test]
fn who_can_reach_the_port_is_said_where_anyone_on_another_machine_may_connect() {
    let keys = Place::new();
    let key = new_key(&keys, "key");
    for (command, address, options, is_open) in [
        ("send", "0.0.0.0", "--insecure", true),
        ("send", "0.0.0.0", &*key, false),
        ("send", "127.0.0.1", "--insecure", false),
        ("send", "127.0.0.1", "", false),
        ("server top", "0.0.0.0", "--insecure", true),
        ("server top", "127.0.0.1", "--insecure", false),
        ("server top", "127.0.0.1", "", false),
    ] {
        let listening = format!("live {command} --port 0 --listen {address} {options}");
        let mut running = Started::alone(&listening);
        let told = format!("listening at {address}:");
        running.until_told("a port", |_, err| err.contains(&told));
        let said = running.err();
        for part in ["anyone", "anyone who can reach"] {
            assert_eq!(said.contains(part), is_open, "{said}");
        }
        running.ended_by(Signal::INT).succeeded();
    }
}

#[test]
fn addresses_that_are_not_allowed_are_not_heard() {
    let server = Server::start("--json --size 4KiB --allow 127.0.0.2,192.0.2.0/24");
    server.drive("--duration 1s").refused(&["--allow"]);
    let end = server.end();
    says(&end.stderr, &["--allow does not name its address"]);
    let counts = last(&end.stdout);
    assert_eq!(
        (&counts["sessions"], &counts["turned_away"]),
        (&0.into(), &1.into())
    );
    Server::start("--json --size 4KiB --allow 192.0.2.7 --allow 127.0.0.0/8").serves();
}

#[test]
fn a_session_ends_when_its_time_is_over_and_says_why() {
    let mut server = Server::start("--json --size 4KiB --max-duration 3s");
    let end = server.drive("--json");
    assert_eq!(end.status, Some(0), "{}{}", end.stdout, end.stderr);
    server.until_sessions_over(1);
    let told = server.end().stdout;
    for summary in [last(&end.stdout), summaries(&told).remove(0)] {
        assert_eq!(summary["ended"], "limit", "{summary}");
        says(
            summary["limit"].as_str().unwrap(),
            &["--max-duration", "is over"],
        );
        assert!(bytes_of(&summary["own"]) > 0);
    }
    let server = Server::start("--size 4KiB --max-duration 300ms");
    let words = server.drive("").succeeded();
    says(&words, &["ended by a limit: the sender's --max-duration"]);
}

#[test]
fn a_session_is_no_faster_than_its_sender_grants() {
    let server = Server::start("--json --size 4KiB --threads 2 --max-rate 1MiB --max-duration 10s");
    let client = server.driven("");
    let summary = last(&client.ended_by(Signal::INT).succeeded());
    let elapsed_s = summary["own"]["elapsed_s"].as_f64().unwrap();
    // TCP sends its first segments unpaced, and without a bound there are a thousand times as many.
    let most = (elapsed_s + 2.0) * f64::from(2 << 20);
    let bytes = bytes_of(&summary["own"]);
    assert!(
        bytes > 0 && (bytes as f64) < most,
        "{bytes} in {elapsed_s} s"
    );
}
