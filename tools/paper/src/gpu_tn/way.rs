use extoll_sim::timed::{Flag, Node, Ps, Put, Timed};

/// Who computes, and who starts messages (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The host does both.
    Cpu,
    /// Kernels compute; the host sends and receives between them.
    Hdn,
    /// Puts posted ahead, rung by the GPU's front end between kernels.
    Gds,
    /// Puts registered ahead, triggered from within a kernel.
    Tn,
}

impl Way {
    /// All of them, in the order of the paper's legends.
    pub(super) const ALL: [Way; 4] = [Way::Cpu, Way::Hdn, Way::Gds, Way::Tn];
    /// Those with kernels.
    pub(super) const GPU: [Way; 3] = [Way::Hdn, Way::Gds, Way::Tn];

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Cpu => "CPU",
            Way::Hdn => "HDN",
            Way::Gds => "GDS",
            Way::Tn => "GPU-TN",
        }
    }
}

/// The host computes with some of its cores: `elements`, and `bytes` of memory (section 5.3: OpenMP).
pub(super) fn compute_on(cores: u64, node: Node<'_>, elements: u64, bytes: u64) {
    node.compute(elements.div_ceil(cores), bytes.div_ceil(cores));
}

/// The host sends two-sided: its library's work, then what every put costs.
pub(super) fn send(t: &Timed, node: Node<'_>, put: Put) {
    node.work(Ps::ns(t.system().host.send_ns));
    node.put(put);
}

/// The host receives the `count`th message since `arrived` was 0.
pub(super) fn receive(t: &Timed, node: Node<'_>, arrived: &Flag, count: u64) {
    node.wait(arrived, count);
    node.work(Ps::ns(t.system().host.receive_ns));
}

/// Percent that `ours` is below `theirs`.
pub(super) fn below(ours: f64, theirs: f64) -> f64 {
    100.0 * (1.0 - ours / theirs)
}

/// Percent by which `ours` is quicker than `theirs`, as speed-up.
pub(super) fn faster(ours: f64, theirs: f64) -> f64 {
    100.0 * (theirs / ours - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_of_the_right_side() {
        assert_eq!((below(75.0, 100.0), faster(100.0, 120.0).round()), (25.0, 20.0));
    }
}
