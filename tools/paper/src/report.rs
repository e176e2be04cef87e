use std::fmt::Write as _;

use extoll_sim::timed::System;
use ggas_plot::{Picture, PictureError};
use ggas_table::Column;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::claim::{Verdict, short};
use crate::{Figure, Settings};

/// Version of the JSON; `tools/README.md` defines its fields.
pub const SCHEMA: u32 = 1;

/// A number that a figure's answer rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// What it is.
    pub name: String,
    /// With its unit.
    pub value: String,
    /// Table, section or measurement that gives it.
    pub source: String,
}

/// How many values a run compared with a serial reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Compared.
    pub values: u64,
    /// Different.
    pub wrong: u64,
}

impl Checked {
    /// Adds a comparison of all values of two fields.
    pub fn compare<T: PartialEq>(&mut self, ours: &[T], reference: &[T]) {
        self.values += ours.len().max(reference.len()) as u64;
        let differ = ours.iter().zip(reference).filter(|(a, b)| a != b).count();
        self.wrong += (differ + ours.len().abs_diff(reference.len())) as u64;
    }

    /// Adds what another run compared.
    pub fn add(&mut self, other: Checked) {
        self.values += other.values;
        self.wrong += other.wrong;
    }
}

/// What a figure shows, as the model answers it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the paper on the command line.
    pub paper: &'static str,
    /// Number of the figure.
    pub figure: &'static str,
    /// What it shows, in one sentence.
    pub about: &'static str,
    /// Parameter files that it used.
    pub systems: Vec<String>,
    /// The seed of all data and choices.
    pub seed: u64,
    /// What else the answer rests on.
    pub parameters: Vec<Parameter>,
    /// Columns of the rows, with their units.
    pub columns: &'static [&'static str],
    /// The points of the figure.
    pub rows: Vec<Vec<Value>>,
    /// The paper's claims.
    pub claims: Vec<Verdict>,
    /// What of the data was compared with a reference.
    pub checked: Checked,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The figure as we draw it.
    pub picture: Picture,
}

impl Report {
    /// One of this figure, with nothing in it yet but the picture.
    pub(crate) fn of(
        paper: &'static str,
        figure: &Figure,
        settings: &Settings,
        system: &System,
        columns: &'static [&'static str],
        picture: Picture,
    ) -> Report {
        Report {
            paper,
            figure: figure.number(),
            about: figure.about(),
            systems: vec![system.name.clone()],
            seed: settings.seed,
            parameters: Vec::new(),
            columns,
            rows: Vec::new(),
            claims: Vec::new(),
            checked: Checked::default(),
            notes: Vec::new(),
            picture,
        }
    }

    /// Adds a row; as many cells as columns.
    pub fn row<const N: usize>(&mut self, cells: [Value; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(cells.to_vec());
    }

    /// Whether no data were wrong. Claims that do not hold are answers, not errors.
    pub fn is_verified(&self) -> bool {
        self.checked.wrong == 0
    }

    /// For people: rows, claims, and why some do not hold.
    pub fn table(&self) -> String {
        let columns: Vec<Column> =
            self.columns.iter().enumerate().map(|(at, name)| self.column(at, name)).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(text_of).collect::<Vec<_>>());
        let mut text = format!("{} figure {}: {}\n", self.paper, self.figure, self.about);
        let _ = writeln!(text, "{}\n\n{}", ggas_table::table(&columns, rows), self.verdicts());
        for verdict in &self.claims {
            if let Some(why) = &verdict.why {
                let _ = writeln!(text, "  does not hold: {}: {why}", verdict.claim);
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text + "  " + &self.data() + "\n"
    }

    fn column(&self, at: usize, name: &str) -> Column {
        let words = self.rows.iter().any(|row| row.get(at).is_some_and(Value::is_string));
        if words { Column::text(name) } else { Column::number(name) }
    }

    fn verdicts(&self) -> String {
        let columns = ["claim", "source", "paper", "ours", "holds", "today's GPUs"].map(Column::text);
        let rows = self.claims.iter().map(|verdict| {
            let holds = if verdict.holds { "yes" } else { "NO" };
            let today = verdict.today.as_deref().unwrap_or_default();
            [&verdict.claim, verdict.source, &verdict.paper, &verdict.ours, holds, today].map(str::to_owned)
        });
        ggas_table::table(&columns, rows)
    }

    fn data(&self) -> String {
        match self.checked {
            Checked { values: 0, .. } => "no data moved: lengths only".to_owned(),
            Checked { values, wrong: 0 } => {
                format!("{values} values compared with a serial reference: all right")
            }
            Checked { values, wrong } => {
                format!("WRONG DATA: {wrong} of {values} values differ from the reference")
            }
        }
    }

    /// The verdicts as a table in Markdown, and below it why some claims do not hold.
    pub fn markdown(&self) -> String {
        let mut text =
            "| claim | source | paper | ours | holds | today's GPUs |\n|---|---|---|---|---|---|\n"
                .to_owned();
        for verdict in &self.claims {
            let holds = if verdict.holds { "yes" } else { "**no**" };
            let today = verdict.today.as_deref().unwrap_or("–");
            let Verdict { claim, source, paper, ours, .. } = verdict;
            let _ = writeln!(text, "| {claim} | {source} | {paper} | {ours} | {holds} | {today} |");
        }
        for verdict in &self.claims {
            if let Some(why) = &verdict.why {
                let _ = writeln!(text, "\n*{}* does not hold: {why}.", verdict.claim);
            }
        }
        text
    }

    /// For programs: indented JSON with a newline at its end.
    pub fn json(&self) -> String {
        // Only maps with keys that are no strings fail, and there are none.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The figure as SVG.
    ///
    /// # Errors
    /// [`PictureError`]
    pub fn svg(&self) -> Result<String, PictureError> {
        self.picture.svg()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("paper", self.paper)?;
        map.serialize_entry("figure", self.figure)?;
        map.serialize_entry("about", self.about)?;
        map.serialize_entry("systems", &self.systems)?;
        map.serialize_entry("seed", &self.seed)?;
        map.serialize_entry("verified", &self.is_verified())?;
        map.serialize_entry("values_compared", &self.checked.values)?;
        map.serialize_entry("values_wrong", &self.checked.wrong)?;
        map.serialize_entry("parameters", &self.parameters)?;
        map.serialize_entry("claims", &self.claims)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("rows", &Rows(self))?;
        map.end()
    }
}

/// Objects, whose keys are the columns in their order.
struct Rows<'a>(&'a Report);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.rows.len()))?;
        for row in &self.0.rows {
            rows.serialize_element(&Cells(self.0.columns, row))?;
        }
        rows.end()
    }
}

struct Cells<'a>(&'a [&'static str], &'a [Value]);

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1).filter(|(_, value)| !value.is_null()))
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(number) if number.is_f64() => short(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}
