use super::*;
use bytecost_analysis::{CeilingLine, Gap, Point};
use bytecost_spec::{Axis, Measure, Metric, Value};

fn figure(rows: &[&[Option<f64>]]) -> FigureData {
    let point = |v: &Option<f64>| match v {
        Some(value) => Point::Measured(Estimate {
            value: *value,
            low: Some(value * 0.9),
            high: Some(value * 1.1),
            trials: 9,
        }),
        None => Point::Gap(Gap::NotReached),
    };
    FigureData {
        title: "t".to_owned(),
        panel: Vec::new(),
        x: Axis::Size,
        x_values: ["1KiB", "2KiB", "4KiB", "8KiB"].map(Value::from).to_vec(),
        x_numbers: Some(vec![1024.0, 2048.0, 4096.0, 8192.0]),
        y: Metric::both(Measure::ThroughputGbitPerS),
        relative_to: None,
        replaced: None,
        ceiling: None,
        series: (rows.iter())
            .map(|row| Series {
                name: "s".to_owned(),
                points: row.iter().map(point).collect(),
            })
            .collect(),
    }
}

fn drawn(figure: &FigureData) -> Chart {
    let labels: Vec<String> = figure.series.iter().map(|s| s.name.clone()).collect();
    chart(figure, &labels)
}

#[test]
fn a_gap_breaks_the_line() {
    let check = |row: &[Option<f64>], strokes: usize, points: usize| {
        let chart = drawn(&figure(&[row]));
        assert_eq!(chart.lines[0].path.matches('M').count(), strokes, "{row:?}");
        assert_eq!(chart.lines[0].band.matches('Z').count(), strokes, "{row:?}");
        assert_eq!(chart.lines[0].dots.len(), points, "{row:?}");
    };
    check(&[Some(1.0), Some(2.0), Some(3.0), Some(4.0)], 1, 4);
    check(&[Some(1.0), None, Some(3.0), Some(4.0)], 2, 3);
    check(&[None, None, Some(3.0), None], 1, 1);
    check(&[None, None, None, None], 0, 0);
    check(&[Some(f64::NAN), Some(1.0), Some(2.0), Some(2.0)], 1, 3);
}

#[test]
fn a_column_with_a_gap_is_marked_unless_there_is_nothing_at_all() {
    let check = |rows: &[&[Option<f64>]], columns: &[usize], empty: bool| {
        let chart = drawn(&figure(rows));
        let found: Vec<usize> = chart.gaps.iter().map(|gap| gap.0).collect();
        assert_eq!(found, columns, "{rows:?}");
        assert_eq!((chart.empty, chart.rows.is_empty()), (empty, empty));
    };
    let (none, one) = ([None; 4], [Some(1.0), None, None, None]);
    check(&[&[Some(1.0), None, Some(3.0), None]], &[1, 3], false);
    check(&[&none, &one], &[0, 1, 2, 3], false);
    check(&[&none, &none], &[], true);
}

#[test]
fn more_is_higher_and_all_lies_within_the_area() {
    let chart = drawn(&figure(&[&[Some(1.0), Some(2.0), Some(400.0), Some(0.5)]]));
    let dots = &chart.lines[0].dots;
    assert!(dots[0].y > dots[1].y && dots[1].y > dots[2].y);
    for dot in dots {
        assert!(dot.y >= TOP - 0.1 && dot.y <= chart.bottom + 0.1);
        assert!(dot.x > LEFT && dot.x < chart.right);
    }
}

#[test]
fn a_ceiling_lies_within_the_area_above_what_does_not_reach_it() {
    let mut data = figure(&[&[Some(1.0), Some(2.0), Some(2.0), Some(1.0)]]);
    assert_eq!(drawn(&data).ceiling, "");
    for (points, strokes) in [
        ([Some(8.0), Some(8.0), Some(6.0), Some(6.0)], 1),
        ([Some(8.0), None, Some(6.0), Some(6.0)], 2),
        ([None; 4], 0),
    ] {
        data.ceiling = Some(CeilingLine {
            kind: None,
            points: points.to_vec(),
        });
        let chart = drawn(&data);
        assert_eq!(chart.ceiling.matches('M').count(), strokes, "{points:?}");
        let ys = chart.ceiling.split(['M', 'L']).filter_map(|point| {
            let (_, y) = point.split_once(' ')?;
            y.parse::<f64>().ok()
        });
        for y in ys {
            assert!(y >= TOP - 0.1, "{y}");
            assert!(chart.lines[0].dots.iter().all(|dot| y < dot.y), "{y}");
        }
    }
}

#[test]
fn names_beside_lines_do_not_cover_each_other() {
    let near_fifty = |i| [Some(50.0 + f64::from(i) / 10.0); 4];
    let numbers: Vec<[Option<f64>; 4]> = (0..12).map(near_fifty).collect();
    let rows: Vec<&[Option<f64>]> = numbers.iter().map(|row| &row[..]).collect();
    let chart = drawn(&figure(&rows));
    let labels = chart.lines.iter().filter_map(|l| l.label.as_ref());
    let mut ys: Vec<f64> = labels.map(|label| label.y).collect();
    ys.sort_by(f64::total_cmp);
    assert_eq!(ys.len(), 12);
    let apart = |pair: &[f64]| pair[1] - pair[0] > LABEL_HEIGHT - 0.1;
    assert!(ys.windows(2).all(apart), "{ys:?}");
}
