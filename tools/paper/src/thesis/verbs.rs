//! Section 5.5.5: what a post and a poll of InfiniBand verbs take a GPU, by the steps of Table 5.4; accesses and instructions (Table
//! 5.3, Fig. 5.16); the RMA unit's calls beside them.
//!
//! The thesis's system has the prices: of an instruction, of an access to memory of the GPU and of the host. What a call accesses is
//! what our library's calls do, counted on the CPU executor. Its instructions are the thesis's for its port, and as many more or fewer
//! as ours have from step to step, in PTX.

use extoll_sim::timed::{Kernel, Ps, System, Timed};
use ggas_plot::{Axis, Line, Scale};
use serde_json::json;

use super::{INFINIBAND, report};
use crate::programs::{Span, on_all};
use crate::report::Parameter;
use crate::today::{self, Accesses};
use crate::{Claim, Figure, PaperError, Report, Settings, Verdict};

const STEPS: [&str; 5] = ["port", "shared", "static", "unstamped", "bare"];
const CALLS: [&str; 2] = ["post", "poll"];
const QUEUES: [&str; 2] = ["host", "gpu"];

/// Table 5.4, in us: by places of queues and calls, steps in their order.
const TABLE_5_4: [[[f64; 5]; 2]; 2] = [
    [[12.46, 11.86, 11.83, 9.50, 7.52], [15.69, 10.70, 10.70, 10.70, 5.45]],
    [[10.66, 10.86, 10.56, 8.80, 7.00], [8.27, 8.27, 8.20, 8.20, 3.12]],
];
/// Table 5.3, of 100 calls of the port, by places and calls: reads and writes of host memory. What of the GPU's is read, the table
/// and the text tell differently.
const TABLE_5_3: [[[u64; 2]; 2]; 2] = [[[147, 1404], [586, 101]], [[0, 197], [112, 1]]];
/// Instructions of 100 posts and of 100 polls there.
const INSTRUCTIONS: [f64; 2] = [46_918.0, 17_158.0];
/// Of one thread on Kepler: 11 cycles until the next one that depends on it (CUDA C programming guide, multiprocessor level), 706 MHz.
const INSTRUCTION_NS: f64 = 11.0 / 0.706;
/// Times it with which the orders of steps are looked at, too: Fermi's 22 cycles, and two instructions under way at a time.
const OTHER_PRICES: [f64; 2] = [0.5, 2.0];
/// Steps by places and calls, from the quickest to the slowest, of those that Table 5.4 tells apart by a hundredth and more.
const ORDERS: [(usize, usize, &[usize]); 7] = [
    (0, 0, &[4, 3, 1, 0]),
    (0, 0, &[4, 3, 2, 0]),
    (0, 1, &[4, 1, 0]),
    (1, 0, &[4, 3, 0, 1]),
    (1, 0, &[4, 3, 2, 1]),
    (1, 1, &[4, 3]),
    (1, 1, &[4, 0]),
];

/// A call, by its numbers in the tables.
#[derive(Clone, Copy)]
struct Call {
    queues: usize,
    call: usize,
    step: usize,
}

impl Call {
    fn is_host(self) -> bool {
        self.queues == 0
    }

    fn accesses(self) -> Result<Accesses, PaperError> {
        let (queues, call) = (QUEUES[self.queues], CALLS[self.call]);
        today::verbs_accesses(STEPS[self.step], queues, call).ok_or(PaperError::Kept("cpu/verbs-ladder.json"))
    }

    /// The thesis's for the port, and what our step has more or fewer than ours.
    fn instructions(self) -> Result<f64, PaperError> {
        let ours = |step: usize| {
            let found = today::verbs_instructions(STEPS[step], 64, CALLS[self.call]);
            found.ok_or(PaperError::Kept("cpu/verbs-instructions.json"))
        };
        Ok(INSTRUCTIONS[self.call] / 100.0 + ours(self.step)? - ours(0)?)
    }

    /// What it takes a thread of a block on the timed model, where an instruction takes `instruction_ns`.
    fn time(self, system: &System, seed: u64, instruction_ns: f64) -> Result<Ps, PaperError> {
        let (accesses, instructions) = (self.accesses()?, self.instructions()?);
        let gpu = &system.gpu;
        // Stores to the GPU's own memory leave at once; a fence waits for those before it to come where they go.
        let (read, store, fence) = if self.is_host() {
            (gpu.poll_host_ns, gpu.store_ns, gpu.fence_ns)
        } else {
            (gpu.poll_ns, 0.0, gpu.poll_ns)
        };
        let parts = [
            instructions * instruction_ns,
            accesses.queue_reads * read + accesses.table_reads * gpu.poll_ns,
            accesses.queue_writes * store + accesses.doorbells * gpu.store_ns,
            fence,
        ];
        let timed = Timed::new(system, 1, seed)?;
        let span = Span::default();
        on_all(&timed, 1, |node| {
            let span = span.clone();
            node.stream(0).launch(Kernel::new("call", 1), move |block| {
                span.over(0, || block.now(), || parts.into_iter().for_each(|ns| block.work(Ps::ns(ns))));
            });
            node.stream(0).synchronize();
        });
        Ok(span.length())
    }
}

