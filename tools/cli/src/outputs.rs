//! Where a result goes: standard output, and files. That it can go there is known before the run.

use crate::failure::Failure;
use crate::out;
use ggas_benches::WholeFile;
use std::path::Path;

/// The files, opened, and what stands on standard output.
pub struct Outputs {
    json_to_stdout: bool,
    json: Option<WholeFile>,
    plot: Option<WholeFile>,
}

impl Outputs {
    /// `json` may be `-`: standard output, and the table goes to standard error.
    pub fn open(json: Option<&Path>, plot: Option<&Path>) -> Result<Self, Failure> {
        let create = |path: &Path| WholeFile::create(path).map_err(|error| Failure::Usage(error.to_string()));
        if plot.is_some_and(is_stdout) {
            let why = "--plot -: standard output is for the table or the JSON; name a file (./- for one of this name)";
            return Err(Failure::Usage(why.to_owned()));
        }
        let json_to_stdout = json.is_some_and(is_stdout);
        Ok(Outputs {
            json_to_stdout,
            json: json.filter(|_| !json_to_stdout).map(create).transpose()?,
            plot: plot.map(create).transpose()?,
        })
    }

    /// Whether a picture is wanted.
    pub fn has_plot(&self) -> bool {
        self.plot.is_some()
    }

    /// Writes all that was asked for.
    pub fn give(self, text: &str, json: &str, svg: Option<&str>) -> Result<(), Failure> {
        if let Some(file) = self.json {
            written(file, json)?;
        }
        if let (Some(file), Some(svg)) = (self.plot, svg) {
            written(file, svg)?;
        }
        if self.json_to_stdout {
            out::note(text);
            return out::print(json);
        }
        out::print(text)
    }
}

/// Whether a file's name stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a result, and says where it is.
pub fn written(file: WholeFile, text: &str) -> Result<(), Failure> {
    let path = file.path().display().to_string();
    file.write(text.as_bytes())?;
    out::note(&format!("written to {path}\n"));
    Ok(())
}
