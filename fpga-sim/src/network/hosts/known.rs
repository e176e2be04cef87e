//! What the processes of a job know of each other before any packet goes: they have proven to rank 0 that they have the job's secret, and rank 0
//! has told all of them which process each is, and what has to be known of its wire. So two of them need not meet: the tickets of both follow
//! from the secret, which only processes of the job have, and from the two processes' numbers, which are never used again.

use std::time::Instant;

use ggas_members::meeting::code;

use super::proof::{Papers, of_job};

/// What a code is of: other sides speak on connections.
const TICKET: u8 = 0x54;

pub(super) struct Known {
    secret: [u8; 16],
    me: u16,
    /// By number: what names each process, for ever.
    processes: Vec<u64>,
    /// Providers and addresses of wires. None: they have not come, or it is to be met.
    wires: Vec<Option<(String, Vec<u8>)>>,
    come: bool,
    /// So long somebody waits for them.
    until: Option<Instant>,
}

impl Known {
    pub fn new(secret: [u8; 16], me: u16, processes: Vec<u64>) -> Known {
        let wires = vec![None; processes.len()];
        Known { secret, me, processes, wires, come: false, until: None }
    }

    /// What this process shows all others.
    pub fn own(provider: &str, address: &[u8]) -> Vec<u8> {
        of_job::bytes(provider, address)
    }

    /// What rank 0 has of all processes. Of those of another version, or with another provider, nothing is taken: where the two meet, both say why.
    pub fn hear(&mut self, papers: &[Option<Vec<u8>>], provider: &str) {
        let wire = |papers: &Option<Vec<u8>>| {
            of_job::of(papers.as_ref()?).ok().filter(|(theirs, _)| theirs == provider)
        };
        if papers.len() == self.wires.len() && !self.come {
            self.wires = papers.iter().map(wire).collect();
            self.come = true;
        }
    }

    /// How long it may still be told how to reach processes: `until` then, or since somebody waited for that before. `None`: it was told all.
    pub fn waits(&mut self, until: Instant) -> Option<Instant> {
        (!self.come).then(|| *self.until.get_or_insert(until))
    }

    pub fn process(&self, node: u16) -> Option<u64> {
        self.processes.get(usize::from(node)).copied()
    }

    /// What packets from there have to have: what a process gives another one is for it alone.
    pub fn ticket(&self, from: u16) -> u64 {
        self.made(self.me, from)
    }

    /// What packets to there have to have, and how it is reached.
    pub fn papers(&self, node: u16) -> Option<Papers> {
        let (provider, address) = self.wires.get(usize::from(node))?.clone()?;
        Some(Papers { ticket: self.made(node, self.me), provider, address })
    }

    /// The ticket that `by` gives `of`: never 0, and it names the latter.
    fn made(&self, by: u16, of: u16) -> u64 {
        let process = |node: u16| self.process(node).unwrap_or_default().to_le_bytes();
        let numbers = [by.to_le_bytes(), of.to_le_bytes()].concat();
        let code = code(&self.secret, TICKET, &[], &[&process(by), &process(of), &numbers]);
        let random = u64::from_le_bytes(std::array::from_fn(|at| code[at]));
        random & !0xffff | 1 << 16 | u64::from(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(secret: u8, me: u16, processes: [u64; 3]) -> Known {
        let mut known = Known::new([secret; 16], me, processes.to_vec());
        let papers = |at: u8| Some(Known::own("tcp", &[at; 16]));
        known.hear(&[papers(0), papers(1), papers(2)], "tcp");
        known
    }

    #[test]
    fn what_one_gives_is_what_the_other_has() {
        let [zero, one] = [0, 1].map(|me| known(7, me, [5, 6, 7]));
        let papers = zero.papers(1).unwrap();
        assert_eq!((papers.ticket, papers.address), (one.ticket(0), vec![1; 16]));
        assert_eq!((papers.ticket as u16, one.ticket(2) as u16), (0, 2));
        // Of each pair, way, process and secret there is another one.
        let others = [
            one.ticket(2),
            zero.ticket(1),
            known(8, 1, [5, 6, 7]).ticket(0),
            known(7, 1, [9, 6, 7]).ticket(0),
            known(7, 1, [5, 9, 7]).ticket(0),
        ];
        assert!(others.iter().all(|other| other >> 17 != papers.ticket >> 17), "{others:x?}");
    }

    #[test]
    fn what_does_not_fit_is_left_to_meetings() {
        let mut known = Known::new([7; 16], 0, vec![5, 6, 7]);
        let now = Instant::now();
        assert_eq!(known.waits(now), Some(now));
        assert_eq!(known.waits(now + std::time::Duration::from_secs(1)), Some(now));
        assert!(known.papers(1).is_none());
        let mut old = Known::own("tcp", &[1; 16]);
        old[8] += 1;
        known.hear(&[None], "tcp"); // of another job
        known.hear(&[None, Some(old), Some(Known::own("verbs", &[2; 16]))], "tcp");
        assert!((0..3).all(|node| known.papers(node).is_none()));
        assert_eq!(known.waits(now), None);
        known.hear(&vec![Some(Known::own("tcp", &[3; 16])); 3], "tcp"); // what came first counts
        assert!(known.papers(1).is_none());
    }
}
