//! Several nodes: first the node of each rank, then its core, then its GPU (thesis 6.3.2).

use crate::mapping::solve;
use crate::problem::Problem;
use crate::{MapError, Mapping, Metric, Pattern, Search, Topology, map};

/// Nodes that are alike, and their network.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes as places, and what joins them.
    pub network: Topology,
    /// The cores of a node.
    pub cores: Topology,
    /// Its GPUs.
    pub gpus: Topology,
}

/// Where each rank runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its node.
    pub node: Vec<usize>,
    /// Its core there.
    pub core: Vec<usize>,
    /// Its GPU there.
    pub gpu: Vec<usize>,
}

impl Cluster {
    /// Ranks that a node has room for: one for each GPU, on a core of its own.
    pub fn room(&self) -> usize {
        self.cores.places().min(self.gpus.places())
    }

    fn must_fit(&self, cpu: &Pattern, gpu: &Pattern) -> Result<(), MapError> {
        let (ranks, places) = (gpu.ranks(), self.network.places() * self.room());
        if cpu.ranks() != ranks {
            return Err(MapError::Unlike { one: cpu.ranks(), other: ranks });
        }
        if ranks > places {
            return Err(MapError::Crowded { ranks, places, topology: self.network.name().to_owned() });
        }
        Ok(())
    }

    /// Ranks in their order: as many on each node, core and GPU i there.
    ///
    /// # Errors
    /// [`MapError::Crowded`], [`MapError::Unlike`]
    pub fn default_of(&self, cpu: &Pattern, gpu: &Pattern) -> Result<Assignment, MapError> {
        self.must_fit(cpu, gpu)?;
        let on_each = self.on_each(gpu.ranks());
        let there: Vec<usize> = (0..gpu.ranks()).map(|rank| rank % on_each).collect();
        Ok(Assignment {
            node: (0..gpu.ranks()).map(|rank| rank / on_each).collect(),
            core: there.clone(),
            gpu: there,
        })
    }

    /// Ranks on a node when all nodes have the same load.
    fn on_each(&self, ranks: usize) -> usize {
        ranks.div_ceil(self.network.places())
    }

    /// The three phases: nodes by the sum of both patterns and the levels of the network, cores by what the CPUs send, GPUs by what the
    /// GPUs send and `metric` (the thesis: the bandwidth). The load of nodes is even.
    ///
    /// # Errors
    /// [`MapError::Crowded`], [`MapError::Unlike`], [`MapError::Unmeasured`]
    pub fn map(
        &self,
        cpu: &Pattern,
        gpu: &Pattern,
        metric: Metric,
        search: Search,
    ) -> Result<Assignment, MapError> {
        self.must_fit(cpu, gpu)?;
        let ranks = gpu.ranks();
        let node = self.nodes_of(&cpu.plus(gpu)?, search)?;
        let mut assignment = Assignment { node, core: vec![0; ranks], gpu: vec![0; ranks] };
        for here in 0..self.network.places() {
            let members: Vec<usize> = (0..ranks).filter(|rank| assignment.node[*rank] == here).collect();
            if members.is_empty() {
                continue;
            }
            let cores = map(&self.cores, &cpu.among(&members), Metric::Distance, search)?;
            let gpus = map(&self.gpus, &gpu.among(&members), metric, search)?;
            for (at, rank) in members.into_iter().enumerate() {
                (assignment.core[rank], assignment.gpu[rank]) = (cores.place(at), gpus.place(at));
            }
        }
        Ok(assignment)
    }

