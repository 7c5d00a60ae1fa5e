//! How the values of axes are read from text.

use super::{Invalid, MOST_NODES, MTU_BYTES, SEGMENT_BYTES};
use crate::axis::Axis;
use crate::units;

pub(super) fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

pub(super) fn switch(axis: Axis, text: &str) -> Result<bool, Invalid> {
    one_of(axis, text, &[true, false], |on| on_or_off(*on))
}

pub(super) fn mtu(text: &str) -> Result<u32, Invalid> {
    text.parse()
        .ok()
        .filter(|n| MTU_BYTES.contains(n))
        .ok_or_else(|| {
            Invalid(format!(
                "mtu `{text}` is out of bounds: `auto`, or bytes from {} to {}",
                MTU_BYTES.start(),
                MTU_BYTES.end()
            ))
        })
}

pub(super) fn segment(text: &str) -> Result<u32, Invalid> {
    let bytes = units::parse_bytes(text).map_err(|e| Invalid(format!("segment: {e}")))?;
    u32::try_from(bytes)
        .ok()
        .filter(|n| SEGMENT_BYTES.contains(n))
        .ok_or_else(|| {
            Invalid(format!(
                "segment `{text}` is out of bounds: `auto`, or from {} bytes to {}",
                SEGMENT_BYTES.start(),
                SEGMENT_BYTES.end()
            ))
        })
}

pub(super) fn node(text: &str) -> Result<u32, Invalid> {
    (text.parse().ok())
        .filter(|n| *n < MOST_NODES)
        .ok_or_else(|| {
            Invalid(format!(
                "mem-node `{text}` is no node: `auto`, or a number from 0 to {}",
                MOST_NODES - 1
            ))
        })
}

pub(super) fn one_of<T: Copy>(
    axis: Axis,
    text: &str,
    values: &[T],
    name: impl Fn(&T) -> &'static str,
) -> Result<T, Invalid> {
    values
        .iter()
        .copied()
        .find(|v| name(v) == text)
        .ok_or_else(|| {
            let known: Vec<&str> = values.iter().map(name).collect();
            Invalid(format!(
                "{} `{text}` is not known: choose from {}",
                axis.name(),
                known.join(", ")
            ))
        })
}

pub(super) fn name(axis: Axis, text: &str) -> Result<String, Invalid> {
    let fits = !text.is_empty()
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if fits {
        Ok(text.to_owned())
    } else {
        Err(Invalid(format!("{} `{text}` is not a name", axis.name())))
    }
}

pub(super) fn size(axis: Axis, text: &str, most: u64) -> Result<u64, Invalid> {
    let n = units::parse_bytes(text).map_err(|e| Invalid(format!("{}: {e}", axis.name())))?;
    if (1..=most).contains(&n) {
        Ok(n)
    } else {
        Err(Invalid(format!(
            "{} `{text}` is out of bounds: from 1 byte to {}",
            axis.name(),
            units::bytes(most)
        )))
    }
}

pub(super) fn count(axis: Axis, text: &str, most: u32) -> Result<u32, Invalid> {
    match text.trim().parse() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(Invalid(format!(
            "{} `{text}` is out of bounds: a whole number from 1 to {most}",
            axis.name()
        ))),
    }
}
