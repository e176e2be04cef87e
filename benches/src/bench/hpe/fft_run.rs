//! Runs of the FFT. With 2^d devices, the butterflies of the first d steps have their numbers on two devices each; in every step
//! these are other pairs. Then each device has what it needs.

use std::time::Duration;

use crate::args::bench_hpe_fft;
use ggas_hpe::Runtime;

use super::memory::{Array, bytes_of};
use super::spectrum::{Number, Spectrum};
use super::steps::{Event, Steps};
use super::{How, devices, shape};
use crate::error::Doing;
use crate::kernel;
use crate::setup::Setup;
use crate::{BenchError, Check};

const ALONE: &str = "bench_hpe_fft_alone";
const ACROSS: &str = "bench_hpe_fft_across";
const POISON: Number = [-1e30, -1e30];

/// What a device has.
struct Part {
    /// What a step across devices reads, and what it writes, in turn.
    data: [Array<Number>; 2],
    /// The partner's, if they are copied.
    came: Array<Number>,
    twiddles: Array<Number>,
}

/// A transform on some devices.
pub(super) struct Run<'a> {
    setup: &'a Setup<'a>,
    spectrum: &'a Spectrum,
    how: How,
    parts: Vec<Part>,
    /// Numbers of a device.
    count: usize,
}

impl<'a> Run<'a> {
    pub fn new(
        setup: &'a Setup<'a>,
        spectrum: &'a Spectrum,
        how: How,
        count: usize,
    ) -> Result<Run<'a>, BenchError> {
        let builder = devices(setup, count as u32)?.peers(how != How::Staged);
        let runtime = builder.timeout(setup.options.timeout).build().doing("making a runtime")?;
        let numbers = spectrum.before.len() / count;
        let part = |device: usize| part(&runtime, device, numbers, &spectrum.twiddles);
        let parts = (0..count).map(part).collect::<Result<_, _>>()?;
        Ok(Run { setup, spectrum, how, parts, count: numbers })
    }

    /// Puts the input there, and poison where something is to come.
    pub fn fill(&self) -> Result<(), BenchError> {
        let poison = vec![POISON; self.count];
        for (part, numbers) in self.parts.iter().zip(self.spectrum.before.chunks(self.count)) {
            part.data[0].write(0, numbers)?;
            part.data[1].write(0, &poison)?;
            part.came.write(0, &poison)?;
        }
        Ok(())
    }

    /// Steps whose butterflies are of two devices.
    fn across(&self) -> u32 {
        self.parts.len().trailing_zeros()
    }

    /// Gives how long it took, and the share of that in which data moved, in percent.
    pub fn transform(&self) -> Result<(Duration, f64), BenchError> {
        let steps = Steps::new(self.parts.len(), self.setup.options.timeout);
        let took = steps.run(|device| {
            for step in 0..self.across() {
                self.step_across(&steps, device, step)?;
                steps.post(device, Event::Written);
            }
            let mut half = self.count / 2;
            while half > 0 {
                self.run_kernel(ALONE, device, self.result(), half, 0)?;
                half /= 2;
            }
            Ok(())
        })?;
        Ok((took, steps.exchange_percent(took)))
    }

    /// The field in which steps across devices leave what they made.
    fn result(&self) -> usize {
        self.across() as usize % 2
    }

    /// The other device of the butterflies of a step.
    fn partner(&self, device: usize, step: u32) -> usize {
        device ^ self.parts.len() >> (step + 1)
    }

    fn step_across(&self, steps: &Steps, device: usize, step: u32) -> Result<(), BenchError> {
        let (partner, from) = (self.partner(device, step), step as usize % 2);
        steps.wait(partner, Event::Written, step.into())?;
        // It reads what this step overwrites, in the step before.
        if step > 0 {
            steps.wait(self.partner(device, step - 1), Event::Written, step.into())?;
        }
        let (part, theirs) = (&self.parts[device], &self.parts[partner].data[from]);
        let other = match self.how {
            How::Remote => theirs.kernels(0),
            How::Staged | How::Copies => {
                steps.exchange(|| part.came.take(0, theirs, 0, self.count))?;
                part.came.kernels(0)
            }
        };
        let half = self.spectrum.before.len() >> (step + 1);
        self.run_kernel(ACROSS, device, from, half, other)
    }

    fn run_kernel(
        &self,
        kernel: &str,
        device: usize,
        from: usize,
        half: usize,
        partner: u64,
    ) -> Result<(), BenchError> {
        let part = &self.parts[device];
        let args = bench_hpe_fft {
            data: part.data[from].kernels(0),
            partner,
            out: part.data[1 - from].kernels(0),
            twiddles: part.twiddles.kernels(0),
            points: self.spectrum.before.len() as u64,
            first: (device * self.count) as u64,
            count: self.count as u64,
            half: half as u64,
        };
        let options = self.setup.options;
        let (blocks, threads) = shape(options.device, self.count as u64);
        let processor = self.setup.processor(device as u32);
        kernel::run(&[kernel::launch(processor, kernel, blocks, threads, &args).resident(1)], options)
    }

    /// Whether the bits are the host's.
    pub fn compare(&self) -> Result<Check, BenchError> {
        let mut check = Check::default();
        for (device, wanted) in self.spectrum.after.chunks(self.count).enumerate() {
            let seen = self.parts[device].data[self.result()].list(0..self.count)?;
            check.bytes(&format!("the part of device {device}"), bytes_of(wanted), bytes_of(&seen));
        }
        Ok(check)
    }
}

fn part(runtime: &Runtime, device: usize, count: usize, twiddles: &[Number]) -> Result<Part, BenchError> {
    let array = |len| Array::new(runtime, device, len);
    let part =
        Part { data: [array(count)?, array(count)?], came: array(count)?, twiddles: array(twiddles.len())? };
    part.twiddles.write(0, twiddles)?;
    Ok(part)
}
