//! Who is met, and who is gone: the protocol of the lobby's connections, without sockets, threads or clocks.
//!
//! It is told what happens and what time it is, and says what is to be done ([`Out`]: by the lobby) and what that means for
//! packets ([`News`]: for the core). The two sides of a meeting speak in turn: `Hello` of the caller, `Hello` and `Papers` of who is
//! called, `Papers` of the caller, which tell that those of the other one were read. From then on the process behind a connection is *up*,
//! and whatever ends the connection without a goodbye is the loss of that process, which is final.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::events::{Bounds, Connection, End, News, Out, Want};
use super::known::Known;
use super::proof::{Answer, Hello, Papers, Word, unlike};
use super::wired::Wired;
use ggas_members::meeting::{bad, makes_room};

pub(super) enum State {
    /// The next packet begins a meeting.
    Unmet,
    /// Nobody was met.
    Nobody {
        until: Instant,
    },
    Calling {
        on: Connection,
        ticket: u64,
        stage: Calling,
        until: Instant,
    },
    Called {
        on: Connection,
        process: u64,
        until: Instant,
    },
    /// They call, too, and their call counts.
    Awaited {
        until: Instant,
    },
    Up(Up),
}

pub(super) enum Calling {
    Connecting,
    Hello,
    Papers { process: u64 },
}

pub(super) struct Up {
    pub on: Connection,
    pub process: u64,
    pub silent: Duration,
    /// So long it has not said that anything came of what was sent over the wire; whether it has.
    pub unheard: Duration,
    pub heard: bool,
    pub said: Instant,
    /// It said goodbye.
    pub leaves: bool,
    /// The connection broke; until then what was sent before is taken.
    pub broke: Option<Instant>,
}

impl Up {
    /// How it has ended.
    pub fn end(&self) -> End {
        if self.leaves { End::Left } else { End::Lost }
    }
}

pub(super) struct Node {
    pub state: State,
    /// Processes of the node that were lost here, the last ones: they stay lost.
    pub lost: Vec<u64>,
    /// Since when it is called in vain.
    pub vain: Option<Instant>,
    /// A call was not answered for long: until there is an answer packets wait for none, and it is called again while somebody wants it.
    pub silent: bool,
    /// When a packet was for it, and nobody was met.
    pub wanted: Option<Instant>,
    /// Its process was found to be lost before it was met, or is known, and is gone: whoever it is.
    pub never: bool,
    /// Its process is known, and packets of it are taken without a connection.
    pub wired: Option<Wired>,
}

/// Connections whose other side has not said who it is, at most, with a pass and without; a process that may have few files open has
/// fewer.
pub(super) const UNKNOWN_MAX: usize = 256;

/// A connection whose other side has not said who it is, for so long at most.
pub(super) struct Unknown {
    pub on: Connection,
    pub from: IpAddr,
    pub until: Instant,
    /// It has shown that it has the secret: no stranger takes its place.
    pub passed: bool,
}

/// Where random numbers come from.
pub(super) type Random = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// This process's side of all meetings.
pub(super) struct Meetings {
    pub me: u16,
    /// Each node has one process, which was there when this one began: where none is met it is lost.
    pub job: bool,
    /// Names this process, for ever.
    pub process: u64,
    /// Those of a job know each other; where rank 0 is gone, it tells no more ends.
    pub known: Option<Known>,
    pub alone: bool,
    pub provider: String,
    pub address: Vec<u8>,
    pub bounds: Bounds,
    pub random: Random,
    pub nodes: Vec<Node>,
    /// The nodes of connections, once these are known.
    pub connections: HashMap<Connection, u16>,
    /// Oldest first.
    pub unknown: Vec<Unknown>,
    pub unknown_max: usize,
    last: Connection,
    /// This process says goodbye, and meets nobody any more.
    pub leaving: bool,
    pub looked: Instant,
    /// When the next look is due.
    pub next: Option<Instant>,
    pub out: Vec<Out>,
    pub news: Vec<News>,
}