pub(super) fn ladder(figure: &Figure, settings: &Settings) -> Result<Report, PaperError> {
    let system = settings.system(INFINIBAND)?;
    let columns = &[
        "call",
        "queues",
        "step",
        "paper us",
        "model us",
        "CPU executor us",
        "instructions",
        "host reads",
        "host writes",
    ];
    let mut report = report("thesis-5", figure, settings, &system, columns);
    let us = times(&system, settings.seed, INSTRUCTION_NS)?;
    for (queues, place) in QUEUES.into_iter().enumerate() {
        for (call, name) in CALLS.into_iter().enumerate() {
            for (step, method) in STEPS.into_iter().enumerate() {
                let one = Call { queues, call, step };
                let accesses = one.accesses()?;
                report.row([
                    json!(name),
                    json!(place),
                    json!(method),
                    json!(TABLE_5_4[queues][call][step]),
                    json!(us[queues][call][step]),
                    json!(accesses.us),
                    json!(one.instructions()?),
                    json!(if one.is_host() { accesses.queue_reads } else { 0.0 }),
                    json!(accesses.doorbells + if one.is_host() { accesses.queue_writes } else { 0.0 }),
                ]);
            }
        }
    }
    report.parameters.push(Parameter {
        name: "verbs.instruction_ns".to_owned(),
        value: format!("{INSTRUCTION_NS:.1}"),
        source: "11 cycles (CUDA C programming guide, compute capability 3.x) of 706 MHz; taken in view of Table 5.4".to_owned(),
    });
    report.claims = orders(&us);
    report.claims.push(other_prices(&system, settings.seed)?);
    report.claims.extend(near(&us));
    report.claims.extend(accesses()?);
    report.claims.extend(beside_rma()?);
    report.notes.push("no HCA has run our verbs; the column of today is the CPU executor's".to_owned());
    report.notes.push(
        "that an instruction takes 11 cycles was chosen with Table 5.4 in view, and nothing tells how many of them wait for one \
         another: that posts come near the table is no evidence. The orders of steps stand without it"
            .to_owned(),
    );
    report.picture.x = Axis::new("step", Scale::Linear);
    report.picture.y = Axis::new("us", Scale::Linear);
    let line = |queues: usize, call: usize| {
        let points = us[queues][call].iter().enumerate().map(|(step, us)| (step as f64, *us)).collect();
        Line::new(&format!("{}, queues of the {}", CALLS[call], QUEUES[queues]), points)
    };
    report.picture.lines = vec![line(0, 0), line(0, 1), line(1, 0), line(1, 1)];
    Ok(report)
}

/// All of Table 5.4, in us.
type Times = [[[f64; 5]; 2]; 2];

fn times(system: &System, seed: u64, instruction_ns: f64) -> Result<Times, PaperError> {
    let mut us = Times::default();
    for (queues, calls) in us.iter_mut().enumerate() {
        for (call, steps) in calls.iter_mut().enumerate() {
            for (step, us) in steps.iter_mut().enumerate() {
                *us = Call { queues, call, step }.time(system, seed, instruction_ns)?.as_us();
            }
        }
    }
    Ok(us)
}

fn named(queues: usize, call: usize) -> String {
    format!("{} in us, queues of the {}", CALLS[call], QUEUES[queues])
}

/// Table 5.4: the orders of its steps, and of places.
fn orders(us: &Times) -> Vec<Verdict> {
    let of_steps = |(queues, call, order): (usize, usize, &[usize])| {
        let values: Vec<_> = order.iter().map(|step| (STEPS[*step], us[queues][call][*step])).collect();
        Claim::order(&named(queues, call), "Table 5.4", &values)
    };
    let of_places = |(call, name): (usize, &str)| {
        let values = [("GPU", us[1][call][0]), ("host", us[0][call][0])];
        Claim::order(&format!("{name} of the port in us, by where queues lie"), "Table 5.4", &values)
    };
    ORDERS.into_iter().map(of_steps).chain(CALLS.into_iter().enumerate().map(of_places)).collect()
}

/// Whether the orders are the same where an instruction takes another time.
fn other_prices(system: &System, seed: u64) -> Result<Verdict, PaperError> {
    let mut different = 0;
    for factor in OTHER_PRICES {
        let us = times(system, seed, INSTRUCTION_NS * factor)?;
        different += orders(&us).iter().filter(|order| !order.holds).count();
    }
    let text = "orders above that are others where an instruction takes half the time, or twice";
    Ok(Claim::at_most(text, "Table 5.4", 0.0, "").judge(different as f64))
}

