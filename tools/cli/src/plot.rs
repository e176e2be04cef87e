//! `ggas plot`: results that were kept, as pictures.

use crate::failure::Failure;
use crate::outputs::written;
use ggas_benches::WholeFile;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct PlotArgs {
    /// Results that `ggas bench --json` or `ggas energy --json` wrote; the picture of `x.json` is `x.svg` beside it, that of
    /// power over time, where energy was counted, `x-power.svg`
    #[arg(required = true, value_name = "JSON")]
    results: Vec<PathBuf>,
}

/// Bytes of the largest results that are drawn: a thousand times those of our benchmarks.
const MOST: u64 = 64 << 20;

pub fn run(args: &PlotArgs) -> Result<(), Failure> {
    for path in &args.results {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let json = ggas_files::read_to_string(path, MOST).map_err(|error| usage(&error))?;
        let pictures = ggas_benches::plot(&json).map_err(|error| usage(&error))?;
        if let Some(svg) = pictures.rows {
            written(WholeFile::create(&path.with_extension("svg"))?, &svg)?;
        }
        if let Some(svg) = pictures.power {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            written(WholeFile::create(&path.with_file_name(format!("{stem}-power.svg")))?, &svg)?;
        }
    }
    Ok(())
}
