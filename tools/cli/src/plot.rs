//! `ggas plot`: results that were kept, as pictures.

use crate::failure::Failure;
use ggas_benches::WholeFile;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct PlotArgs {
    /// Results that `ggas bench --json` wrote; the picture of `x.json` is `x.svg` beside it
    #[arg(required = true, value_name = "JSON")]
    results: Vec<PathBuf>,
}

/// Bytes of the largest results that are drawn: a thousand times those of our benchmarks.
const MOST: u64 = 64 << 20;

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::other("these are no results: more than 64 MiB"));
    }
    Ok(text)
}

pub fn run(args: &PlotArgs) -> Result<(), Failure> {
    for path in &args.results {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
        let json = read(path).map_err(|error| usage(&error))?;
        let svg = ggas_benches::plot(&json).map_err(|error| usage(&error))?;
        WholeFile::create(&path.with_extension("svg"))?.write(svg.as_bytes())?;
    }
    Ok(())
}