impl Meetings {
    pub fn new(
        (me, nodes): (u16, usize),
        process: u64,
        (provider, address): (String, Vec<u8>),
        bounds: Bounds,
        random: Random,
        now: Instant,
    ) -> Meetings {
        Meetings {
            me,
            job: false,
            process,
            known: None,
            alone: false,
            provider,
            address,
            bounds,
            random,
            nodes: (0..nodes)
                .map(|_| Node {
                    state: State::Unmet,
                    lost: Vec::new(),
                    vain: None,
                    silent: false,
                    wanted: None,
                    never: false,
                    wired: None,
                })
                .collect(),
            connections: HashMap::new(),
            unknown: Vec::new(),
            unknown_max: UNKNOWN_MAX,
            last: 0,
            leaving: false,
            looked: now,
            next: None,
            out: Vec::new(),
            news: Vec::new(),
        }
    }

    /// A packet is for a node where nobody is met.
    pub fn want(&mut self, node: u16, now: Instant) -> Want {
        if self.nodes[usize::from(node)].never {
            return Want::ThrowAway;
        }
        if let Some(want) = self.want_known(node, now) {
            return want;
        }
        self.nodes[usize::from(node)].wanted = Some(now);
        match &self.nodes[usize::from(node)].state {
            State::Nobody { until } if now < *until => {
                if self.job {
                    Want::Wait
                } else {
                    Want::ThrowAway
                }
            }
            State::Unmet | State::Nobody { .. } if !self.leaving => match self.call(node, now) {
                Ok(()) => self.waits_for_call(node),
                Err(error) => {
                    tracing::warn!("node {node} cannot be met: {error}");
                    Want::ThrowAway
                }
            },
            State::Calling { stage: Calling::Connecting, .. } => self.waits_for_call(node),
            State::Calling { .. } | State::Called { .. } | State::Awaited { .. } => Want::Wait,
            _ => Want::ThrowAway,
        }
    }

    pub(super) fn call(&mut self, node: u16, now: Instant) -> io::Result<()> {
        let ticket = self.open(node, None, now)?;
        self.last += 1;
        let (on, until) = (self.last, now + self.bounds.meeting);
        self.nodes[usize::from(node)].vain.get_or_insert(now);
        self.set(node, State::Calling { on, ticket, stage: Calling::Connecting, until });
        self.connections.insert(on, node);
        self.out.push(Out::Call(node, on));
        Ok(())
    }

    /// A ticket for a node: never 0, and it names the node.
    fn open(&mut self, node: u16, process: Option<u64>, now: Instant) -> io::Result<u64> {
        if let Some(ticket) = self.known.as_ref().map(|known| known.ticket(node)) {
            // One for all that the two ever say, so its link begins once.
            if !self.is_wired(node) {
                self.open_way(node, now);
            }
            return Ok(ticket);
        }
        let ticket = (self.random)()? & !0xffff | 1 << 16 | u64::from(node);
        self.news.push(News::Opened { node, ticket, process });
        Ok(ticket)
    }

    /// Somebody called: the connection's name. Of too many that have not shown a pass one makes room.
    pub fn accepted(&mut self, from: IpAddr, now: Instant) -> Connection {
        self.make_room(false);
        self.last += 1;
        let until = now + self.bounds.meeting;
        self.unknown.push(Unknown { on: self.last, from, until, passed: false });
        self.last
    }

    /// A caller has shown its pass: from now on only others that have one may take its place.
    pub fn passed(&mut self, on: Connection) {
        let Some(at) = self.unknown.iter().position(|unknown| unknown.on == on) else { return };
        let caller = self.unknown.remove(at);
        self.make_room(true);
        self.unknown.push(Unknown { passed: true, ..caller });
    }

