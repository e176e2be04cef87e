//! Tables that the suite's programs print: benchmarks, `ggas net list`, and the results of `cargo xtask`.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A column's title, and on which side its cells are flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// Left.
    Text(String),
    /// Right.
    Number(String),
}

impl Column {
    /// A column of words.
    pub fn text(title: &str) -> Column {
        Column::Text(title.to_owned())
    }

    /// A column of numbers.
    pub fn number(title: &str) -> Column {
        Column::Number(title.to_owned())
    }

    fn title(&self) -> &str {
        match self {
            Column::Text(title) | Column::Number(title) => title,
        }
    }

    fn alignment(&self) -> CellAlignment {
        match self {
            Column::Text(_) => CellAlignment::Left,
            Column::Number(_) => CellAlignment::Right,
        }
    }
}

/// The titles and a line for each row, without rules and without spaces at the ends of lines, however wide the terminal
/// is; the last line has no newline. Rows may be shorter than the titles.
pub fn table<Row: IntoIterator<Item: Into<String>>>(
    columns: &[Column],
    rows: impl IntoIterator<Item = Row>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(Column::title));
    for row in rows {
        table.add_row(row.into_iter().map(Into::<String>::into));
    }
    for (column, ours) in table.column_iter_mut().zip(columns) {
        column.set_cell_alignment(ours.alignment());
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_flush_right_and_lines_end_without_spaces() {
        let columns = [Column::text("step"), Column::number("time"), Column::text("")];
        let rows = [["format", "9.5 s", ""], ["x", "10.5 s", "two cores"]];
        let shown = table(&columns, rows);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines, [" step      time", " format   9.5 s", " x       10.5 s  two cores"]);
    }
}
