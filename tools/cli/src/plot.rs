//! `ggas plot`: results that were kept, as pictures.

use crate::failure::Failure;
use ggas_benches::WholeFile;
use std::fs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct PlotArgs {
    /// Results that `ggas bench --json` wrote; the picture of `x.json` is `x.svg` beside it
    #[arg(required = true, value_name = "JSON")]
    results: Vec<PathBuf>,
}

pub fn run(args: &PlotArgs) -> Result<(), Failure> {
    for path in &args.results {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let json = fs::read_to_string(path).map_err(|error| usage(&error))?;
        let svg = ggas_benches::plot(&json).map_err(|error| usage(&error))?;
        WholeFile::create(&path.with_extension("svg"))?.write(svg.as_bytes())?;
    }
    Ok(())
}
