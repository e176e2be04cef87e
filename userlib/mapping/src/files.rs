//! A mapping as launchers take it.

use std::fmt::Write as _;

use crate::{Assignment, Cluster, MapError, Mapping, Topology, counted};

/// Devices in the order of their ranks, for `CUDA_VISIBLE_DEVICES`: a program whose rank i takes the i-th GPU that it sees has
/// the mapping with it, and each process still sees all GPUs. `ggas run --gpus` takes it. GPUs that are not used come last.
pub fn visible_devices(topology: &Topology, mapping: &Mapping) -> String {
    listed(topology, mapping.places())
}

fn listed(topology: &Topology, places: &[usize]) -> String {
    let rest = (0..topology.places()).filter(|place| !places.contains(place));
    let devices = places.iter().copied().chain(rest).map(|place| topology.device(place));
    devices.collect::<Vec<_>>().join(",")
}

/// Checks names of the nodes: one for each, and each a word.
///
/// # Errors
/// [`MapError::Topology`]: there are not as many hosts as nodes, or a name is none, or there twice.
pub fn check(cluster: &Cluster, hosts: &[String]) -> Result<(), MapError> {
    let nodes = cluster.network.places();
    let message = if hosts.len() != nodes {
        let (has, net) = (counted(hosts.len(), "host"), cluster.network.name());
        format!("{has}, but {net} has {}: name one for each", counted(nodes, "node"))
    } else if let Some(host) = hosts.iter().find(|host| !is_host(host)) {
        format!("{host:?} is no name of a host")
    } else if let Some((_, host)) = hosts.iter().enumerate().find(|(at, host)| hosts[..*at].contains(host)) {
        format!("{host} is there twice: its ranks would share cores and GPUs")
    } else {
        return Ok(());
    };
    Err(MapError::Topology { origin: "hosts".to_owned(), message })
}

fn is_host(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c))
}

/// A rankfile of Open MPI, for `mpirun --rankfile`: host and core of each rank. Cores are logical numbers.
///
/// # Errors
/// [`MapError::Topology`]: there are not as many hosts as nodes, or a name is none, or there twice.
pub fn rankfile(cluster: &Cluster, assignment: &Assignment, hosts: &[String]) -> Result<String, MapError> {
    check(cluster, hosts)?;
    let ranks = assignment.node.iter().zip(&assignment.core).enumerate();
    let line = |(rank, (node, core)): (usize, (&usize, &usize))| {
        format!("rank {rank}={} slot={}\n", hosts[*node], cluster.cores.device(*core))
    };
    Ok(ranks.map(line).collect())
}

/// A host for each rank, for `SLURM_HOSTFILE` with `srun --distribution=arbitrary`.
///
/// # Errors
/// As [`rankfile`].
pub fn hostfile(cluster: &Cluster, assignment: &Assignment, hosts: &[String]) -> Result<String, MapError> {
    check(cluster, hosts)?;
    Ok(assignment.node.iter().map(|node| hosts[*node].clone() + "\n").collect())
}

/// A script for `/bin/sh` that stands before the program in the commands of `mpirun` and `srun`: it gives the process the GPUs of its
/// node in the order of the ranks there, so that the i-th rank of a node, which takes the i-th GPU, has the one of the mapping.
pub fn script(cluster: &Cluster, assignment: &Assignment) -> String {
    let mut text = "#!/bin/sh\n# Written by `ggas map`: mpirun ... sh FILE ./program\n".to_owned();
    text += "case ${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${SLURM_PROCID:-${PMI_RANK:-none}}}} in\n";
    for node in 0..cluster.network.places() {
        let ranks: Vec<usize> =
            (0..assignment.node.len()).filter(|rank| assignment.node[*rank] == node).collect();
        if ranks.is_empty() {
            continue;
        }
        let places: Vec<usize> = ranks.iter().map(|rank| assignment.gpu[*rank]).collect();
        let names: Vec<_> = ranks.iter().map(usize::to_string).collect();
        let _ =
            writeln!(text, "{}) CUDA_VISIBLE_DEVICES={} ;;", names.join("|"), listed(&cluster.gpus, &places));
    }
    text += "*) echo 'no rank of this mapping: start this by mpirun or srun' >&2; exit 2 ;;\nesac\n";
    text += "CUDA_DEVICE_ORDER=PCI_BUS_ID\nexport CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER\nexec \"$@\"\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, Pattern, Search};

    fn two_nodes() -> (Cluster, Assignment) {
        let flat = |name: &str, places: usize| {
            let text = format!("name = '{name}'\ngroups = [{places}]\n[[channel]]\nname = 'x'\n");
            Topology::parse(&text, name).expect("it makes sense")
        };
        let gpus = Topology::named("pascal").expect("built in");
        let cluster = Cluster { network: flat("net", 2), cores: flat("cores", 4), gpus };
        let pattern = Pattern::parse("0 0 1 0\n0 0 0 1\n0 0 0 0\n0 0 0 0", "p").expect("4 ranks");
        let assignment =
            cluster.map(&pattern, &pattern, Metric::Bandwidth, Search::default()).expect("it fits");
        (cluster, assignment)
    }

    #[test]
    fn launchers_get_what_they_take() {
        let (cluster, assignment) = two_nodes();
        let hosts = ["n1".to_owned(), "n2".to_owned()];
        assert_eq!(assignment.node[0], assignment.node[2]);
        let node = |rank: usize| hosts[assignment.node[rank]].clone();
        let rankfile = rankfile(&cluster, &assignment, &hosts).expect("two hosts");
        assert_eq!(
            rankfile.lines().nth(2),
            Some(&*format!("rank 2={} slot={}", node(2), assignment.core[2]))
        );
        let hostfile = hostfile(&cluster, &assignment, &hosts).expect("two hosts");
        assert_eq!(hostfile.lines().collect::<Vec<_>>(), (0..4).map(node).collect::<Vec<_>>());
        for hosts in
            [&hosts[..1], &["n1".to_owned(), "a b".to_owned()][..], &["n1".to_owned(), "n1".to_owned()]]
        {
            assert!(super::rankfile(&cluster, &assignment, hosts).is_err());
        }
    }

    #[test]
    fn the_script_gives_each_rank_the_gpus_of_its_node() {
        let (cluster, mut assignment) = two_nodes();
        assignment = Assignment { node: vec![0, 1, 0, 1], gpu: vec![2, 1, 3, 0], ..assignment };
        let text = script(&cluster, &assignment);
        assert!(
            text.contains("\n0|2) CUDA_VISIBLE_DEVICES=2,3,0,1 ;;\n1|3) CUDA_VISIBLE_DEVICES=1,0,2,3 ;;\n"),
            "{text}"
        );
        let run = |name: &str, rank: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &text, "x", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"]);
            for other in ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID", "PMI_RANK"] {
                command.env_remove(other);
            }
            let output = command.env(name, rank).output().expect("sh runs");
            (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
        };
        assert_eq!(run("SLURM_PROCID", "3"), (Some(0), "1,0,2,3 PCI_BUS_ID\n".to_owned()));
        assert_eq!(run("OMPI_COMM_WORLD_RANK", "0"), (Some(0), "2,3,0,1 PCI_BUS_ID\n".to_owned()));
        assert_eq!(run("OTHER", "0"), (Some(2), String::new()));
        assert_eq!(run("PMIX_RANK", "4"), (Some(2), String::new()));
    }

    #[test]
    fn all_gpus_stay_visible() {
        let pascal = Topology::named("pascal").expect("built in");
        assert_eq!(visible_devices(&pascal, &Mapping::of(vec![3, 0])), "3,0,1,2");
    }
}
