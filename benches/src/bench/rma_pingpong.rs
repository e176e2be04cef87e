//! `rma-pingpong` (thesis 5.6.3): half a round trip of a put, by four ways to control and synchronise it.

use ggas::Spec;

use super::iterations_for;
use crate::error::Doing;
use crate::setup::{HostEnd, Layout, MAX_PUT, RoundData, Setup, Worker, consume, host_pair, report};
use crate::stats::time_calls;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row};

const SIZES: &[u64] = &[8, 64, 512, 4096, 65_536, 1_048_576];

pub(crate) struct RmaPingpong;

impl Bench for RmaPingpong {
    fn name(&self) -> &'static str {
        "rma-pingpong"
    }

    fn about(&self) -> &'static str {
        "half a round trip of a put, controlled by kernels or by the host (thesis 5.6.3)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification", "poll", "host-assisted", "host-driven"]
    }

    fn run(&self, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        options.validate(self)?;
        let mut report = report(self, options);
        let sizes = options.sizes_or(SIZES, 1..=MAX_PUT, 1)?;
        let methods: Vec<_> = self.methods().iter().filter(|method| options.wants(method)).collect();
        progress.begin(self.name(), (methods.len() * sizes.len()) as u64);
        for method in methods {
            for &bytes in &sizes {
                progress.now(format!("{method} {bytes} bytes"));
                let (row, check) = match *method {
                    _ => host_driven(self, options, bytes)?,
                };
                report.push(row.method(method).bytes(bytes).bandwidth_of(bytes), check);
                progress.step();
            }
        }
        Ok(report)
    }
}

/// One thread posts at both ends in turn and consumes the completer notifications.
fn host_driven(bench: &RmaPingpong, options: &Options, bytes: u64) -> Result<(Row, Check), BenchError> {
    let setup = Setup::new(bench, options, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [ping, pong] = host_pair(&setup, layout, &data)?;
    let mut rounds = 0;
    let iterations = options.iterations.unwrap_or(iterations_for(50_000, bytes));
    let samples = time_calls(iterations, |round| {
        rounds = round + 1;
        one_way(&ping, &pong, layout.source(round), layout.bytes, options)?;
        one_way(&pong, &ping, layout.arrival(), layout.bytes, options)
    })?;
    let mut check = data.check("at the pong side", &pong.payload, layout, rounds)?;
    check.merge(data.check("back at the ping side", &ping.payload, layout, rounds)?);
    Ok((Row::new(&samples.halved()), check))
}

#[inline]
fn one_way(
    from: &HostEnd,
    to: &HostEnd,
    at: usize,
    bytes: usize,
    options: &Options,
) -> Result<(), BenchError> {
    from.connection
        .put(&from.payload.region, at, bytes, from.target, Spec::COMPLETER)
        .doing("posting a put")?;
    consume(&to.port, options).map(drop)
}
