//! Power over time, as the counters of energy saw it (thesis 5.8.3, Figs. 5.26 and 5.30).

use serde_json::Value;

use super::no_picture;
use crate::BenchError;
use ggas_plot::{Axis, Band, Line, OverTime, Picture, Scale};

/// Seconds between recordings of results that do not say when they began.
const GAP: f64 = 1.0;

/// A line for each component; marked is where the energy of a row was counted. `None`: nothing was recorded.
pub(super) fn svg(report: &Value) -> Result<Option<String>, BenchError> {
    let lines = lines_of(&report["energy"]["power"])?;
    if lines.is_empty() {
        return Ok(None);
    }
    let bands = list(&report["energy"]["windows"]).iter().map(|window| band(window, &report["rows"]));
    let bands = bands.collect::<Option<_>>().ok_or_else(|| wrong("energy.windows"))?;
    let gpus = list(&report["host"]["gpus"]);
    let machine = match gpus.first().and_then(Value::as_str) {
        Some(name) => format!("{}x {name}", gpus.len()),
        None => report["host"]["cpu"].as_str().unwrap_or("?").to_owned(),
    };
    let title = format!("{}: power over time ({machine})", report["bench"].as_str().unwrap_or("?"));
    let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new("W", Scale::Linear));
    let picture = Picture { title, x, y, lines };
    OverTime { picture, bands }.svg().map(Some).map_err(no_picture)
}

fn wrong(what: &str) -> BenchError {
    BenchError::NoReport(format!("its {what} is not as benches/README.md says"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A line for each component, with a gap between recordings.
fn lines_of(power: &Value) -> Result<Vec<Line>, BenchError> {
    let mut lines: Vec<Line> = Vec::new();
    // Where a recording begins that does not say it: behind the one of the row before.
    let (mut row, mut begin, mut end) = (&Value::Null, 0.0, 0.0_f64);
    for part in list(power) {
        let component = part["component"].as_str().ok_or_else(|| wrong("energy.power"))?;
        if part["row"] != *row {
            (row, begin) = (&part["row"], if end > 0.0 { end + GAP } else { 0.0 });
        }
        let begin = part["begin_s"].as_f64().unwrap_or(begin);
        let points = serde_json::from_value::<Vec<(f64, f64)>>(part["points"].clone());
        let stroke = steps(begin, &points.map_err(|_| wrong("energy.power"))?);
        end = stroke.last().map_or(end, |last| end.max(last.0));
        match lines.iter_mut().find(|line| line.label == component) {
            Some(line) => line.strokes.push(stroke),
            None => lines.push(Line { label: component.to_owned(), strokes: vec![stroke] }),
        }
    }
    Ok(lines)
}

/// A point's watts were there since the point before; of the first one, it is not known since when.
fn steps(begin: f64, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let pairs = points.windows(2).flat_map(|pair| [(pair[0].0, pair[1].1), (pair[1].0, pair[1].1)]);
    points.iter().take(1).copied().chain(pairs).map(|(at, watts)| (begin + at, watts)).collect()
}

fn band(window: &Value, rows: &Value) -> Option<Band> {
    let row = &rows[usize::try_from(window["row"].as_u64()?).ok()?];
    let size = |key: &str, unit: &str| row[key].as_u64().map(|size| format!(", {size} {unit}"));
    let size = size("bytes", "B").or_else(|| size("elements", "elements")).unwrap_or_default();
    let label = format!("{}{size}", row["method"].as_str().unwrap_or("row"));
    Some(Band { label, from: window["from_s"].as_f64()?, to: window["to_s"].as_f64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({
            "bench": "put-signal",
            "host": {"gpus": ["A GPU", "A GPU"]},
            "rows": [{"method": "thread", "bytes": 8}],
            "energy": {
                "power": [
                    {"component": "gpu 0", "begin_s": 0.0, "points": [[0.1, 100.0], [0.2, 110.0]]},
                    {"component": "gpu 1", "begin_s": 0.0, "points": [[0.1, 90.0]]},
                    {"row": 0, "component": "gpu 0", "begin_s": 12.0, "points": [[0.5, 300.0]]}
                ],
                "windows": [{"row": 0, "from_s": 12.2, "to_s": 22.0}]
            }
        })
    }

    #[test]
    fn components_have_a_line_and_rows_a_band() {
        let svg = svg(&report()).expect("drawn").expect("a picture");
        for part in ["gpu 0", "gpu 1", "thread, 8 B", "put-signal: power over time (2x A GPU)"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        let lines = lines_of(&report()["energy"]["power"]).expect("lines");
        assert_eq!(lines[0].strokes, [vec![(0.1, 100.0), (0.1, 110.0), (0.2, 110.0)], vec![(12.5, 300.0)]]);
    }

    #[test]
    fn recordings_without_a_begin_stand_behind_each_other() {
        let power = json!([
            {"row": 0, "component": "gpu 0", "points": [[1.0, 5.0]]},
            {"row": 0, "component": "gpu 1", "points": [[2.0, 5.0]]},
            {"row": 1, "component": "gpu 0", "points": [[1.0, 7.0]]},
        ]);
        let lines = lines_of(&power).expect("lines");
        assert_eq!(lines[0].strokes, [vec![(1.0, 5.0)], vec![(4.0, 7.0)]], "2 s, a gap, and 1 s");
    }

    #[test]
    fn without_counters_there_is_no_picture_and_rubbish_is_refused() {
        assert_eq!(svg(&json!({"rows": []})).expect("no error"), None);
        let mut report = report();
        report["energy"]["windows"][0]["from_s"] = "soon".into();
        assert!(svg(&report).expect_err("rubbish").to_string().contains("energy.windows"));
        report["energy"]["power"][0]["points"] = json!([[1.0]]);
        assert!(svg(&report).expect_err("rubbish").to_string().contains("energy.power"));
    }
}
