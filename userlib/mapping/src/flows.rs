//! How long an exchange takes: all ranks send at once, over links that they share.
//!
//! A process starts its messages one after the other, each of which takes the channel's latency; then the message flows, and
//! flows over the same link in the same direction share its rate evenly (max-min fairness). No link is faster for several flows
//! than for one: the rates of a topology are those of one pair at a time.

use crate::{Links, MapError, Mapping, Pattern, Topology};

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The process that starts it.
    pub process: usize,
    /// How long starting it takes.
    pub latency_us: f64,
    /// Its length.
    pub bytes: f64,
    /// Lanes that it takes, each a direction of a link.
    pub lanes: Vec<usize>,
}

/// Microseconds from the start until the last message is there. `rates` are those of the lanes in GB/s. The messages of a
/// process start in their order here.
pub fn exchange_us(rates: &[f64], flows: &[Flow]) -> f64 {
    let mut started = vec![0.0; flows.iter().map(|flow| flow.process + 1).max().unwrap_or(0)];
    let mut waiting: Vec<(f64, usize)> = Vec::with_capacity(flows.len());
    for (number, flow) in flows.iter().enumerate() {
        let start = &mut started[flow.process];
        *start += flow.latency_us;
        waiting.push((*start, number));
    }
    // The next to start is the last.
    waiting.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let mut now = 0.0;
    let mut flowing: Vec<(usize, f64)> = Vec::new();
    loop {
        while waiting.last().is_some_and(|(start, _)| *start <= now) {
            if let Some((_, number)) = waiting.pop() {
                flowing.push((number, flows[number].bytes));
            }
        }
        flowing.retain(|(number, left)| *left > 1e-6 && !flows[*number].lanes.is_empty());
        let next = waiting.last().map(|(start, _)| *start);
        if flowing.is_empty() {
            let Some(next) = next else { return now };
            now = next;
            continue;
        }
        let speeds = shares(rates, flows, &flowing);
        // Bytes over GB/s are nanoseconds.
        let ends = flowing.iter().zip(&speeds).map(|((_, left), speed)| now + left / speed / 1e3);
        let end = ends.fold(next.unwrap_or(f64::INFINITY), f64::min);
        if !end.is_finite() {
            return f64::INFINITY;
        }
        for ((_, left), speed) in flowing.iter_mut().zip(&speeds) {
            *left -= (end - now) * 1e3 * speed;
        }
        // What is left by the rounding of a sum is nothing.
        flowing.retain(|(number, left)| *left > flows[*number].bytes * 1e-9);
        now = end;
    }
}

/// Max-min fair: the lane that gives its flows least decides for them, and so on with what is left.
fn shares(rates: &[f64], flows: &[Flow], flowing: &[(usize, f64)]) -> Vec<f64> {
    let mut left = rates.to_vec();
    let mut users = vec![0usize; rates.len()];
    let lanes = |at: usize| flows[flowing[at].0].lanes.iter().copied();
    for at in 0..flowing.len() {
        lanes(at).for_each(|lane| users[lane] += 1);
    }
    let mut speeds = vec![0.0; flowing.len()];
    let mut open: Vec<usize> = (0..flowing.len()).collect();
    while !open.is_empty() {
        let share = |lane: usize| left[lane] / users[lane] as f64;
        let used = (0..rates.len()).filter(|lane| users[*lane] > 0);
        let Some(narrow) = used.min_by(|a, b| share(*a).total_cmp(&share(*b))) else { break };
        let speed = share(narrow);
        let (done, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|at| lanes(**at).any(|lane| lane == narrow));
        for at in done {
            speeds[at] = speed;
            for lane in lanes(at) {
                left[lane] = (left[lane] - speed).max(0.0);
                users[lane] -= 1;
            }
        }
        open = rest;
    }
    speeds
}

/// Lanes of all links, upwards and downwards: the rates that [`exchange_us`] takes.
pub fn lanes(links: &Links) -> Vec<f64> {
    links.links().iter().flat_map(|link| [link.gbytes_per_s; 2]).collect()
}