    fn make_room(&mut self, passed: bool) {
        let alike = self.unknown.iter().enumerate().filter(|(_, unknown)| unknown.passed == passed);
        if alike.clone().count() >= self.unknown_max
            && let Some(nth) = makes_room(alike.clone().map(|(_, unknown)| unknown.from))
            && let Some(at) = alike.map(|(at, _)| at).nth(nth)
        {
            self.out.push(Out::Close(self.unknown.remove(at).on));
        }
    }

    /// A call of ours is through.
    pub fn connected(&mut self, on: Connection, now: Instant) {
        let said = match self.calling(on) {
            Some((node, stage @ Calling::Connecting)) => {
                *stage = Calling::Hello;
                self.nodes[usize::from(node)].silent = false;
                self.say_hello(on, node, Answer::Come)
            }
            _ => return self.out.push(Out::Close(on)),
        };
        if let Err(error) = said {
            tracing::warn!("a call ends: {error}");
            self.out.push(Out::Close(on));
            self.broke(on, now);
        }
    }

    /// A call of ours was refused.
    pub fn refused(&mut self, on: Connection, now: Instant) {
        let called = self.calling(on).map(|(node, _)| node);
        called.into_iter().for_each(|node| self.nodes[usize::from(node)].silent = false);
        match called {
            Some(node)
                if self.job && self.in_vain(node, now) >= self.bounds.refused && !self.is_heard(node) =>
            {
                self.connections.remove(&on);
                self.never_met(node);
            }
            _ => self.broke(on, now),
        }
    }

    /// A connection ended on the other side, or a call of ours came to nothing.
    pub fn broke(&mut self, on: Connection, now: Instant) {
        self.unknown.retain(|unknown| unknown.on != on);
        let Some(node) = self.connections.remove(&on) else { return };
        match &mut self.nodes[usize::from(node)].state {
            State::Up(up) if up.on == on => {
                up.broke = Some(now + self.bounds.linger);
                self.news.push(News::Broke { node });
            }
            State::Calling { on: own, .. } if *own == on => self.nobody(node, now),
            State::Called { on: theirs, .. } if *theirs == on => self.settle(node, State::Unmet),
            _ => {}
        }
    }

