//! What hosts do for MPI: messages between GPU memories, which the card reads and writes itself (GDR).

use extoll_sim::timed::{Flag, Node, Place, Ps, Put, System, Timed};

/// Bytes of the sum for convergence: a double.
const SUM: u64 = 8;

/// Words of two nodes that messages count up.
#[derive(Clone)]
pub(super) struct Messages {
    software: [Ps; 2],
    begin: Ps,
    arrived: [Flag; 2],
    sums: [Flag; 2],
}

impl Messages {
    pub fn new(timed: &Timed, system: &System) -> Messages {
        let flags = || [timed.flag(), timed.flag()];
        let host = &system.host;
        let software = [host.send_ns, host.receive_ns].map(Ps::ns);
        Messages { software, begin: Ps::ns(host.post_ns), arrived: flags(), sums: flags() }
    }

    pub fn isend(&self, node: Node<'_>, bytes: u64) {
        self.send(node, bytes, &self.arrived);
    }

    /// Begins to receive.
    pub fn irecv(&self, node: Node<'_>) {
        node.work(self.begin);
    }

    /// Waits for the `count`th message, from 1.
    pub fn wait(&self, node: Node<'_>, count: u64) {
        self.receive(node, count, &self.arrived);
    }

    /// The `count`th sum of both nodes: each sends its own to the other.
    pub fn allreduce(&self, node: Node<'_>, count: u64) {
        self.send(node, SUM, &self.sums);
        self.receive(node, count, &self.sums);
    }

    fn send(&self, node: Node<'_>, bytes: u64, arrived: &[Flag; 2]) {
        let to = 1 - node.index();
        node.work(self.software[0]);
        let put = Put::new(to, bytes).from(Place::Gpu).into(Place::Gpu);
        node.put(put.notified().arrived(&arrived[to]));
    }

    fn receive(&self, node: Node<'_>, count: u64, arrived: &[Flag; 2]) {
        node.wait(&arrived[node.index()], count);
        node.work(self.software[1]);
    }
}
