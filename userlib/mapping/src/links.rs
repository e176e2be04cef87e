//! Links between places, and how loaded a mapping makes them (thesis 6.4.2, "Congestion analysis").

use crate::{MapError, Mapping, Pattern, Topology};

/// A wire that pairs of places share, full duplex.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Between what.
    pub name: String,
    /// Of which level it is.
    pub level: usize,
    /// Rate one way: of the level, or 1 where that was not measured.
    pub gbytes_per_s: f64,
}

/// The links of a topology.
///
/// If the levels are those of a tree (two places that are near a third one are as near each other), each group of places that is
/// part of a larger one has a link to it, with the rate of the larger one's level; that of a place is the link of level 0. Otherwise, as in a
/// mesh of NVLinks, each two places have a link of their own.
#[derive(Clone, Debug)]
pub struct Links {
    links: Vec<Link>,
    /// For each place the link upwards at each level, none where its group is no part of a larger one; no tree: none at all.
    up: Option<Vec<Vec<Option<usize>>>>,
    places: usize,
    levels: Vec<u8>,
    level_count: usize,
}

/// Load of each link.
#[derive(Clone, Debug, PartialEq)]
pub struct Congestion {
    /// Bytes through each link, both ways, over its rate: milliseconds for megabytes and GB/s.
    pub of_link: Vec<f64>,
    levels: Vec<usize>,
}

impl Congestion {
    /// Of the most loaded link of a level; 0 if the level has none.
    pub fn worst(&self, level: usize) -> f64 {
        let of_level = self.levels.iter().zip(&self.of_link).filter(|(of, _)| **of == level);
        of_level.map(|(_, load)| *load).fold(0.0, f64::max)
    }

    /// Of the most loaded link of all.
    pub fn most(&self) -> f64 {
        self.of_link.iter().copied().fold(0.0, f64::max)
    }
}

impl Links {
    /// Of a topology.
    ///
    /// # Errors
    /// [`MapError::Unmeasured`] if some of its channels have a rate and others none.
    pub fn of(topology: &Topology) -> Result<Links, MapError> {
        let rates = rates(topology)?;
        let places = topology.places();
        let pairs = (0..places).flat_map(|one| (0..places).map(move |other| (one, other)));
        let mut links = Links {
            links: Vec::new(),
            up: None,
            places,
            levels: pairs.map(|(one, other)| topology.level(one, other) as u8).collect(),
            level_count: rates.len(),
        };
        match is_tree(topology) {
            true => links.add_tree(topology, &rates),
            false => links.add_pairs(topology, &rates),
        }
        Ok(links)
    }

    /// All of them.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.level_count
    }

    fn add_tree(&mut self, topology: &Topology, rates: &[f64]) {
        let places = self.places;
        let mut up = vec![vec![None; rates.len()]; places];
        // The group of each place at the level below: its first place.
        let mut group: Vec<usize> = (0..places).collect();
        for (level, rate) in rates.iter().enumerate() {
            let above: Vec<usize> = (0..places).map(|place| first(topology, place, level)).collect();
            for leader in 0..places {
                let is_part = group[leader] == leader
                    && (0..places).any(|p| above[p] == above[leader] && group[p] != leader);
                if is_part {
                    let number = self.links.len();
                    for place in (0..places).filter(|place| group[*place] == leader) {
                        up[place][level] = Some(number);
                    }
                    let members: Vec<_> =
                        (0..places).filter(|p| group[*p] == leader).map(|p| topology.device(p)).collect();
                    let name = format!("{} of {}", topology.channels()[level].name, members.join("+"));
                    self.links.push(Link { name, level, gbytes_per_s: *rate });
                }
            }
            group = above;
        }
        self.up = Some(up);
    }

    fn add_pairs(&mut self, topology: &Topology, rates: &[f64]) {
        for one in 0..self.places {
            for other in 0..one {
                let level = topology.level(one, other);
                let channel = &topology.channels()[level].name;
                let name = format!("{channel} of {} and {}", topology.device(other), topology.device(one));
                self.links.push(Link { name, level, gbytes_per_s: rates[level] });
            }
        }
    }

    /// Links from one place to another: upwards ones, then downwards ones.
    pub fn path(&self, from: usize, to: usize) -> (Vec<usize>, Vec<usize>) {
        if from == to {
            return (Vec::new(), Vec::new());
        }
        let Some(up) = &self.up else {
            let (one, other) = (from.max(to), from.min(to));
            let link = vec![one * (one - 1) / 2 + other];
            return if from > to { (link, Vec::new()) } else { (Vec::new(), link) };
        };
        let top = usize::from(self.levels[from * self.places + to]);
        let of = |place: usize| up[place][..=top].iter().copied().flatten().collect::<Vec<_>>();
        let mut down = of(to);
        down.reverse();
        (of(from), down)
    }

    /// How loaded the links are by a pattern under a mapping.
    ///
    /// # Errors
    /// [`MapError::Unlike`] for the mapping of another pattern.
    pub fn congestion(&self, pattern: &Pattern, mapping: &Mapping) -> Result<Congestion, MapError> {
        mapping.must_be_of(pattern)?;
        let mut volume = vec![0.0; self.links.len()];
        for (from, to, bytes) in pattern.messages() {
            let (up, down) = self.path(mapping.place(from), mapping.place(to));
            for link in up.into_iter().chain(down) {
                volume[link] += bytes as f64;
            }
        }
        let of_link =
            volume.iter().zip(&self.links).map(|(bytes, link)| bytes / link.gbytes_per_s / 1e6).collect();
        Ok(Congestion { of_link, levels: self.links.iter().map(|link| link.level).collect() })
    }
}

