//! What breaks and mends: cables, cards, credits, nodes.

use std::time::Duration;

use extoll_sim::faults::Event;
use ggas::device::sim::Direction;

use super::world::World;

/// Breaks things while programs post; then mends all of them, for good.
pub fn run(world: &World<'_>) {
    let plan = world.plan;
    let mut random = fastrand::Rng::with_seed(plan.seed.wrapping_mul(37) ^ 0xbad);
    while world.posting.get() > 0 {
        // Microseconds mostly, up to minutes.
        let bits = if random.u8(..4) == 0 { random.u32(17..=37) } else { random.u32(10..=17) };
        world.sleep(Duration::from_nanos(random.u64(..1u64 << bits)));
        // A dead node and a cable that is down may leave no way between two others, whose packets are thrown away then.
        if plan.breaks && random.bool() && !world.dead.borrow().contains(&true) {
            break_and_mend(world, &mut random);
        }
        if plan.deaths && random.u8(..4) == 0 {
            kill(world, &mut random);
        }
    }
    world.mended.set(true);
}

fn break_and_mend(world: &World<'_>, random: &mut fastrand::Rng) {
    let network = world.network();
    let node = network.torus().id_of_index(random.usize(..network.torus().len()));
    // Minutes now and then.
    let longest = if random.u8(..8) == 0 { 200_000_000_000 } else { 2_000_000 };
    let time = Duration::from_nanos(random.u64(..longest));
    let (begin, end, reroute) = match random.u8(..4) {
        0 | 1 => {
            let directions =
                Direction::ALL.into_iter().filter(|&to| network.torus().neighbour(node, to).is_some());
            let Some(direction) = random.choice(directions.collect::<Vec<_>>()) else { return };
            // Around it there is a way where a ring has three nodes, or the torus two dimensions.
            let (x, y, _) = world.plan.torus;
            let reroute = (x > 2 || y > 1) && random.bool();
            (Event::LinkDown(node, direction), Event::LinkUp(node, direction), reroute)
        }
        2 => (Event::Stop(node), Event::Resume(node), false),
        _ => (Event::Starve(node), Event::Feed(node), false),
    };
    world.happen(begin);
    if reroute {
        world.happen(Event::Reroute);
    }
    world.sleep(time);
    world.happen(end);
    if reroute {
        world.happen(Event::Reroute);
    }
}

/// One dead node at a time. Its own program starts it again, or not.
fn kill(world: &World<'_>, random: &mut fastrand::Rng) {
    let node = random.usize(..world.plan.nodes);
    let all_well = !world.dead.borrow().contains(&true);
    if all_well && world.member(node).is_some() && world.plan.nodes > 2 {
        world.kill(node);
    }
}
