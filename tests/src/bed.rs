//! A cluster and the two ports between which a scenario plays.

use std::sync::Arc;

use extoll_abi::Descriptor;
use extoll_sim::Nic;
use ggas::{
    Address, Cluster, Command, Connection, FabricKind, HostBuffer, Kind, Modifier, Node, Notification, Port,
    PortConfig, Region, Request, Spec,
};

use crate::{Setting, Shape, until};

/// Class of the notification put that ends what [`Pair::settle`] collects.
pub const FENCE_CLASS: u8 = 0xfe;
/// Size of the get that ends it; scenarios get any other number of bytes.
pub const FENCE_BYTES: u32 = 13;

/// A cluster in one setting.
pub struct Bed {
    /// The setting.
    pub setting: Setting,
    /// The nodes.
    pub cluster: Cluster,
}

impl Bed {
    /// Starts the cluster that `setting` describes.
    pub fn new(setting: &Setting) -> Bed {
        let builder = Cluster::builder().progress(setting.progress).faults(setting.trouble.faults());
        let builder = match setting.shape {
            Shape::OnePort | Shape::OneNode => builder.nodes(1),
            Shape::TwoNodes => builder.nodes(2),
            // Between processes every node is next to every other.
            Shape::Torus if setting.fabric == FabricKind::Process => builder.nodes(12),
            Shape::Torus => builder.nodes(12).torus(3, 2, 2),
        };
        let builder = builder.fabric(setting.fabric);
        Bed { setting: *setting, cluster: builder.build().unwrap() }
    }

    /// Node `index`.
    pub fn node(&self, index: usize) -> &Node {
        self.cluster.node(index).unwrap()
    }

    /// The node of origins.
    pub fn origin(&self) -> &Node {
        self.node(0)
    }

    /// The node of targets.
    pub fn target(&self) -> &Node {
        self.node(match self.setting.shape {
            Shape::OnePort | Shape::OneNode => 0,
            Shape::TwoNodes => 1,
            Shape::Torus => 10, // at (1, 1, 1)
        })
    }

    /// The modelled card of a node.
    pub fn nic(&self, node: &Node) -> Arc<Nic> {
        self.cluster.network().sim_device(node.id().into()).unwrap().nic().clone()
    }

    /// Opens an origin and a target as the setting says.
    pub fn pair(&self) -> Pair {
        self.pair_with(self.setting.port())
    }

    /// As [`pair`](Self::pair), with ports of another configuration.
    pub fn pair_with(&self, config: PortConfig) -> Pair {
        let origin = self.origin().open_port(config).unwrap();
        let other = (self.setting.shape != Shape::OnePort).then(|| self.target().open_port(config).unwrap());
        Pair::new(origin, other)
    }
}

/// Two ports, or one that is both, and the connection from origin to target.
pub struct Pair {
    /// Posts.
    pub origin: Port,
    /// From origin to target.
    pub to: Connection,
    other: Option<Port>,
    local: Region,
    remote: Region,
}

/// Notifications of both sides, in the order in which each side saw them.
#[derive(Debug, Default)]
pub struct Seen {
    /// What the origin gets: of the requester, and of the completer for what it asked for.
    pub origin: Vec<Notification>,
    /// What the target gets.
    pub target: Vec<Notification>,
}

impl Pair {
    /// Connects two ports, or `origin` with itself.
    pub fn new(origin: Port, other: Option<Port>) -> Pair {
        let target = other.as_ref().unwrap_or(&origin);
        let local = origin.register(HostBuffer::zeroed(64).unwrap()).unwrap();
        let remote = target.register(HostBuffer::zeroed(64).unwrap()).unwrap();
        let to = origin.connect(target.address());
        Pair { to, other, local, remote, origin }
    }

    /// The port that commands go to.
    pub fn target(&self) -> &Port {
        self.other.as_ref().unwrap_or(&self.origin)
    }

    /// Whether origin and target are one port.
    pub fn is_one(&self) -> bool {
        self.other.is_none()
    }

    /// Ends both ports.
    pub fn into_ports(self) -> (Port, Option<Port>) {
        (self.origin, self.other)
    }

    /// Posts a request from origin to target with plain modifiers.
    pub fn post(&self, request: &Request, spec: Spec) {
        self.to.post(request, spec, Modifier::NONE).unwrap();
    }

    /// The two commands behind which everything posted before is done: a notification put, which no earlier
    /// notification of the target's completer passes, and a get, which none of the responder and none for the
    /// origin passes (spec 2.3, 3.1).
    pub fn fence(&self) -> [Descriptor; 2] {
        let put = Request::NotificationPut { class: FENCE_CLASS, payload: 0 };
        let (read, write) = (self.remote.nla(0).unwrap(), self.local.nla(0).unwrap());
        let get = Request::Get { qw: false, read, write, size: FENCE_BYTES };
        [put, get].map(|r| Descriptor::encode(self.to.remote(), Spec::ALL, Modifier::NONE, &r).unwrap())
    }

    /// Every notification of what was posted before, and none more: posts a fence and takes all up to it.
    pub fn settle(&self) -> Seen {
        self.post_fence();
        self.settle_fenced()
    }

    /// As [`settle`](Self::settle), after the caller has posted the fence.
    pub fn settle_fenced(&self) -> Seen {
        let mut seen = Seen::default();
        self.take_to_fence(|at, notification| self.sort(at, notification, &mut seen));
        seen
    }

    /// As [`settle`](Self::settle), of both sides together: for commands whose sides the specification leaves open.
    pub fn settle_any(&self) -> Vec<Notification> {
        let mut all = Vec::new();
        self.post_fence();
        self.take_to_fence(|_, notification| all.push(notification));
        all
    }

    fn post_fence(&self) {
        for descriptor in self.fence() {
            self.origin.post_raw(self.to.option(), descriptor.word).unwrap();
        }
    }

    /// Hands on every notification, with the port that it came to, until all of the fence were seen.
    fn take_to_fence(&self, mut each: impl FnMut(Address, Notification)) {
        let mut fences = 0;
        until(
            || "the notifications of a fence: a command before it did not end".to_owned(),
            || {
                for port in [Some(&self.origin), self.other.as_ref()].into_iter().flatten() {
                    while let Some(notification) = port.poll() {
                        match is_fence(&notification) {
                            true => fences += 1,
                            false => each(port.address(), notification),
                        }
                    }
                }
                // Requester and completer of the put; requester, responder and completer of the get.
                (fences == 5).then_some(())
            },
        );
    }

    fn sort(&self, at: Address, notification: Notification, seen: &mut Seen) {
        let response = notification.command().command().is_some_and(Command::is_response);
        let is_origins = match notification.kind() {
            Some(Kind::Requester) => true,
            Some(Kind::Completer) => response,
            Some(Kind::Responder) => false,
            None => panic!("a notification without a kind: {notification:x?}"),
        };
        // Each side gets its own (spec 3.1).
        if !self.is_one() {
            let side = if is_origins { self.origin.address() } else { self.target().address() };
            assert_eq!(at, side, "{notification:x?} came to the wrong port");
        }
        if is_origins { &mut seen.origin } else { &mut seen.target }.push(notification);
    }
}

fn is_fence(notification: &Notification) -> bool {
    match notification.command().command() {
        Some(Command::NotificationPut) => notification.class() == FENCE_CLASS,
        Some(Command::BtGet | Command::GetBtRsp) => {
            notification.size() == FENCE_BYTES && notification.error().is_empty()
        }
        _ => false,
    }
}
