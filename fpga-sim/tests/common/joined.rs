//! Cards at nodes of networks of hosts.

use std::sync::Arc;

use extoll_abi::{Address, Modifier, Request, Spec};
use extoll_sim::hosts::{HostsFabric, HostsFile};

use super::hosts::Hosts;
use super::{Node, Port, Setup};

/// A card at a node of such a network, and its fabric.
pub fn join(hosts: &Hosts, node: u16) -> (Arc<HostsFabric>, Node) {
    let fabric = HostsFabric::join(&HostsFile::read(hosts.path()).unwrap(), node).unwrap();
    let card = Setup::over(fabric.clone()).node(node);
    (fabric, card)
}

/// A packet that a port is notified of.
pub fn tell(port: &Port<'_>, to: Address, payload: u64) {
    let request = Request::NotificationPut { class: 1, payload };
    port.post(to, Spec::COMPLETER, Modifier::NONE, &request);
}
