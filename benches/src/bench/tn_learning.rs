//! `tn-learning`: workloads of machine learning, projected from the share of their time in allreduces, which are measured
//! (GPU-TN, section 5.4.2, Table 3, Fig. 11).

use ggas_paper::learning::{AN4_LSTM, AN4_LSTM_GAINS, SIZES, WORKLOADS, Workload};

use super::tn_allreduce::allreduces;
use crate::messages::How;
use crate::report::text_of;
use crate::team::Task;
use crate::{Bench, BenchError, Device, Options, Progress, Report, Row, Team};

pub(crate) struct TnLearning;

impl Bench for TnLearning {
    fn name(&self) -> &'static str {
        "tn-learning"
    }

    fn about(&self) -> &'static str {
        "workloads of machine learning by the allreduces of tn-allreduce: how much quicker than between kernels"
    }

    fn by_windows(&self) -> bool {
        true
    }

    fn run(&self, team: &Team, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        let task = Task::new(self, team, options)?;
        let sizes: Vec<u64> = match options.device {
            Device::Gpu => SIZES.map(|bytes| bytes as u64).to_vec(),
            Device::Cpu => vec![4 << 10, 64 << 10],
        };
        let mut report = allreduces(task, &sizes, progress)?;
        project(&mut report.rows);
        report.notes.extend(WORKLOADS.iter().map(|workload| said_of(workload, &report.rows)));
        report.notes.push(
            "columns of workloads: speed-up over hdn, projected by 1/(1 - b + b t/t_hdn), b the share of Table 3"
                .to_owned(),
        );
        Ok(report)
    }
}

/// Gives all rows their speed-ups over the row by [`How::Hdn`] of as many bytes.
fn project(rows: &mut [Row]) {
    let times: Vec<_> = rows.iter().map(|row| hdn(rows, row.bytes)).collect();
    for (row, hdn) in rows.iter_mut().zip(times) {
        for workload in &WORKLOADS {
            row.extra.insert(workload.name, workload.projected(row.latency_us.median, hdn).into());
        }
    }
}

/// Time of an allreduce of these bytes by [`How::Hdn`].
fn hdn(rows: &[Row], bytes: Option<u64>) -> f64 {
    find(rows, How::Hdn, bytes).map_or(f64::NAN, |row| row.latency_us.median)
}

fn find(rows: &[Row], how: How, bytes: Option<u64>) -> Option<&Row> {
    rows.iter().find(|row| row.method.as_deref() == Some(how.name()) && row.bytes == bytes)
}

/// What a workload gains by triggers at the size where that is most, and what the paper says.
fn said_of(workload: &Workload, rows: &[Row]) -> String {
    let speedup = |row: &Row, how| {
        let of_how = find(rows, how, row.bytes)?;
        Some(workload.projected(of_how.latency_us.median, hdn(rows, row.bytes)))
    };
    let gain = |row: &Row| {
        let (tn, gds) = (speedup(row, How::Tn)?, speedup(row, How::Gds)?);
        Some((row.bytes?, 100.0 * (tn - 1.0), 100.0 * (tn / gds - 1.0)))
    };
    let Some((bytes, over_hdn, over_gds)) = rows.iter().filter_map(gain).max_by(|a, b| a.1.total_cmp(&b.1))
    else {
        return format!("{}: nothing to compare", workload.name);
    };
    let paper = match workload.name == AN4_LSTM.name {
        true => format!(" (paper: {} % and {} %)", AN4_LSTM_GAINS[0], AN4_LSTM_GAINS[1]),
        false => String::new(),
    };
    format!(
        "{}, {:.0} % blocked on {} allreduces: gpu-tn gains at most {over_hdn:.1} % over hdn, and {over_gds:.1} % over gds, at {} \
         bytes{paper}",
        workload.name,
        100.0 * workload.blocked,
        text_of(&workload.reductions.into()),
        text_of(&bytes.into()),
    )
}
