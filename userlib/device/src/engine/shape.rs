//! How many warps an engine has, and by which kernel it runs.

use ggas_kernels::args::{ENGINE_FEW_WARPS, ENGINE_HELPERS, ENGINE_REQUESTERS, ENGINE_WARPS};

use super::network::EngineConfig;

/// The kernel of an engine and its warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// One of two with the same code, for blocks of few warps and of many: fewer warps have more registers each.
    pub kernel: &'static str,
    pub nodes: u32,
    /// Those that serve ports.
    pub requesters: u32,
    /// Those that help the others with large packets, for each direction.
    pub helpers: u32,
}

impl Shape {
    /// The shape of the engines of so many nodes, on the executor or on GPUs.
    pub fn of(config: &EngineConfig, nodes: usize, cpu: bool) -> Shape {
        let nodes = nodes as u32;
        let requesters = config.requesters.unwrap_or_else(|| requesters(nodes, cpu));
        let serving = requesters + rings(nodes);
        let room = |all: u32| all.saturating_sub(serving) / 2;
        let usual = || {
            // Warps of the executor share cores: one does all that helpers do.
            let most = if cpu { 1 } else { ENGINE_HELPERS };
            most.min(room(if serving <= ENGINE_FEW_WARPS { ENGINE_FEW_WARPS } else { ENGINE_WARPS }))
        };
        let helpers = config.helpers.map_or_else(usual, |wanted| wanted.min(room(ENGINE_WARPS)));
        let few = serving + 2 * helpers <= ENGINE_FEW_WARPS;
        Shape { kernel: if few { "ggas_engine" } else { "ggas_engine_wide" }, nodes, requesters, helpers }
    }

    /// Warps that have ports or rings to serve.
    pub fn serving(&self) -> u32 {
        self.requesters + rings(self.nodes)
    }

    /// All warps.
    pub fn warps(&self) -> u32 {
        self.serving() + 2 * self.helpers
    }
}

/// Warps that have rings to serve: of each node one for requests and one for responses.
fn rings(nodes: u32) -> u32 {
    2 * nodes
}

/// As many requesters as suit most. On a GPU two, up to four nodes: four post 5 to 9 % fewer puts of four ports, and with four
/// nodes leave the small kernel no room for helpers (H200; without any a put of 4 KiB takes 1.1 µs longer, and in a kernel
/// for 16 warps a short one 0.7). With more nodes it was not measured.
fn requesters(nodes: u32, cpu: bool) -> u32 {
    match (cpu, nodes) {
        // The executor runs a warp's lanes one after the other: more warps only take longer.
        (true, _) => 1,
        (false, ..=4) => ENGINE_REQUESTERS / 2,
        _ => ENGINE_REQUESTERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: &str = "ggas_engine";
    const WIDE: &str = "ggas_engine_wide";

    /// Kernel, requesters and helpers.
    fn shape(config: &EngineConfig, nodes: usize, cpu: bool) -> (&'static str, u32, u32) {
        let shape = Shape::of(config, nodes, cpu);
        assert!(shape.warps() <= if shape.kernel == FEW { ENGINE_FEW_WARPS } else { ENGINE_WARPS });
        (shape.kernel, shape.requesters, shape.helpers)
    }

    fn forced(requesters: u32, helpers: Option<u32>) -> EngineConfig {
        EngineConfig { requesters: Some(requesters), helpers, ..EngineConfig::default() }
    }

    #[test]
    fn engines_of_few_nodes_have_two_requesters_and_help() {
        let expected = [
            (2, (FEW, 2, 2)),
            (3, (FEW, 2, 2)),
            (4, (FEW, 2, 1)),
            (5, (WIDE, 4, 2)),
            (6, (WIDE, 4, 2)),
            (7, (WIDE, 4, 1)),
            (8, (WIDE, 4, 0)),
        ];
        for (nodes, expected) in expected {
            assert_eq!(shape(&EngineConfig::default(), nodes, false), expected, "{nodes} nodes");
        }
    }

    #[test]
    fn the_executor_has_one_requester_and_one_helper_at_most() {
        let shapes = [2, 4, 5, 8].map(|nodes| shape(&EngineConfig::default(), nodes, true));
        assert_eq!(shapes, [(FEW, 1, 1), (FEW, 1, 1), (FEW, 1, 0), (WIDE, 1, 1)]);
    }

    #[test]
    fn the_number_of_requesters_can_be_set() {
        assert_eq!(shape(&forced(4, None), 4, false), (FEW, 4, 0));
        assert_eq!(shape(&forced(3, None), 4, false), (FEW, 3, 0));
        assert_eq!(shape(&forced(2, None), 2, false), (FEW, 2, 2));
        assert_eq!(shape(&forced(4, None), 2, true), (FEW, 4, 1));
    }

    #[test]
    fn helpers_can_be_forced_as_far_as_there_is_room() {
        assert_eq!(shape(&forced(2, Some(0)), 4, false), (FEW, 2, 0));
        assert_eq!(shape(&forced(2, Some(2)), 4, false), (WIDE, 2, 2));
        assert_eq!(shape(&forced(4, Some(9)), 4, false), (WIDE, 4, 4));
        assert_eq!(shape(&forced(4, Some(2)), 8, false), (WIDE, 4, 0));
    }
}
