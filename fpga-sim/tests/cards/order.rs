//! The order in which software hears of its commands and of what follows from them (spec 3.1).

use std::sync::{Arc, Mutex};

use crate::common::*;
use extoll_abi::*;
use extoll_sim::fabric::{Carriage, Fabric, FabricError, First, Pending};
use extoll_sim::packet::{ANYONE, Class, Kind as PacketKind, Packet, Payload};
use extoll_sim::runs::Runs;
use extoll_sim::*;

/// A peer that reads a put's payload where it lies, and answers with a notification put: a card that looks late finds
/// both at once.
#[derive(Default)]
struct Answering {
    put: Mutex<Option<Packet>>,
}

impl Fabric for Answering {
    fn send(&self, _from: u16, packet: Packet) -> Result<(), Packet> {
        *self.put.lock().unwrap() = Some(packet);
        Ok(())
    }

    fn poll(&self, _node: u16, class: Class) -> Option<Packet> {
        if class != Class::Request {
            return None;
        }
        let mut put = self.put.lock().unwrap().take()?;
        // Read: whoever keeps the source for it may go on.
        put.payload = Payload::None;
        let answer = Packet {
            source: put.destination,
            destination: put.source,
            kind: PacketKind::Notification,
            command: Command::NotificationPut.into(),
            spec: Spec::COMPLETER,
            len: 0,
            total: 0,
            process: ANYONE,
            ..put
        };
        Some(answer)
    }

    fn carriage(&self, _to: Address, _runs: &Runs) -> Carriage {
        Carriage::Reference
    }

    fn polled(&self) -> bool {
        true
    }

    fn pending(&self, _node: u16, _first: &mut dyn First) -> Pending {
        if self.put.lock().unwrap().is_some() { Pending::Packets } else { Pending::Nothing }
    }

    fn attach(&self, _node: u16, _wake: Arc<dyn Wake>) -> Result<(), FabricError> {
        Ok(())
    }

    fn detach(&self, _node: u16) {}
}

#[test]
fn a_command_is_reported_before_what_its_target_answers() {
    const SIZE: u32 = 4096;
    let setup = Setup::over(Arc::new(Answering::default()));
    let a = setup.node(0);
    let mut p = a.open(1, 1);
    let memory = Pages::new(&a.memory, SIZE as usize, 4096);
    let src = a.register(1, &memory, Access::ALL);
    p.put(Address::new(1, 2), Spec::REQUESTER, src, 0x1000, SIZE);
    let kinds: Vec<_> = p.drain().iter().map(|notification| notification.decode().unwrap().0.kind).collect();
    assert_eq!(kinds, [Kind::Requester, Kind::Completer]);
}