/// The first and the last line of Table 5.4.
fn near(us: &Times) -> Vec<Verdict> {
    let mut claims = Vec::new();
    for (queues, call, step) in [0, 1]
        .into_iter()
        .flat_map(|queues| [0, 1].map(|call| (queues, call)))
        .flat_map(|(q, c)| [(q, c, 0), (q, c, 4)])
    {
        let paper = TABLE_5_4[queues][call][step];
        let text = format!(
            "{}: {}, by a price of instructions chosen in view of it",
            named(queues, call),
            STEPS[step]
        );
        let executor = today::verbs_accesses(STEPS[step], QUEUES[queues], CALLS[call]);
        let claim = Claim::near(&text, "Table 5.4", paper, paper / 4.0, "us")
            .judge(us[queues][call][step])
            .because(|| {
                "our poll is shorter, at most four reads of a completion and two of tables; the thesis counts 5.9 reads of \
                 host memory for its port, and some hundreds of the GPU's"
                    .to_owned()
            });
        claims.push(match executor {
            Some(found) => claim.today(format!("CPU executor {:.2} us (cpu/verbs-ladder.json)", found.us)),
            None => claim,
        });
    }
    claims
}

/// Table 5.3, as far as it agrees with itself: accesses to host memory.
fn accesses() -> Result<Vec<Verdict>, PaperError> {
    let host = |queues: usize, call: usize| -> Result<f64, PaperError> {
        let accesses = Call { queues, call, step: 0 }.accesses()?;
        let of_queue = if queues == 0 { accesses.queue_reads + accesses.queue_writes } else { 0.0 };
        Ok(100.0 * (of_queue + accesses.doorbells))
    };
    let paper = |queues: usize, call: usize| TABLE_5_3[queues][call].iter().sum::<u64>() as f64;
    let ratio = paper(0, 0) / paper(1, 0);
    let claim = Claim::near(
        "accesses of posts to host memory, queues there over the GPU's",
        "Table 5.3",
        ratio,
        ratio / 4.0,
        "times",
    );
    let mut claims = vec![claim.judge(host(0, 0)? / host(1, 0)?)];
    for (queues, call) in [(0, 0), (0, 1), (1, 0)] {
        let text = format!("host accesses of 100 {}s, queues of the {}", CALLS[call], QUEUES[queues]);
        let paper = paper(queues, call);
        claims.push(
            Claim::near(&text, "Table 5.3", paper, paper / 4.0, "").judge(host(queues, call)?).because(|| {
                "ours writes words of 8 bytes, rings a doorbell of 4, and stamps what lies behind byte 64 alone".to_owned()
            }),
        );
    }
    let unstamped = Call { queues: 0, call: 0, step: 3 }.accesses()?.queue_reads;
    claims.push(
        Claim::at_most("reads of host memory by a post without stamping", "5.5.5, Fig. 5.16", 0.0, "")
            .judge(unstamped),
    );
    Ok(claims)
}

/// Instructions of the RMA unit's calls beside those of verbs, both ours, of one thread.
fn beside_rma() -> Result<Vec<Verdict>, PaperError> {
    CALLS
        .into_iter()
        .map(|call| {
            let of = |method| today::verbs_instructions(method, 1, call);
            let (Some(rma), Some(port)) = (of("rma"), of("port")) else {
                return Err(PaperError::Kept("cpu/verbs-instructions.json"));
            };
            let text = format!("an RMA {call} needs fewer instructions than one of verbs: ours over ours");
            Ok(Claim::at_most(&text, "5.6.4", 1.0, "times")
                .judge(rma / port)
                .today(format!("PTX of sm_90: {rma:.0} against {port:.0} (cpu/verbs-instructions.json)")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ORDERS` has each pair of steps that the table tells apart by a hundredth, as the table has it, and no other.
    #[test]
    fn orders_are_those_that_the_table_tells_apart() {
        for (queues, call) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let table = TABLE_5_4[queues][call];
            let chains = ORDERS.iter().filter(|(q, c, _)| (*q, *c) == (queues, call));
            let mut pairs = Vec::new();
            for (_, _, chain) in chains {
                for (at, quick) in chain.iter().enumerate() {
                    pairs.extend(chain[at + 1..].iter().map(|slow| (*quick, *slow)));
                }
            }
            for (quick, slow) in &pairs {
                assert!(table[*slow] >= table[*quick] * 1.01, "{quick} {slow}");
            }
            for quick in 0..5 {
                for slow in (0..5).filter(|slow| table[*slow] >= table[quick] * 1.01) {
                    // Steps that the table has in one place stand for each other.
                    let is_it =
                        |pair: &(usize, usize)| table[pair.0] == table[quick] && table[pair.1] == table[slow];
                    assert!(pairs.iter().any(is_it), "{} {}: {quick} {slow}", QUEUES[queues], CALLS[call]);
                }
            }
        }
    }
}
