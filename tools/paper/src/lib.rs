//! Figures of papers, asked again on the timed model.
//!
//! A figure runs the paper's programs on the [timed driver](extoll_sim::timed) with the parameters of the paper's
//! system, and holds what comes out against what the paper's text says of it: [`Claim`], [`Verdict`]. A claim that
//! does not hold is an answer, too, and says why. Parameters come from the papers and from measurements, never from
//! the figure that they reproduce. The same parameters and seed give the same result, bit for bit.
//!
//! ```
//! let paper = ggas_paper::find("gpu-tn")?;
//! let report = paper.figure("8")?.run(&ggas_paper::Settings::default())?;
//! print!("{}", report.table());
//! # Ok::<(), ggas_paper::PaperError>(())
//! ```

mod claim;
mod error;
mod faraji;
mod gmpi;
mod gpu_tn;
mod h200;
mod hpe;
mod memory;
mod parameters;
mod programs;
mod report;
mod thesis;
mod today;

pub use claim::{Claim, Verdict};
pub use error::PaperError;
pub use gpu_tn::learning;
pub use report::{Checked, Parameter, Report, SCHEMA};

use extoll_sim::timed::System;
use std::path::Path;

/// What all figures can be asked with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of data, and of choices of the model.
    pub seed: u64,
    /// Parameters in place of those of the paper's system.
    pub system: Option<System>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { seed: 1, system: None }
    }
}

impl Settings {
    /// The system asked for, else the built-in one of this name.
    fn system(&self, name: &str) -> Result<System, PaperError> {
        self.system.clone().map_or_else(|| Ok(System::named(name)?), Ok)
    }
}

/// Parameters of a system from a file.
///
/// # Errors
/// [`PaperError::System`] names the entry that is missing, unknown or makes no sense.
pub fn system(path: &Path) -> Result<System, PaperError> {
    Ok(System::load(path)?)
}

/// A figure, table or section of a paper.
pub struct Figure {
    number: &'static str,
    about: &'static str,
    run: fn(&Figure, &Settings) -> Result<Report, PaperError>,
}

impl Figure {
    /// As the paper numbers it.
    pub fn number(&self) -> &'static str {
        self.number
    }

    /// What it shows, in one sentence.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Runs what it shows.
    ///
    /// # Errors
    /// [`PaperError`], such as parameters that the model refuses.
    pub fn run(&self, settings: &Settings) -> Result<Report, PaperError> {
        (self.run)(self, settings)
    }
}

/// A paper, and those of its figures that the model answers.
pub struct Paper {
    name: &'static str,
    title: &'static str,
    figures: &'static [Figure],
}

impl Paper {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Author, title, year; for the thesis the chapter.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// Those that are built.
    pub fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    /// The figure of this number.
    ///
    /// # Errors
    /// [`PaperError::UnknownFigure`] lists those there are.
    pub fn figure(&self, number: &str) -> Result<&'static Figure, PaperError> {
        let known = self.figures;
        known.iter().find(|figure| figure.number == number).ok_or_else(|| PaperError::UnknownFigure {
            paper: self.name,
            number: number.to_owned(),
            known: known.iter().map(|figure| figure.number).collect::<Vec<_>>().join(", "),
        })
    }
}

/// All papers, and `h200`, our own measurements.
pub fn papers() -> &'static [Paper] {
    PAPERS
}

/// The paper of this name.
///
/// # Errors
/// [`PaperError::UnknownPaper`] lists those there are.
pub fn find(name: &str) -> Result<&'static Paper, PaperError> {
    PAPERS.iter().find(|paper| paper.name == name).ok_or_else(|| PaperError::UnknownPaper {
        name: name.to_owned(),
        known: PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>().join(", "),
    })
}

const PAPERS: &[Paper] = &[
    Paper {
        name: "thesis-3",
        title: "L. Oden, Direct Communication Methods for Distributed GPUs, 2014, chapter 3: data transfer",
        figures: thesis::CHAPTER_3,
    },
    Paper {
        name: "thesis-4",
        title: "L. Oden, Direct Communication Methods for Distributed GPUs, 2014, chapter 4: GASPI",
        figures: thesis::CHAPTER_4,
    },
    Paper {
        name: "thesis-5",
        title: "L. Oden, Direct Communication Methods for Distributed GPUs, 2014, chapter 5: put and get \
        by GPUs",
        figures: thesis::CHAPTER_5,
    },
    Paper {
        name: "thesis-6",
        title: "L. Oden, Direct Communication Methods for Distributed GPUs, 2014, chapter 6: global \
        address space",
        figures: thesis::CHAPTER_6,
    },
    Paper { name: "gmpi", title: "Kuwahara et al., GMPI: GPU self MPI", figures: gmpi::FIGURES },
    Paper {
        name: "faraji",
        title: "I. Faraji, Improving Communication Performance in GPU-Accelerated HPC Clusters",
        figures: faraji::FIGURES,
    },
    Paper {
        name: "hpe",
        title: "Cabezas et al., Runtime and Architecture Support for Efficient Data Exchange in \
        Multi-Accelerator Applications",
        figures: hpe::FIGURES,
    },
    Paper {
        name: "gpu-tn",
        title: "LeBeane et al., GPU Triggered Networking for Intra-Kernel Communications, SC 2017",
        figures: gpu_tn::FIGURES,
    },
    Paper {
        name: "h200",
        title: "No paper: the timed model against our own measurements of two H200",
        figures: h200::FIGURES,
    },
];
