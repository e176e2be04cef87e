//! `ggas plot`: results that were kept, as pictures.

use crate::failure::Failure;
use crate::out;
use ggas_benches::WholeFile;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct PlotArgs {
    /// Results that `ggas bench --json` wrote; the picture of `x.json` is `x.svg` beside it
    #[arg(required = true, value_name = "JSON")]
    results: Vec<PathBuf>,
}

/// Bytes of the largest results that are drawn: a thousand times those of our benchmarks.
const MOST: u64 = 64 << 20;

pub fn run(args: &PlotArgs) -> Result<(), Failure> {
    for path in &args.results {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let json = ggas_files::read_to_string(path, MOST).map_err(|error| usage(&error))?;
        let svg = ggas_benches::plot(&json).map_err(|error| usage(&error))?;
        let picture = path.with_extension("svg");
        WholeFile::create(&picture)?.write(svg.as_bytes())?;
        out::note(&format!("written to {}\n", picture.display()));
    }
    Ok(())
}