    /// What the other side of a connection said. What is wrong with it ends the connection.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn heard(&mut self, on: Connection, body: &[u8], now: Instant) -> io::Result<()> {
        let heard = self.hear(on, body, now);
        if heard.is_err() {
            self.out.push(Out::Close(on));
            self.broke(on, now);
        }
        heard
    }

    fn hear(&mut self, on: Connection, body: &[u8], now: Instant) -> io::Result<()> {
        if self.unknown.iter().any(|unknown| unknown.on == on) {
            self.unknown.retain(|unknown| unknown.on != on);
            return self.called(on, &Hello::of(body)?, now);
        }
        let Some(node) = self.connections.get(&on).copied() else { return Ok(()) };
        match &mut self.nodes[usize::from(node)].state {
            State::Up(up) if up.on == on => {
                up.silent = Duration::ZERO;
                let word = Word::of(body)?;
                self.told(node, word)
            }
            State::Calling { on: own, ticket, stage, .. } if *own == on => match stage {
                Calling::Connecting => Err(bad("it speaks before it is spoken to")),
                Calling::Hello => self.answered(on, node, &Hello::of(body)?, now),
                Calling::Papers { process } => {
                    let (process, ticket) = (*process, *ticket);
                    let papers = self.check(Papers::of(body)?);
                    self.say_papers(on, ticket); // also where they do not fit: they should know why, too
                    self.met(on, node, process, papers?, now);
                    Ok(())
                }
            },
            State::Called { on: theirs, process, .. } if *theirs == on => {
                let process = *process;
                let papers = self.check(Papers::of(body)?)?;
                let said = self.is_wired(node); // with its packets
                self.met(on, node, process, papers, now);
                if self.leaving && !said {
                    self.say(on, Word::Goodbye { sent: [0; 2], taken: [0; 2] });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether packets can go to who has these papers.
    fn check(&self, papers: Papers) -> io::Result<Papers> {
        if papers.provider != self.provider {
            return Err(unlike(format!(
                "it uses {} and this process {}: set GGAS_FABRIC alike on both (`ggas info` says what each has)",
                papers.provider, self.provider
            )));
        }
        Ok(papers)
    }

    /// A process says for the first time who it is. Where two call each other at once the lower node's call counts, if it is through: else
    /// the other side knows nothing of it, and it may never be, as where a firewall lets calls through one way.
    fn called(&mut self, on: Connection, hello: &Hello, now: Instant) -> io::Result<()> {
        let (node, process) = (hello.from, hello.incarnation);
        if hello.to != self.me {
            self.say_hello(on, node, Answer::Busy)?; // they should know, too
            return Err(unlike(format!(
                "node {node} takes this process for node {}, but it is node {}: their files differ, or name this host twice",
                hello.to, self.me
            )));
        }
        let known = self.nodes.get(usize::from(node)).filter(|_| node != self.me);
        let known = known.ok_or_else(|| bad("what came is of no node of this network"))?;
        self.check_run(node, process)?;
        if known.never || known.lost.contains(&process) {
            return self.refuse(on, node, Answer::Lost);
        }
        let known = &mut self.nodes[usize::from(node)];
        known.silent = false; // also where its call is not the one that counts
        match &known.state {
            State::Calling { stage: Calling::Hello | Calling::Papers { .. }, .. } if self.me < node => {
                return self.refuse(on, node, Answer::Busy);
            }
            State::Up(up) if up.process == process => return self.refuse(on, node, Answer::Busy),
            _ if self.leaving => return self.refuse(on, node, Answer::Busy),
            State::Up(_) => self.gone(node, End::Lost), // its place is another's: it cannot live
            State::Calling { on: old, .. } | State::Called { on: old, .. } => {
                let old = *old;
                self.close(old);
            }
            State::Unmet | State::Nobody { .. } | State::Awaited { .. } => {}
        }
        let ticket = self.open(node, Some(process), now)?;
        let until = now + self.bounds.meeting;
        self.set(node, State::Called { on, process, until });
        self.connections.insert(on, node);
        self.say_hello(on, node, Answer::Come)?;
        self.say_papers(on, ticket);
        Ok(())
    }

    /// What a process of another run of the job says, which may have the same secret, harms nobody of this one.
    fn check_run(&self, node: u16, process: u64) -> io::Result<()> {
        match self.known.as_ref().is_some_and(|known| known.process(node) != Some(process)) {
            true => Err(bad("it is of another run of the job")),
            false => Ok(()),
        }
    }

    fn refuse(&mut self, on: Connection, node: u16, answer: Answer) -> io::Result<()> {
        self.say_hello(on, node, answer)?;
        self.out.push(Out::Close(on));
        Ok(())
    }

    /// The called side's answer.
    fn answered(&mut self, on: Connection, node: u16, hello: &Hello, now: Instant) -> io::Result<()> {
        if (hello.from, hello.to) != (node, self.me) {
            return Err(unlike(format!(
                "node {} is met there: the files of the two differ, or name its host twice",
                hello.from
            )));
        }
        let process = hello.incarnation;
        self.check_run(node, process)?;
        match hello.answer {
            Answer::Busy => {
                self.close(on);
                self.set(node, State::Awaited { until: now + self.bounds.meeting });
            }
            Answer::Lost => {
                self.close(on);
                self.remember_lost(node, process);
                self.gone(node, End::Lost);
                self.settle(node, State::Nobody { until: now + self.bounds.nobody });
            }
            Answer::Come if self.nodes[usize::from(node)].lost.contains(&process) => {
                self.close(on);
                self.settle(node, State::Nobody { until: now + self.bounds.nobody });
            }
            Answer::Come => {
                if let Some((_, stage)) = self.calling(on) {
                    *stage = Calling::Papers { process };
                }
            }
        }
        Ok(())
    }
}
