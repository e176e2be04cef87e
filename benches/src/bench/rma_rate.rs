//! `rma-rate`: how many 8-byte puts a node posts per second.

use ggas::Spec;

use crate::error::Doing;
use crate::setup::{HostEnd, Layout, RoundData, Setup, Worker, consume, host_pair, report};
use crate::stats::time_calls;
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples};

/// Bytes of one put.
const BYTES: u64 = 8;

pub(crate) struct RmaRate;

impl Bench for RmaRate {
    fn name(&self) -> &'static str {
        "rma-rate"
    }

    fn about(&self) -> &'static str {
        "8-byte puts per second, with and without a notification each"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["put", "put-notify", "host-driven", "host-driven-notify"]
    }

    fn run(&self, options: &Options, progress: &mut Progress) -> Result<Report, BenchError> {
        options.validate(self)?;
        options.sizes_or(&[BYTES], BYTES..=BYTES, 1)?;
        let mut report = report(self, options);
        let methods: Vec<_> = self.methods().iter().filter(|method| options.wants(method)).collect();
        progress.begin(self.name(), methods.len() as u64);
        for method in methods {
            progress.now(*method);
            let (samples, check) = match *method {
                "host-driven-notify" => host_driven(self, options, true)?,
                _ => host_driven(self, options, false)?,
            };
            let mut row = Row::new(&samples).method(method).bytes(BYTES);
            row.rate_per_s = samples.rate_per_s();
            report.push(row, check);
            progress.step();
        }
        Ok(report)
    }
}

/// One thread posts groups of puts and consumes a notification for each, or for the last one of a group. The
/// sample is the group's mean, all of it arrived.
fn host_driven(bench: &RmaRate, options: &Options, notify: bool) -> Result<(Samples, Check), BenchError> {
    let group: u64 = if notify { 64 } else { 1024 };
    let setup = Setup::new(bench, options, Worker::Host)?;
    let layout = Layout::new(group * BYTES);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, to] = host_pair(&setup, layout, &data)?;
    let groups = (options.iterations.unwrap_or(1_000_000) / group).max(1);
    let mut rounds = 0;
    let samples = time_calls(groups, |round| {
        rounds = round + 1;
        post_group(&from, layout.source(round), group, notify)?;
        for _ in 0..if notify { group } else { 1 } {
            consume(&to.port, options)?;
        }
        Ok(())
    })?;
    let check = data.check("at the target", &to.payload, layout, rounds)?;
    Ok((samples.divided(group), check))
}

fn post_group(from: &HostEnd, at: usize, group: u64, notify: bool) -> Result<(), BenchError> {
    for word in 0..group {
        let spec = if notify || word + 1 == group { Spec::COMPLETER } else { Spec::NONE };
        let offset = word * BYTES;
        from.connection
            .put(&from.payload.region, at + offset as usize, BYTES as usize, from.target + offset, spec)
            .doing("posting a put")?;
    }
    Ok(())
}
