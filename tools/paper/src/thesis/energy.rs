//! Powers of a node's parts, as the thesis tells them (sections 5.8.3, 5.8.5): energy is their sum over the time.

use crate::report::Parameter;

/// A node's parts while a benchmark runs, in watts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Power {
    gpu: f64,
    cpu: f64,
    memory: f64,
}

/// Under load. The thesis names no measured power of the GPU, and that it is the same for hybrid, stream and device.
const GPU: f64 = 250.0;
/// The host controls the communication, or the GPU does and the host sleeps: the middle of 24 to 29 W.
const CPU: [f64; 2] = [50.0, 26.5];
const MEMORY: [f64; 2] = [3.9, 2.2];

impl Power {
    /// What a reader of these figures should know.
    pub(super) const NOTE: &str = "energy is the sum of constant powers over the model's time, both from the text; the \
        network's cards are not counted, as in the thesis";

    /// Of a node whose host controls the communication, or whose host sleeps.
    pub(super) fn of(host_controls: bool) -> Power {
        let at = usize::from(!host_controls);
        Power { gpu: GPU, cpu: CPU[at], memory: MEMORY[at] }
    }

    pub(super) fn watts(self) -> f64 {
        self.gpu + self.cpu + self.memory
    }

    /// With their sources.
    pub(super) fn parameters() -> Vec<Parameter> {
        let parameter = |name: &str, watts: f64, source: &str| Parameter {
            name: format!("power.{name}_w"),
            value: watts.to_string(),
            source: source.to_owned(),
        };
        vec![
            parameter("gpu", GPU, "thesis 1.1: TDP of a K20, 250 W; measured ones are drawn, not told"),
            parameter("cpu", CPU[0], "thesis 5.8.5: about 50 W where the host controls"),
            parameter("cpu_asleep", CPU[1], "thesis 5.8.5: 24 to 29 W where the GPU controls"),
            parameter("memory", MEMORY[0], "thesis 5.8.5: about 3.9 W where the host controls"),
            parameter("memory_asleep", MEMORY[1], "thesis 5.8.5: about 2.2 W where the GPU controls"),
        ]
    }
}