    /// Each node is as many places as it gets ranks: those cost nothing among each other.
    fn nodes_of(&self, both: &Pattern, search: Search) -> Result<Vec<usize>, MapError> {
        let on_each = self.on_each(both.ranks());
        let places = self.network.places() * on_each;
        let level = |one: usize, other: usize| match (one / on_each, other / on_each) {
            (one, other) if one == other => 0,
            // A topology has at most 255 levels where another one is added.
            (one, other) => (self.network.level(one, other) + 1).min(255) as u8,
        };
        let rows: Vec<Vec<u8>> =
            (0..places).map(|one| (0..places).map(|other| level(one, other)).collect()).collect();
        let mut channels = self.network.channels().to_vec();
        channels.truncate(254);
        channels.insert(0, crate::Channel { name: "node".to_owned(), latency_us: None, gbytes_per_s: None });
        let name = self.network.name().to_owned();
        let slots = Topology::new(name, (0..places).map(|slot| slot.to_string()).collect(), channels, &rows)?;
        // Hops of the network, as the thesis takes them from its subnet.
        let problem = Problem::with_costs(&slots, both, |level| level as f64)?;
        let mapping: Mapping = solve(&problem, both.ranks(), search)?;
        Ok(mapping.places().iter().map(|slot| slot / on_each).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(name: &str, places: usize) -> Topology {
        let text = format!("name = '{name}'\ngroups = [{places}]\n[[channel]]\nname = 'x'\n");
        Topology::parse(&text, name).expect("it makes sense")
    }

    fn cluster() -> Cluster {
        let cores =
            "name = 'cores'\ngroups = [12, 2]\n[[channel]]\nname = 'socket'\n[[channel]]\nname = 'QPI'\n";
        Cluster {
            network: flat("star", 4),
            cores: Topology::parse(cores, "cores").expect("24 cores"),
            gpus: Topology::named("helios").expect("built in"),
        }
    }

    /// By default each group has a rank on each node; then all of it is on one node, and near.
    #[test]
    fn groups_that_talk_are_brought_together() {
        let pattern = Pattern::all_to_all(&[4, 4, 4], 1000).expect("64 ranks");
        let quiet = Pattern::new(64).expect("64 ranks");
        let cluster = cluster();
        let default = cluster.default_of(&quiet, &pattern).expect("it fits");
        assert_eq!((default.node[16], default.core[17], default.gpu[63]), (1, 1, 15));
        let ours = cluster.map(&quiet, &pattern, Metric::Bandwidth, Search::default()).expect("it fits");
        for group in 0..16 {
            let members = [0, 1, 2, 3].map(|x| x * 16 + group);
            let nodes = members.map(|rank| ours.node[rank]);
            assert!(nodes.iter().all(|node| *node == nodes[0]), "group {group}: {nodes:?}");
            let quads = members.map(|rank| ours.gpu[rank] / 4);
            assert!(quads.iter().all(|quad| *quad == quads[0]), "group {group}: {quads:?}");
        }
        for node in 0..4 {
            let here = |of: &[usize]| {
                let mut places: Vec<_> =
                    (0..64).filter(|rank| ours.node[*rank] == node).map(|rank| of[rank]).collect();
                places.sort_unstable();
                places.dedup();
                places.len()
            };
            assert_eq!((here(&ours.core), here(&ours.gpu)), (16, 16), "node {node}");
        }
    }

    /// The CPUs' pattern chooses the core, the GPUs' pattern the GPU, and both together the node.
    #[test]
    fn each_phase_has_its_pattern() {
        let pairs = |ranks: usize, stride: usize| {
            let mut pattern = Pattern::new(ranks).expect("a few");
            for rank in (0..ranks).filter(|rank| (rank / stride).is_multiple_of(2)) {
                pattern.add(rank, rank + stride, 1000);
            }
            pattern
        };
        let (cpu, gpu) = (pairs(16, 8), pairs(16, 4));
        let one_node = Cluster { network: flat("one", 1), ..cluster() };
        let ours = one_node.map(&cpu, &gpu, Metric::Bandwidth, Search::default()).expect("it fits");
        for rank in 0..8 {
            assert_eq!(ours.core[rank] / 12, ours.core[rank + 8] / 12, "{ours:?}");
        }
        for rank in (0..16_usize).filter(|rank| (rank / 4).is_multiple_of(2)) {
            assert_eq!(ours.gpu[rank] / 2, ours.gpu[rank + 4] / 2, "{ours:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (many, few) = (Pattern::new(65).expect("65"), Pattern::new(64).expect("64"));
        let crowded = cluster().map(&many, &many, Metric::Bandwidth, Search::default()).expect_err("crowded");
        assert!(crowded.to_string().contains("65 ranks do not fit 64 places of star"), "{crowded}");
        assert!(matches!(cluster().default_of(&few, &many), Err(MapError::Unlike { one: 64, other: 65 })));
    }
}
