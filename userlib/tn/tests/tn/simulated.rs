//! Registering, triggering and re-arming by several programs in the virtual time of a seed, over a network with faults:
//! each operation is started exactly as often as its triggers and its arming say.

use super::*;
use ggas_device::sim::{Faults, Simulation};
use ggas_kernels::CpuConfig;
use ggas_tn::TriggerLookup;

const TAGS: usize = 12;
const SEEDS: u64 = 300;

/// What happens to a tag, all programs together.
struct Story {
    piece: Piece,
    triggers: u32,
    /// How often the registering program arms it again, once it was started.
    rearms: u32,
}

fn stories(random: &mut fastrand::Rng) -> Vec<Story> {
    let story = |tag: usize| {
        let (threshold, rearms) = (random.u32(1..5), random.u32(0..3));
        // Now and then one short of it, or beyond.
        let triggers = (threshold * (rearms + 1) + random.u32(0..3)).saturating_sub(random.u32(0..2));
        Story { piece: Piece { first: 8 * tag, words: 8, threshold }, triggers, rearms }
    };
    (0..TAGS).map(story).collect()
}

fn pause(simulation: &Simulation, random: &mut fastrand::Rng) {
    simulation.clock().sleep(Duration::from_micros(random.u64(0..30)));
}

/// Triggers of all stories in some order, shared out to `programs`.
fn hands(stories: &[Story], programs: usize, random: &mut fastrand::Rng) -> Vec<Vec<u64>> {
    let of = |(tag, story): (u64, &Story)| std::iter::repeat_n(tag, story.triggers as usize);
    let mut all: Vec<u64> = (0..).zip(stories).flat_map(of).collect();
    random.shuffle(&mut all);
    let mut hands = vec![Vec::new(); programs];
    for tag in all {
        hands[random.usize(0..programs)].push(tag);
    }
    hands
}

fn play(seed: u64, config: Config) -> Duration {
    let mut random = fastrand::Rng::with_seed(seed);
    let simulation = Simulation::new(seed);
    let faults = Faults::none().seed(seed).drop(0.02).duplicate(0.02);
    let network = builder().faults(faults).simulation(&simulation).build().unwrap();
    let cpu = Processor::cpu_with(CpuConfig::on_clock(simulation.clock()));
    let pair = Pair::on(&network, config, &cpu);
    let stories = stories(&mut random);
    let words: Vec<u64> = (0..ALL as u64).map(|i| value(i, seed)).collect();
    pair.data.write_u64s(0, &words).unwrap();
    let mut order: Vec<usize> = (0..TAGS).collect();
    random.shuffle(&mut order);
    let hands = hands(&stories, 3, &mut random);
    let (pair, stories, order, time) = (&pair, &stories, &order, &*simulation);
    let register: Box<dyn FnOnce()> = Box::new(move || {
        let mut random = fastrand::Rng::with_seed(!seed);
        for &tag in order {
            pause(time, &mut random);
            pair.put(tag as u64, stories[tag].piece, false).unwrap();
        }
        let mut left: Vec<u32> = stories.iter().map(|story| story.rearms).collect();
        for _ in 0..200 {
            pause(time, &mut random);
            let tag = random.usize(0..TAGS);
            // What was not started yet is not armed again.
            if left[tag] > 0 && pair.triggers.rearm(tag as u64).is_ok() {
                left[tag] -= 1;
            }
        }
    });
    let triggers = hands.into_iter().enumerate().map(move |(i, hand)| -> Box<dyn FnOnce()> {
        Box::new(move || {
            let mut random = fastrand::Rng::with_seed(seed ^ (i as u64 + 1) << 32);
            for tag in hand {
                pause(time, &mut random);
                pair.triggers.trigger(tag);
            }
        })
    });
    let programs = std::iter::once(register).chain(triggers);
    simulation.run(programs.enumerate().map(|(i, program)| (format!("program {i}"), program)));
    // Arms that came too soon are made up for.
    for (tag, story) in (0u64..).zip(stories) {
        while pair.triggers.rearm(tag).is_ok() {
            assert!(pair.triggers.counts().started <= 1000, "it goes on for ever");
        }
        let counted = pair.triggers.counted(tag).unwrap();
        assert_eq!(counted, story.triggers % story.piece.threshold, "seed {seed}, tag {tag}");
    }
    let starts: u32 = stories.iter().map(|story| story.triggers / story.piece.threshold).sum();
    assert_eq!(pair.triggers.counts().started, u64::from(starts), "seed {seed}");
    for _ in 0..starts {
        pair.target.wait(SOON).unwrap();
    }
    assert!(pair.target.poll().is_none(), "seed {seed}: more came than was started");
    for (tag, story) in (0usize..).zip(stories).filter(|(_, story)| story.triggers >= story.piece.threshold) {
        let Piece { first, words: count, .. } = story.piece;
        let seen = (first..first + count).map(|i| pair.destination.load_u64(8 * i).unwrap());
        assert!(seen.eq(words[first..first + count].iter().copied()), "seed {seed}, tag {tag}");
    }
    simulation.elapsed()
}

#[test]
fn every_operation_is_started_as_often_as_it_is_due() {
    for seed in 0..SEEDS {
        let lookup =
            [TriggerLookup::Associative, TriggerLookup::Hash, TriggerLookup::List][seed as usize % 3];
        let way = if seed % 4 == 3 { Some(Way::Host) } else { None };
        let config = Config { lookup, tags: 16, way, ..Config::default() };
        let time = play(seed, config);
        if seed < 4 {
            assert_eq!(time, play(seed, config), "the same seed, the same time");
        }
    }
}
