//! Section 6.6.3: stores and loads of neighbouring values and of every second one. How many requests the GPU's memory controller
//! makes of them is Table 6.1's.

use extoll_sim::timed::{Kernel, Place, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{SYSTEM, report};
use crate::programs::{between_gpus, on_all};
use crate::{Claim, Figure, PaperError, Report, Settings, today};

/// Bytes of a value, and of what the memory controller joins.
const VALUE: u64 = 4;
const LINE: u64 = 64;
/// Blocks of 64 threads: 8,192.
const BLOCKS: u64 = 128;
/// Values of each block, so that all have 128 KiB together.
const VALUES: u64 = 256;

#[derive(Clone, Copy)]
struct Access {
    name: &'static str,
    load: bool,
    /// Values of a request, and its bytes.
    joined: u64,
    bytes: u64,
}

const ACCESSES: [Access; 4] = [
    Access { name: "stores, neighbouring", load: false, joined: 16, bytes: LINE },
    Access { name: "stores, every second", load: false, joined: 1, bytes: VALUE },
    Access { name: "loads, neighbouring", load: true, joined: 16, bytes: LINE },
    Access { name: "loads, every second", load: true, joined: 8, bytes: LINE },
];

impl Access {
    fn requests(self) -> u64 {
        VALUES / self.joined
    }

    /// MB/s of values.
    fn rate(self, system: &System, seed: u64) -> Result<f64, PaperError> {
        let timed = Timed::new(system, 2, seed)?;
        let arrived = timed.flag();
        on_all(&timed, 1, |node| {
            let arrived = arrived.clone();
            node.stream(0).launch(Kernel::new("values", BLOCKS as usize), move |block| {
                for _ in 0..self.requests() {
                    match self.load {
                        true => block.load(1, self.bytes),
                        false => block.store(between_gpus(1, self.bytes).arrived(&arrived)),
                    }
                }
                if !self.load {
                    block.wait(&arrived, BLOCKS * self.requests(), Place::Gpu);
                }
            });
            node.stream(0).synchronize();
        });
        Ok((BLOCKS * VALUES * VALUE) as f64 / timed.now().as_us())
    }
}

pub(super) fn run(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(SYSTEM)?;
    let columns = &["access", "values", "requests", "MB/s"];
    let mut report = report("thesis-6", figure, settings, &system, columns);
    let mut rates = Vec::new();
    for (number, access) in (1..).zip(ACCESSES) {
        let rate = access.rate(&system, settings.seed)?;
        report.row([
            json!(access.name),
            json!(BLOCKS * VALUES),
            json!(BLOCKS * access.requests()),
            json!(rate),
        ]);
        report.picture.lines.push(Line::new(access.name, vec![(f64::from(number), rate)]));
        rates.push(rate);
    }
    let busy = || {
        let (card, gpu, network) = (&system.card, &system.gpu, &system.network);
        format!(
            "a request keeps the GPU's store unit for {:.0} ns and the card's window for {:.0} ns, and takes {:.0} ns of the link \
             with its header, with 4 B as with 64 about; the thesis tells none of these",
            gpu.store_ns,
            card.window_busy_ns,
            (network.header_bytes as f64 + VALUE as f64) / network.link_bytes_per_ns
        )
    };
    report.claims = vec![
        Claim::near("stores: neighbouring over every second", "6.6.3, Fig. 6.9", 7.0, 1.75, "times")
            .judge(rates[0] / rates[1])
            .because(busy)
            .today(today::coalescing("store")),
        Claim::near("loads: neighbouring over every second", "6.6.3, Fig. 6.9", 2.0, 0.5, "times")
            .judge(rates[2] / rates[3])
            .because(busy)
            .today(today::coalescing("load")),
    ];
    report.picture.x = Axis::new("access", Scale::Linear);
    report.picture.y = Axis::new("MB/s", Scale::Linear);
    Ok(report)
}
