//! The promises of a ping-pong: every number is checked, and no thread waits without end.

use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

macro_rules! each_way {
    ($patience:expr, $check:expr) => {
        $check("cache-line", LineEnd::pair($patience));
        $check("futex", FutexEnd::pair($patience));
        $check("pipe", pipes().unwrap());
        $check("unix", unix($patience).unwrap());
        $check("tcp", tcp($patience).unwrap());
    };
}

fn plays<E: PingEnd>(way: &str, ends: (E, E)) {
    let mut game = Game::new(ends).unwrap();
    game.play(20).unwrap();
    game.play(1).unwrap();
    let calls = game.calls();
    let counts = way != "cache-line" && way != "futex";
    assert!(calls >= 42 || !counts, "{calls}");
    assert_eq!(game.held(), None, "it is not over");
    game.finish().unwrap();
    assert_eq!((game.turns(), game.calls()), (21, calls), "{way}");
    assert!(!game.held().unwrap().cpus.is_empty(), "{way}");
    game.finish().unwrap();
    let over = game.play(1).unwrap_err().kind();
    assert_eq!(over, io::ErrorKind::NotConnected);
}

#[test]
fn both_sides_count_the_same_turns() {
    each_way!(PATIENCE, plays);
}

/// Answers some turns by hand: this many rightly, then with what `last` says, none for going away.
fn partner<E: PingEnd>(mut end: E, turns: u64, last: Option<u64>) -> JoinHandle<io::Result<()>> {
    thread::spawn(move || {
        for turn in 0..turns {
            assert_eq!(end.take()?, 2 * turn + 1);
            end.give(2 * turn + 2)?;
        }
        if let Some(last) = last {
            end.take()?;
            end.give(last)?;
            // The other side finds it wrong and goes away.
            assert_eq!(end.take().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        Ok(())
    })
}

fn against<E: PingEnd>(ends: (E, E), turns: u64, last: Option<u64>) -> io::Error {
    let other = partner(ends.1, turns, last);
    let mut game = Game {
        end: Some(ends.0),
        partner: None,
        start: None,
        turns: 0,
        calls: 0,
        held: None,
    };
    let error = game.play(100).unwrap_err();
    assert_eq!(game.turns(), turns);
    drop(game);
    other.join().unwrap().unwrap();
    error
}

// Invariant 8.
#[test]
fn a_side_that_dies_ends_the_other() {
    fn check<E: PingEnd>(way: &str, ends: (E, E)) {
        let error = against(ends, 3, None);
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{way}: {error}");
    }
    each_way!(PATIENCE, check);
}

#[test]
fn a_side_that_dies_before_the_first_turn_ends_the_other() {
    fn gone<E: PingEnd>(way: &str, (mut asks, answers): (E, E)) {
        drop(answers);
        let error = asks.give(1).and_then(|()| asks.take()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{way}: {error}");
    }
    each_way!(PATIENCE, gone);
}

#[test]
fn a_wrong_number_is_noticed() {
    fn check<E: PingEnd>(way: &str, ends: (E, E)) {
        let error = against(ends, 2, Some(7));
        assert!(WrongBytes::is_in(&error), "{way}: {error}");
        let text = error.to_string();
        assert!(text.contains("7 came in the place of 6"), "{text}");
    }
    each_way!(PATIENCE, check);
}

#[test]
fn a_side_that_answers_wrongly_is_told_by_its_own_reason() {
    let (mut asks, answers) = unix(PATIENCE).unwrap();
    let answering = thread::spawn(move || answer(answers));
    asks.give(5).unwrap();
    let gone = asks.take().unwrap_err().kind();
    assert_eq!(gone, io::ErrorKind::UnexpectedEof);
    let error = answering.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("5 came in the place of 1"), "{error}");
}

// Invariant 8.
#[test]
fn silence_ends_with_patience() {
    fn check<E: PingEnd>(way: &str, (mut asks, answers): (E, E)) {
        if way != "pipe" {
            asks.give(1).unwrap();
            let error = asks.take().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{way}: {error}");
        }
        drop(answers);
    }
    each_way!(SHORT, check);
}

#[test]
fn a_game_that_never_began_leaves_nobody_waiting() {
    fn check<E: PingEnd>(_: &str, ends: (E, E)) {
        drop(Game::new(ends).unwrap());
        // Its end joins the other thread, so that coming here is the proof.
    }
    each_way!(PATIENCE, check);
}