/// The messages of a pattern under a mapping, one for each pair and direction.
///
/// # Errors
/// [`MapError::Unmeasured`], [`MapError::Unlike`]
pub fn flows(
    topology: &Topology,
    links: &Links,
    pattern: &Pattern,
    mapping: &Mapping,
) -> Result<Vec<Flow>, MapError> {
    mapping.must_be_of(pattern)?;
    let latency = |level: usize| {
        let channel = &topology.channels()[level];
        channel.latency_us.ok_or_else(|| MapError::Unmeasured {
            channel: channel.name.clone(),
            topology: topology.name().to_owned(),
            what: "latency_us",
        })
    };
    let flow = |(from, to, bytes): (usize, usize, u64)| {
        let (start, end) = (mapping.place(from), mapping.place(to));
        let (up, down) = links.path(start, end);
        let lanes = up.iter().map(|link| 2 * link).chain(down.iter().map(|link| 2 * link + 1)).collect();
        Ok(Flow {
            process: from,
            latency_us: latency(topology.level(start, end))?,
            bytes: bytes as f64,
            lanes,
        })
    };
    pattern.messages().map(flow).collect()
}

/// Microseconds that one exchange of a pattern takes under a mapping.
///
/// # Errors
/// [`MapError::Unmeasured`]: it needs latencies and rates; [`MapError::Unlike`].
pub fn time_us(topology: &Topology, pattern: &Pattern, mapping: &Mapping) -> Result<f64, MapError> {
    // Links take 1 for rates that nobody measured: that is no time.
    crate::Metric::Bandwidth.weights(topology)?;
    let links = Links::of(topology)?;
    Ok(exchange_us(&lanes(&links), &flows(topology, &links, pattern, mapping)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(process: usize, bytes: f64, lanes: &[usize]) -> Flow {
        Flow { process, latency_us: 1.0, bytes, lanes: lanes.to_vec() }
    }

    fn near(ours: f64, expected: f64) {
        assert!((ours - expected).abs() < 1e-6 * expected, "{ours}, not {expected}");
    }

    #[test]
    fn a_message_takes_its_latency_and_its_bytes() {
        near(exchange_us(&[2.0], &[flow(0, 4000.0, &[0])]), 1.0 + 2.0);
        near(exchange_us(&[2.0, 1.0], &[flow(0, 4000.0, &[0, 1])]), 1.0 + 4.0);
        near(exchange_us(&[], &[flow(0, 4000.0, &[])]), 1.0);
        assert_eq!(exchange_us(&[], &[]), 0.0);
    }

    #[test]
    fn flows_share_a_lane_and_have_what_others_leave() {
        // Both share until the short one has ended: 2 us; the long one has all of the rate then.
        near(exchange_us(&[2.0], &[flow(0, 2000.0, &[0]), flow(1, 6000.0, &[0])]), 1.0 + 2.0 + 2.0);
        // The first is held to 1 by its other lane, so the second has 3 of 4.
        near(exchange_us(&[4.0, 1.0], &[flow(0, 4000.0, &[0, 1]), flow(1, 12000.0, &[0])]), 1.0 + 4.0);
    }

    #[test]
    fn messages_of_a_process_start_one_after_the_other() {
        near(exchange_us(&[1.0, 1.0], &[flow(0, 1.0, &[0]), flow(0, 1000.0, &[1])]), 2.0 + 1.0);
        near(exchange_us(&[1.0], &[flow(0, 1500.0, &[0]), flow(0, 1500.0, &[0])]), 1.0 + 3.0);
    }

    #[test]
    fn a_pair_has_the_rate_of_its_level() {
        let helios = Topology::named("helios").expect("built in");
        let pattern = Pattern::parse("0 1000000\n0 0", "p").expect("2 ranks");
        for (place, channel) in [1, 2, 4, 8].into_iter().zip(helios.channels()) {
            let time = time_us(&helios, &pattern, &Mapping::of(vec![0, place])).expect("measured");
            near(time, channel.latency_us.unwrap() + 1e3 / channel.gbytes_per_s.unwrap());
        }
        let pascal = Topology::named("pascal").expect("built in");
        assert!(time_us(&pascal, &pattern, &Mapping::of(vec![0, 1])).is_err(), "it has no latencies");
    }
}
