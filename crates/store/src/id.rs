//! Names of runs. A name is a directory's, so it is checked before it touches a path.

use crate::error::StoreError;

const MOST_BYTES: usize = 128;

/// The name of a run: the start to the second and the study, `20261121-141503-send-copies`, so
/// that names sort by time.
///
/// `started` is the manifest's: RFC 3339 in UTC, `2026-11-21T14:15:03Z`, with or without a
/// fraction of a second.
///
/// # Errors
/// [`StoreError::BadStart`] or, for a study's name that is no part of a directory's name,
/// [`StoreError::BadId`].
pub fn id(study: &str, started: &str) -> Result<String, StoreError> {
    let bad = || StoreError::BadStart(started.to_owned());
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let bytes = started.as_bytes();
    let shaped = bytes.len() > SHAPE.len()
        && bytes.iter().zip(SHAPE).all(|(b, s)| match s {
            b'0' => b.is_ascii_digit(),
            _ => b == s,
        });
    if !shaped {
        return Err(bad());
    }
    let fraction = started[SHAPE.len()..].strip_suffix('Z').ok_or_else(bad)?;
    let digits = fraction.strip_prefix('.').unwrap_or(fraction);
    if !digits.bytes().all(|b| b.is_ascii_digit()) || fraction == "." {
        return Err(bad());
    }
    let date = started[..10].replace('-', "");
    let time = started[11..19].replace(':', "");
    let id = format!("{date}-{time}-{study}");
    check(&id)?;
    Ok(id)
}

/// Holds a name against the rules.
pub(crate) fn check(id: &str) -> Result<(), StoreError> {
    let fits = !id.is_empty()
        && id.len() <= MOST_BYTES
        && !id.starts_with(['.', '-'])
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if fits {
        Ok(())
    } else {
        Err(StoreError::BadId(id.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_start_and_study() {
        for started in ["2026-11-21T14:15:03Z", "2026-11-21T14:15:03.123456Z"] {
            assert_eq!(
                id("send-copies", started).unwrap(),
                "20261121-141503-send-copies"
            );
        }
        for bad in [
            "",
            "Z",
            "2026-11-21",
            "2026-11-21 14:15:03Z",
            "2026-11-21T14:15:03",
            "2026-11-21T14:15:03+01:00",
            "2026-11-21T14:15:03.Z",
            "2026-11-21T14:15:03./../Z",
            "2026-11-21T14:15:0ßZ",
        ] {
            assert!(
                matches!(id("s", bad), Err(StoreError::BadStart(_))),
                "{bad}"
            );
        }
        assert!(matches!(
            id("../../etc", "2026-11-21T14:15:03Z"),
            Err(StoreError::BadId(_))
        ));
    }

    #[test]
    fn no_name_leads_out_of_the_root() {
        for good in ["a", "20261121-141503-send-copies-2", "A_b.c-1"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "", ".", "..", "../x", "a/b", "/", ".hidden", "-rf", "a b", "a\0b", "ü", "a\n",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(check(&"a".repeat(128)).is_ok());
        assert!(check(&"a".repeat(129)).is_err());
    }
}
