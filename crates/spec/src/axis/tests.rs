use super::*;

#[test]
fn rows_stand_in_the_order_of_axes_and_their_defaults_can_be_parsed() {
    for (at, row) in AXES.iter().enumerate() {
        assert_eq!(row.axis as usize, at);
        assert_eq!(Axis::named(row.name), Some(row.axis));
        let written = serde_json::to_string(&row.axis).unwrap();
        assert_eq!(written, format!("\"{}\"", row.name));
        assert_eq!(serde_json::from_str::<Axis>(&written).unwrap(), row.axis);
        assert_eq!(row.axis.read(row.default), Ok(row.default.into()));
        assert_eq!(Cell::default().value(row.axis), row.default);
        assert!(!row.help.is_empty(), "{}", row.name);
    }
}

/// Numbers of bytes are compared as numbers, and switches are sorted, only if the row names their kind.
#[test]
fn the_kind_of_a_row_fits_its_default() {
    for row in AXES {
        let fits = match Value::parse(row.default) {
            Value::Bytes(_) => matches!(row.kind, ValueKind::Bytes | ValueKind::PlainBytes),
            Value::Flag(_) => row.kind == ValueKind::Switch,
            _ => true,
        };
        assert!(
            fits,
            "{}: {:?} by default {}",
            row.name, row.kind, row.default
        );
    }
}

#[test]
fn a_value_is_worded_as_a_circumstance_and_as_a_subject() {
    use Axis::*;
    for (axis, value, circumstance) in [
        (Mover, "send", "with `send`"),
        (Transport, "unix", "over unix"),
        (Size, "64KiB", "at 64 KiB"),
        (Pattern, "request-response", "with pattern request-response"),
        (Threads, "1", "with 1 thread"),
        (Threads, "8", "with 8 threads"),
        (Depth, "4", "at depth 4"),
        (Ring, "4MiB", "with ring 4MiB"),
        (Segment, "auto", "with segment auto"),
        (Segment, "16KiB", "with packets of up to 16 KiB"),
        (Mtu, "9000", "with mtu 9000"),
        (Connect, "new", "with new connections"),
        (Rate, "1000", "at 1000 requests/s"),
        (Rate, "closed", "with rate closed"),
    ] {
        assert_eq!(axis.circumstance(&value.into()), circumstance);
        let (_, subject) = circumstance.split_once(' ').unwrap();
        assert_eq!(axis.subject(&value.into()), subject);
    }
}
