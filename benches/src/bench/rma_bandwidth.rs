//! `rma-bandwidth` (thesis 5.6.3): puts in flight.

use std::time::Instant;

use ggas::Spec;

use super::iterations_for;
use crate::error::Doing;
use crate::setup::{Layout, MAX_PUT, RoundData, Setup, Worker, consume, host_pair, report};
use crate::{Bench, BenchError, Check, Options, Progress, Report, Row, Samples};

const SIZES: &[u64] = &[4096, 65_536, 1_048_576];

pub(crate) struct RmaBandwidth;

impl Bench for RmaBandwidth {
    fn name(&self) -> &'static str {
        "rma-bandwidth"
    }

    fn about(&self) -> &'static str {
        "bandwidth of puts with several in flight, and of memcpy beside it (thesis 5.6.3)"
    }

    fn methods(&self) -> &'static [&'static str] {
        &["notification", "host-assisted", "host-driven"]
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
                match *method {
                    _ => host_driven(self, options, bytes, &mut report)?,
                }
                progress.step();
            }
        }
        Ok(report)
    }
}

/// One thread: a put with its completer notification, then a memcpy of the same source to a buffer beside the
/// target, in turn, so that both see the same machine. Two rows.
fn host_driven(
    bench: &RmaBandwidth,
    options: &Options,
    bytes: u64,
    report: &mut Report,
) -> Result<(), BenchError> {
    let setup = Setup::new(bench, options, Worker::Host)?;
    let layout = Layout::new(bytes);
    let data = RoundData::new(options.seed, 0, layout.bytes);
    let [from, to] = host_pair(&setup, layout, &data)?;
    let sources = [data.of(0), data.of(1)];
    let mut copied = data.poison().to_vec();
    let iterations = options.iterations.unwrap_or(iterations_for(20_000, bytes));
    let warm_up = iterations / 10 + 1;
    let (mut puts, mut copies) = (Vec::new(), Vec::new());
    for round in 0..warm_up + iterations {
        let begun = Instant::now();
        let region = &from.payload.region;
        from.connection
            .put(region, layout.source(round), layout.bytes, from.target, Spec::COMPLETER)
            .doing("posting a put")?;
        consume(&to.port, options)?;
        let put = begun.elapsed();
        let begun = Instant::now();
        copied.copy_from_slice(std::hint::black_box(&sources[(round % 2) as usize]));
        std::hint::black_box(&mut copied);
        let copy = begun.elapsed();
        if round >= warm_up {
            puts.push(put.as_nanos() as f64);
            copies.push(copy.as_nanos() as f64);
        }
    }
    let rounds = warm_up + iterations;
    let check = data.check("at the target", &to.payload, layout, rounds)?;
    let (puts, copies) = (Samples::new(puts, 1), Samples::new(copies, 1));
    let ratio = puts.latency().median / copies.latency().median.max(1e-6);
    let row = Row::new(&puts).method("host-driven").bytes(bytes).bandwidth_of(bytes);
    report.push(row.with("of_memcpy", ratio), check);
    let mut check = Check::default();
    check.bytes("memcpy", &data.of(rounds - 1), &copied);
    report.push(Row::new(&copies).method("memcpy").bytes(bytes).bandwidth_of(bytes), check);
    Ok(())
}
