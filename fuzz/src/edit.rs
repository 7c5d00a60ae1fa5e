//! Something valid, spoilt a little: random bytes alone never get past a parser's first line.

/// Reads an input as edits of `valid` and carries them out: first their number, from 1 to `most`,
/// then five bytes each. `words` are put in where an edit says so. An empty input leaves it valid.
pub fn edited(valid: &[u8], words: &[&str], most: usize, input: &[u8]) -> Vec<u8> {
    let mut text = valid.to_vec();
    let Some((number, edits)) = input.split_first() else {
        return text;
    };
    let number = 1 + usize::from(*number) % most;
    for edit in edits.chunks_exact(5).take(number) {
        let place = |byte: u8, fine: u8| {
            usize::from(u16::from_le_bytes([fine, byte])) * text.len() / (1 << 16)
        };
        let at = place(edit[1], edit[2]);
        let to = (at + usize::from(edit[3] % 64)).min(text.len());
        match edit[0] % 10 {
            0 => {
                if let Some(byte) = text.get_mut(at) {
                    *byte = edit[4];
                }
            }
            1 => text.insert(at, edit[4]),
            2 => drop(text.drain(at..to)),
            3 => {
                let piece = text[at..to].to_vec();
                text.splice(to..to, piece);
            }
            4 => text.truncate(at),
            5 => {
                let word = words[usize::from(edit[4]) % words.len()];
                text.splice(at..at, word.bytes());
            }
            _ => {
                let word = words[usize::from(edit[4]) % words.len()];
                text.splice(token(&text, at), word.bytes());
            }
        }
    }
    text
}

/// The number or word around a place.
fn token(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let within = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'%');
    let before = text[..at].iter().rev().take_while(within).count();
    let after = text[at..].iter().take_while(within).count();
    at - before..at + after
}

#[test]
fn edits_change_what_they_say() {
    for (input, expected) in [
        (&[][..], "seed = 7"),
        (&[7, 0, 0, 0, 0, b'S'], "Seed = 7"),
        (&[7, 1, 0, 0, 0, b'S'], "Sseed = 7"),
        (&[7, 2, 0, 0, 4, 0], " = 7"),
        (&[7, 3, 0, 0, 4, 0], "seedseed = 7"),
        (&[7, 4, 128, 0, 0, 0], "seed"),
        (&[7, 5, 128, 0, 0, 1], "seednull = 7"),
        (&[7, 6, 224, 0, 0, 3], "seed = -1"),
    ] {
        let text = edited(b"seed = 7", &["", "null", "\"", "-1"], 8, input);
        assert_eq!(String::from_utf8_lossy(&text), expected, "{input:?}");
    }
}
