//! The processes that run a benchmark together.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Bench, BenchError, Options, Report};

/// Who runs a benchmark: this process with all its nodes, or the processes of a job with a node each.
#[derive(Debug, Default)]
pub struct Team(());

impl Team {
    /// This process alone.
    pub fn alone() -> Self {
        Self(())
    }

    /// What joins the nodes, in words.
    pub fn fabric(&self) -> &'static str {
        "in process"
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> u32 {
        0
    }

    /// Number of processes.
    pub fn size(&self) -> u32 {
        1
    }

    /// Whether this process reports for all.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Cores that this process may use.
    pub fn cores(&self) -> Vec<usize> {
        Vec::new()
    }

    /// What every process has, in the order of their ranks. All must call it, and none goes on before all did.
    pub(crate) fn gather<T>(&self, own: &T) -> Result<Vec<T>, BenchError>
    where
        T: Serialize + DeserializeOwned + Clone,
    {
        Ok(vec![own.clone()])
    }
}

/// One benchmark, its options and who runs it.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub bench: &'a dyn Bench,
    pub team: &'a Team,
    pub options: &'a Options,
}

impl<'a> Task<'a> {
    /// Checks the options.
    pub fn new(bench: &'a dyn Bench, team: &'a Team, options: &'a Options) -> Result<Self, BenchError> {
        options.validate(bench)?;
        Ok(Self { bench, team, options })
    }

    /// An empty report.
    pub fn report(&self) -> Report {
        Report::new(self.bench.name(), self.team, self.options)
    }

    /// Methods to run.
    pub fn methods(&self) -> Vec<&'static str> {
        self.bench.methods().iter().copied().filter(|method| self.options.wants(method)).collect()
    }
}
