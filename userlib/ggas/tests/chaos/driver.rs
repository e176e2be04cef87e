//! The driver: who joins, leaves, is stopped, goes on or dies in which round, and what has to be true of all of them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::SOON;
use crate::board::{Board, MEMBERS, State, Tally};
use crate::receiving::AREAS;
use crate::stage::{Actor, NODES, Stage};

/// Members at a time.
const FEWEST: usize = 4;
const MOST: usize = 12;
/// Most rounds for which a member stands still: sometimes for so long that a VPID has rested meanwhile.
const STILL: u64 = 80;
/// Rounds after which everybody is to reach everybody.
const BETWEEN: u64 = 25;
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Runs,
    /// Until this round; then it goes on, or dies.
    Stands(u64, bool),
    Leaves,
}

struct One {
    actor: Actor,
    area: u32,
    doing: Doing,
}

struct Chaos {
    /// Goes before the stage.
    crowd: Vec<One>,
    stage: Stage,
    board: &'static Board,
    random: fastrand::Rng,
    born: u32,
    /// The longest unused first.
    areas: VecDeque<u32>,
    round: u64,
    /// Joins, leaves, deaths, stops.
    done: [u64; 4],
}

/// Plays so many rounds.
pub fn run(test: &str, rounds: u64, seed: u64) {
    eprintln!("{rounds} rounds with GGAS_CHAOS_SEED={seed}");
    let stage = Stage::new(test, seed);
    let board = stage.board;
    let mut chaos = Chaos {
        crowd: Vec::new(),
        stage,
        board,
        random: fastrand::Rng::with_seed(seed),
        born: 0,
        areas: (0..AREAS as u32).collect(),
        round: 0,
        done: [0; 4],
    };
    let began = Instant::now();
    for round in 0..rounds {
        chaos.round = round;
        chaos.play();
        std::thread::sleep(Duration::from_micros(chaos.random.u64(0..25_000)));
        if round % BETWEEN == BETWEEN - 1 {
            chaos.check();
        }
    }
    chaos.check();
    chaos.end();
    let tally = [Tally::Bursts, Tally::Gets, Tally::Errors, Tally::Strays].map(|what| board.tally(what));
    let [joins, leaves, deaths, stops] = chaos.done;
    let [bursts, gets, errors, strays] = tally;
    let taken_over = board.all().filter(|member| board.successors(*member).next().is_some()).count();
    eprintln!(
        "{rounds} rounds in {:.1?}: {joins} joined, {leaves} left, {deaths} died, {stops} stops, {taken_over} VPIDs taken \
         over; {bursts} bursts and {gets} gets right, {errors} errors of the dead, {strays} late for one who had the \
         VPID before",
        began.elapsed()
    );
    assert!(bursts > 0 && gets > 0);
}

impl Chaos {
    /// One of them does something, or something is done to it.
    fn play(&mut self) {
        self.reap();
        self.rouse(|until, round| until <= round);
        match self.random.u8(0..16) {
            _ if self.crowd.len() < FEWEST => self.join(),
            0..5 if self.crowd.len() < MOST => self.join(),
            5..7 => self.leave(),
            7..10 => self.kill(),
            10..15 => self.stop(),
            _ => {}
        }
    }

    fn join(&mut self) {
        assert!((self.born as usize) < MEMBERS, "fewer rounds, or room for more members");
        let (member, area) = (self.born, self.areas.pop_front().expect("more areas than members"));
        self.born += 1;
        self.board.entry(member).area.store(area, SeqCst);
        // Often where one has died: its VPID is given to others once it has rested.
        let gone: Vec<u32> = self.board.all().filter(|one| self.board.state(*one) == State::Gone).collect();
        let last = gone.len().saturating_sub(MOST);
        let node = match self.random.choice(&gone[last..]) {
            Some(dead) if self.random.bool() => u32::from(self.board.address(*dead).node),
            _ => self.random.u32(0..NODES),
        };
        let actor = self.stage.start("member", member, node);
        self.crowd.push(One { actor, area, doing: Doing::Runs });
        self.done[0] += 1;
    }

