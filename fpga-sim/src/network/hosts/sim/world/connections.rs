//! Connections of lobbies: calls, what is said, and ends.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::super::net::{Item, Tcp};
use super::{Event, SILENCE, World};
use crate::network::hosts::events::{Connection, Out};

/// When TCP calls again behind a call that nobody answers, while a meeting may last.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

impl World {
    pub(super) fn put_on(&mut self, tcp: usize, end: usize, item: Item) {
        self.tcps[tcp].on_way[end].push_back(item);
        let at = self.delay();
        self.plan(at, Event::Item { tcp, end });
    }

    /// Where nobody answers the system calls again, as TCP does, until the call has lasted for as long as a meeting may.
    pub(super) fn syn(&mut self, from: usize, on: Connection, node: u16, since: Duration) {
        if !self.processes[from].alive {
            return;
        }
        let (now, here) = (self.now(), self.processes[from].node);
        let host_is_down = self.crashed.keys().any(|who| self.processes[*who].node == node);
        if self.cuts.heals(here, node, now).is_some() || host_is_down && self.at[usize::from(node)].is_none()
        {
            return match AGAIN.into_iter().map(|after| since + after).find(|at| *at > now) {
                Some(at) => self.plan(at, Event::Syn { from, on, node, since }),
                None => self.plan(since + SILENCE, Event::Connected { to: from, on, through: None }),
            };
        }
        let through = self.at[usize::from(node)].map(|to| {
            let tcp = Tcp { ends: [from, to], names: [None; 2], on_way: Default::default() };
            self.tcps.push(tcp);
            self.put_on(self.tcps.len() - 1, 1, Item::Accept);
            self.tcps.len() - 1
        });
        let at = self.delay();
        self.plan(at, Event::Connected { to: from, on, through });
    }

    pub(super) fn item(&mut self, tcp: usize, end: usize, to: usize) {
        let Some(item) = self.tcps[tcp].on_way[end].pop_front() else { return };
        if self.told {
            eprintln!("  {item:?}");
        }
        if !self.processes[to].alive {
            if !matches!(item, Item::Fin) && !self.crashed.contains_key(&to) {
                self.put_on(tcp, 1 - end, Item::Fin); // its system answers for it
            }
            return;
        }
        if let Item::Accept = item {
            let on = self.processes[to].core().accepted(IpAddr::V4(Ipv4Addr::LOCALHOST));
            self.tcps[tcp].names[1] = Some(on);
            self.processes[to].open.insert(on, (tcp, 1));
            return self.step(to);
        }
        let Some(on) = self.tcps[tcp].names[end] else {
            // It does not know yet that its call is through.
            self.tcps[tcp].on_way[end].push_front(item);
            let at = self.delay();
            return self.plan(at, Event::Item { tcp, end });
        };
        if !self.processes[to].open.contains_key(&on) {
            return; // closed
        }
        match item {
            Item::Frame(body) => {
                self.processes[to].core().heard(on, &body).expect("who speaks keeps to the rules")
            }
            _ => {
                self.processes[to].open.remove(&on);
                self.processes[to].core().broke(on);
            }
        }
        self.step(to);
    }

    pub fn obey(&mut self, who: usize, out: Out) {
        match out {
            Out::Call(node, on) => {
                let at = self.delay();
                self.plan(at, Event::Syn { from: who, on, node, since: at });
            }
            Out::Say(on, body) => {
                if let Some((tcp, end)) = self.processes[who].open.get(&on).copied() {
                    self.put_on(tcp, 1 - end, Item::Frame(body));
                }
            }
            Out::Close(on) => {
                if let Some((tcp, end)) = self.processes[who].open.remove(&on) {
                    self.put_on(tcp, 1 - end, Item::Fin);
                }
            }
            Out::Look => self.step_at(who, self.now()),
            Out::Unanswered(_) => {}
            Out::Unheard(node) => self.unheard.push((self.processes[who].node, node)),
        }
    }
}
