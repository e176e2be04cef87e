//! `ggas paper`: figures of papers, asked again on the timed model.

use crate::failure::{Failure, chain};
use crate::out;
use crate::outputs::Outputs;
use ggas_paper::{Figure, PaperError, Settings};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct PaperArgs {
    /// Name of a paper, or `list`
    name: String,
    /// Number of a figure; all that are built otherwise
    figure: Option<String>,
    /// Seed of all data
    #[arg(long, value_name = "N", default_value_t = Settings::default().seed)]
    seed: u64,
    /// Parameters in place of those of the paper's system: a file like those in fpga-sim/systems
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// Write the result as JSON; `-`: to standard output, and everything else to standard error. Several figures need a
    /// folder that is there: each gets a file of its own
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figure as SVG; several figures need a folder
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub fn run(args: &PaperArgs) -> Result<(), Failure> {
    if args.name == "list" {
        return list(args);
    }
    let paper = ggas_paper::find(&args.name)?;
    let figures: Vec<&Figure> = match &args.figure {
        Some(number) => vec![paper.figure(number)?],
        None => paper.figures().iter().collect(),
    };
    let system = args.system.as_deref().map(ggas_paper::system).transpose()?;
    let settings = Settings { seed: args.seed, system };
    let places = figures
        .iter()
        .map(|figure| outputs(args, &format!("{}-{}", paper.name(), figure.number()), figures.len() > 1))
        .collect::<Result<Vec<_>, _>>()?;
    for (figure, outputs) in figures.iter().zip(places) {
        let report = figure.run(&settings)?;
        let svg = outputs.has_plot().then(|| report.svg()).transpose();
        let svg = svg.map_err(|error| Failure::Failed(error.to_string()))?;
        outputs.give(&(report.table() + "\n"), &report.json(), svg.as_deref())?;
        if !report.is_verified() {
            let wrong = report.checked.wrong;
            return Err(Failure::Failed(format!("figure {}: {wrong} values are wrong", figure.number())));
        }
    }
    Ok(())
}

/// Papers and figures.
fn list(args: &PaperArgs) -> Result<(), Failure> {
    if let Some(figure) = &args.figure {
        return Err(Failure::Usage(format!("list {figure}: `list` takes no figure")));
    }
    let mut text = String::new();
    for paper in ggas_paper::papers() {
        let _ = writeln!(text, "{:<9} {}", paper.name(), paper.title());
        for figure in paper.figures() {
            let _ = writeln!(text, "  {:<10} {}", figure.number(), figure.about());
        }
    }
    out::print(&text)
}

/// Where a figure's result goes; `stem` names the files in folders.
fn outputs(args: &PaperArgs, stem: &str, is_one_of_several: bool) -> Result<Outputs, Failure> {
    if is_one_of_several && args.json.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Failure::Usage("--json -: name one figure, or a folder".to_owned()));
    }
    let file = |path: &Option<PathBuf>, extension: &str| {
        path.as_ref().map(|path| place(path, stem, extension, is_one_of_several)).transpose()
    };
    Outputs::open(file(&args.json, "json")?.as_deref(), file(&args.plot, "svg")?.as_deref())
}

/// The file: in a folder it has the figure's name.
fn place(path: &Path, stem: &str, extension: &str, is_one_of_several: bool) -> Result<PathBuf, Failure> {
    match (path.is_dir(), is_one_of_several) {
        (true, _) => Ok(path.join(format!("{stem}.{extension}"))),
        (false, false) => Ok(path.to_owned()),
        (false, true) => {
            Err(Failure::Usage(format!("{}: several figures need a folder that is there", path.display())))
        }
    }
}

impl From<PaperError> for Failure {
    fn from(error: PaperError) -> Self {
        let text = chain(&error);
        match error {
            PaperError::UnknownPaper { .. } | PaperError::UnknownFigure { .. } | PaperError::System(_) => {
                Failure::Usage(text)
            }
            PaperError::Timed(_) | PaperError::Map(_) | PaperError::Kept(_) => Failure::Failed(text),
        }
    }
}