    fn leave(&mut self) {
        let Some(at) = self.any(|one| one.doing == Doing::Runs) else { return };
        self.crowd[at].doing = Doing::Leaves;
        self.board.entry(self.crowd[at].actor.member).asked_to_leave.store(1, SeqCst);
        self.done[1] += 1;
    }

    /// Anyone, also one that joins, leaves or stands still.
    fn kill(&mut self) {
        if let Some(at) = self.any(|_| true) {
            self.kill_at(at);
        }
    }

    fn kill_at(&mut self, at: usize) {
        let mut one = self.crowd.swap_remove(at);
        one.actor.kill(self.board);
        self.areas.push_back(one.area);
        self.done[2] += 1;
    }

    fn stop(&mut self) {
        let Some(at) = self.any(|one| one.doing == Doing::Runs) else { return };
        let rounds = match self.random.u8(0..4) {
            0..2 => 1..5,
            2 => 5..STILL / 4,
            _ => STILL / 4..STILL,
        };
        let (until, dies) = (self.round + self.random.u64(rounds), self.random.u8(0..3) == 0);
        self.crowd[at].doing = Doing::Stands(until, dies);
        self.crowd[at].actor.signal(libc::SIGSTOP);
        self.done[3] += 1;
    }

    /// Those that stand still go on, or die of it.
    fn rouse(&mut self, is_due: impl Fn(u64, u64) -> bool) {
        for at in (0..self.crowd.len()).rev() {
            match self.crowd[at].doing {
                Doing::Stands(until, dies) if is_due(until, self.round) => {
                    if dies {
                        self.kill_at(at);
                    } else {
                        self.crowd[at].actor.signal(libc::SIGCONT);
                        self.crowd[at].doing = Doing::Runs;
                    }
                }
                _ => {}
            }
        }
    }

    fn any(&mut self, is: impl Fn(&One) -> bool) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.crowd.len()).filter(|at| is(&self.crowd[*at])).collect();
        self.random.choice(fitting)
    }

    /// Sees to those that have ended: by themselves only where they were asked to, and well.
    fn reap(&mut self) {
        for at in (0..self.crowd.len()).rev() {
            let Some(status) = self.crowd[at].actor.child.try_wait().expect("our child") else { continue };
            let one = self.crowd.swap_remove(at);
            let left = one.doing == Doing::Leaves && self.board.state(one.actor.member) == State::Gone;
            assert!(left && status.success(), "{}: member {} ended: {status}", self.name(), one.actor.member);
            self.areas.push_back(one.area);
        }
    }

    /// Nobody stands still, who was asked to leave has left, and everybody reaches everybody.
    fn check(&mut self) {
        self.rouse(|_, _| true);
        let epoch = self.board.epoch.fetch_add(1, SeqCst) + 1;
        let deadline = Instant::now() + SOON;
        loop {
            self.reap();
            let waiting: Vec<String> = self
                .crowd
                .iter()
                .filter(|one| !one.is_done(self.board, epoch))
                .map(|one| format!("{} ({:?})", one.actor.member, self.board.state(one.actor.member)))
                .collect();
            if waiting.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{}: members {waiting:?} hang", self.name());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Half of them leave, the others are killed; then nobody is there, and nothing.
    fn end(&mut self) {
        while self.crowd.len() > 1 {
            self.leave();
            self.kill();
        }
        self.leave();
        self.check();
        self.stage.end();
    }

    fn name(&self) -> String {
        format!("round {} of GGAS_CHAOS_SEED={}", self.round, self.board.seed.load(SeqCst))
    }
}

impl One {
    fn is_done(&self, board: &Board, epoch: u64) -> bool {
        self.doing == Doing::Runs && board.entry(self.actor.member).epoch.load(SeqCst) == epoch
    }
}