/// The first place that is as near or nearer than a level.
fn first(topology: &Topology, place: usize, level: usize) -> usize {
    (0..place).find(|other| topology.level(*other, place) <= level).unwrap_or(place)
}

fn is_tree(topology: &Topology) -> bool {
    let places = topology.places();
    let near = |level: usize| {
        (0..places).all(|place| {
            let leader = first(topology, place, level);
            let alike = |other: usize| {
                (topology.level(place, other) <= level) == (topology.level(leader, other) <= level)
            };
            (0..places).filter(|other| *other != place && *other != leader).all(alike)
        })
    };
    (0..topology.channels().len()).all(near)
}

/// Of all levels; 1 each where none was measured.
fn rates(topology: &Topology) -> Result<Vec<f64>, MapError> {
    let channels = topology.channels();
    if channels.iter().all(|channel| channel.gbytes_per_s.is_none()) {
        return Ok(vec![1.0; channels.len()]);
    }
    let rate = |channel: &crate::Channel| {
        channel.gbytes_per_s.ok_or_else(|| MapError::Unmeasured {
            channel: channel.name.clone(),
            topology: topology.name().to_owned(),
            what: "gbytes_per_s",
        })
    };
    channels.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metric, Search, map};

    fn helios() -> Topology {
        Topology::named("helios").expect("built in")
    }

    #[test]
    fn a_tree_has_a_link_for_each_group() {
        let links = Links::of(&helios()).expect("measured");
        let count = |level| links.links().iter().filter(|link| link.level == level).count();
        assert_eq!([0, 1, 2, 3].map(count), [16, 8, 4, 2]);
        assert_eq!(links.path(0, 1), (vec![0], vec![1]));
        let (up, down) = links.path(0, 15);
        let levels = |path: &[usize]| path.iter().map(|link| links.links()[*link].level).collect::<Vec<_>>();
        assert_eq!((levels(&up), levels(&down)), (vec![0, 1, 2, 3], vec![3, 2, 1, 0]));
        assert_eq!(links.links()[16].name, "switches of 0+1");
    }

    #[test]
    fn a_mesh_has_a_link_for_each_pair() {
        let text = "name = 'ring'\nlevels = [[0,0,1,0],[0,0,0,1],[1,0,0,0],[0,1,0,0]]\n[[channel]]\nname = 'x'\n[[channel]]\nname = 'y'\n";
        let links = Links::of(&Topology::parse(text, "t").expect("a ring")).expect("no rates at all");
        assert_eq!(links.links().len(), 6);
        assert_eq!(links.path(2, 0), (vec![1], vec![]));
        assert_eq!((links.links()[1].name.as_str(), links.links()[1].level), ("y of 0 and 2", 1));
    }

    /// Thesis 6.4.2 and Fig. 6.7(b): from 1600 to 264 at level 3. What a unit is, it does not tell: 24 units cross the sockets by
    /// default, 8 pairs with three times the volume, 4 afterwards. The rounder of its two numbers is 1 % above 6 times the other.
    #[test]
    fn the_thesis_example_falls_from_1600_to_264() {
        let pattern = Pattern::stencil(&[2, 2, 4], false, 3, 1000).expect("16 ranks");
        let links = Links::of(&helios()).expect("measured");
        let far = |mapping: &Mapping| links.congestion(&pattern, mapping).expect("of it").worst(3);
        let before = far(&Mapping::default_of(&helios(), &pattern).expect("it fits"));
        let after = far(&map(&helios(), &pattern, Metric::Bandwidth, Search::default()).expect("it fits"));
        let unit = 264.0 / after;
        assert!((before * unit - 1600.0).abs() <= 16.0, "{} to {}", before * unit, after * unit);
    }

    /// Thesis 6.4.2 and Fig. 6.7(a): the plain 2-d stencil's congestion differs at level 2 only, where it is lower.
    #[test]
    fn the_plain_stencil_differs_at_level_2() {
        let pattern = Pattern::stencil(&[4, 4], false, 1, 1000).expect("16 ranks");
        let links = Links::of(&helios()).expect("measured");
        let all = |mapping: &Mapping| {
            let congestion = links.congestion(&pattern, mapping).expect("of it");
            [0, 1, 2, 3].map(|level| congestion.worst(level))
        };
        let before = all(&Mapping::default_of(&helios(), &pattern).expect("it fits"));
        let after = all(&map(&helios(), &pattern, Metric::Bandwidth, Search::default()).expect("it fits"));
        assert_eq!([before[0], before[1], before[3]], [after[0], after[1], after[3]]);
        assert!(after[2] < before[2], "{before:?} {after:?}");
    }
}
