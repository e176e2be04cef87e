//! Places for ranks, and the channels between them.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::there_are;
use crate::{MapError, counted};

/// A kind of connection between two places: a *level* of the thesis, level 0 being the nearest.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// What it is.
    pub name: String,
    /// Half a round trip of a short message, if it was measured (averaged over 1 B to 2 KB in the thesis).
    pub latency_us: Option<f64>,
    /// Rate one way, if it was measured (averaged over 2 KB to 16 MB).
    pub gbytes_per_s: Option<f64>,
}

/// Devices of a host, or nodes of a cluster, and over which channel each reaches each other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    name: String,
    devices: Vec<String>,
    channels: Vec<Channel>,
    levels: Vec<u8>,
}

/// A topology's file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    groups: Option<Vec<usize>>,
    levels: Option<Vec<Vec<u8>>>,
    devices: Option<Vec<String>>,
    channel: Vec<Channel>,
}

/// Those that are built in: name and file.
const BUILT_IN: [(&str, &str); 2] = [
    ("helios", include_str!("../topologies/helios.toml")),
    ("pascal", include_str!("../topologies/pascal.toml")),
];

impl Topology {
    /// Most places.
    pub const MOST_PLACES: usize = 1024;
    /// Names of those that are built in: `helios`, the node of 16 GPUs of the thesis, and `pascal`, its node of 4.
    pub const NAMES: [&str; 2] = [BUILT_IN[0].0, BUILT_IN[1].0];

    /// One that is built in.
    ///
    /// # Errors
    /// [`MapError::Topology`] lists those there are.
    pub fn named(name: &str) -> Result<Topology, MapError> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| {
            let known = Topology::NAMES.join(", ");
            wrong(name, format!("there is no such topology; built in are {known}; else name a file"))
        })?;
        Topology::parse(text, name)
    }

    /// One from a file: TOML with `name`, a `[[channel]]` for each level from the nearest on, each with a `name` and, where they
    /// were measured, `latency_us` and `gbytes_per_s`; and either `groups = [2, 4]` (two places share level 0, four groups of
    /// those share level 1), or `levels`, a symmetric matrix of the level between each two places. `devices` names the places;
    /// otherwise they are 0, 1 and so on.
    ///
    /// # Errors
    /// [`MapError::File`], [`MapError::Topology`]
    pub fn load(path: &Path) -> Result<Topology, MapError> {
        let read = ggas_files::read_to_string(path, 16 << 20);
        let text = read.map_err(|source| MapError::File { path: path.to_owned(), source })?;
        Topology::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a file; `origin` names it in errors.
    ///
    /// # Errors
    /// [`MapError::Topology`] says which entry makes no sense.
    pub fn parse(text: &str, origin: &str) -> Result<Topology, MapError> {
        let written: Written = toml::from_str(text).map_err(|error| wrong(origin, error.to_string()))?;
        let Written { name, groups, levels, devices, channel } = written;
        let rows = match (groups, levels) {
            (Some(groups), None) => {
                if groups.len() != channel.len() {
                    let (groups, there) =
                        (counted(groups.len(), "number"), there_are(channel.len(), "channel"));
                    let message = format!("`groups` has {groups}, but {there}: use one for each");
                    return Err(wrong(origin, message));
                }
                nested(&groups).map_err(|message| wrong(origin, message))?
            }
            (None, Some(levels)) => levels,
            _ => return Err(wrong(origin, "write either `groups` or `levels`".to_owned())),
        };
        let devices = devices.unwrap_or_else(|| (0..rows.len()).map(|device| device.to_string()).collect());
        Topology::new(name, devices, channel, &rows).map_err(|error| match error {
            MapError::Topology { message, .. } => wrong(origin, message),
            other => other,
        })
    }

    /// One of these parts. What `levels` says of a place and itself does not count.
    ///
    /// # Errors
    /// [`MapError::Topology`]: the matrix is not square or not symmetric, has a level without a channel, or as many rows as there
    /// are no devices; a device is there twice; a latency or rate is not above 0.
    pub fn new(
        name: String,
        devices: Vec<String>,
        channels: Vec<Channel>,
        levels: &[Vec<u8>],
    ) -> Result<Topology, MapError> {
        let places = devices.len();
        check(&devices, &channels, levels).map_err(|message| wrong(&name, message))?;
        let level = |at: usize| if at / places == at % places { 0 } else { levels[at / places][at % places] };
        let levels = (0..places * places).map(level).collect();
        Ok(Topology { name, devices, channels, levels })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        self.devices.len()
    }

    /// The name of the device of a place; of a GPU what `CUDA_VISIBLE_DEVICES` takes.
    ///
    /// # Panics
    /// There is no such place.
    pub fn device(&self, place: usize) -> &str {
        &self.devices[place]
    }

    /// From the nearest on.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The number of the channel between two places; 0 for a place and itself.
    ///
    /// # Panics
    /// There is no such place.
    pub fn level(&self, one: usize, other: usize) -> usize {
        assert!(other < self.places(), "place {other} of {}", self.places());
        usize::from(self.levels[one * self.places() + other])
    }

    /// The same places over channels that were measured.
    pub(crate) fn with_channels(&self, channels: Vec<Channel>) -> Topology {
        Topology { channels, ..self.clone() }
    }

    /// Only these devices, in this order, with the channels of the whole.
    ///
    /// # Errors
    /// [`MapError::UnknownDevice`]; [`MapError::Topology`] if one is named twice, or none.
    pub fn only<S: AsRef<str>>(&self, devices: &[S]) -> Result<Topology, MapError> {
        let place = |name: &S| {
            let name = name.as_ref();
            self.devices.iter().position(|known| known == name).ok_or_else(|| MapError::UnknownDevice {
                name: name.to_owned(),
                topology: self.name.clone(),
                known: self.devices.join(", "),
            })
        };
        let places = devices.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        let row = |one: &usize| places.iter().map(|other| self.levels[one * self.places() + other]).collect();
        let rows: Vec<Vec<u8>> = places.iter().map(row).collect();
        let names = places.iter().map(|place| self.devices[*place].clone()).collect();
        Topology::new(self.name.clone(), names, self.channels.clone(), &rows)
    }

    /// The file that [`load`](Self::load) reads.
    pub fn text(&self) -> String {
        let quoted =
            |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let name = std::slice::from_ref(&self.name);
        let mut text =
            format!("name = {}\ndevices = [{}]\nlevels = [\n", quoted(name), quoted(&self.devices));
        for row in self.levels.chunks(self.places()) {
            let row: Vec<_> = row.iter().map(u8::to_string).collect();
            let _ = writeln!(text, "    [{}],", row.join(", "));
        }
        text += "]\n";
        for Channel { name, latency_us, gbytes_per_s } in &self.channels {
            let _ = writeln!(text, "\n[[channel]]\nname = {name:?}");
            for (entry, value) in [("latency_us", latency_us), ("gbytes_per_s", gbytes_per_s)] {
                let _ = match value {
                    Some(value) => writeln!(text, "{entry} = {value:?}"),
                    None => writeln!(text, "# {entry} =    # not measured"),
                };
            }
        }
        text
    }
}

fn wrong(origin: &str, message: String) -> MapError {
    MapError::Topology { origin: origin.to_owned(), message }
}

fn check(devices: &[String], channels: &[Channel], levels: &[Vec<u8>]) -> Result<(), String> {
    let places = devices.len();
    let most = Topology::MOST_PLACES;
    if !(1..=most).contains(&places) {
        return Err(format!("{places} devices: use 1 to {most}"));
    }
    if levels.len() != places {
        let (of, there) = (counted(levels.len(), "place"), there_are(places, "device"));
        return Err(format!("the levels are of {of}, but {there}"));
    }
    if channels.is_empty() {
        return Err("it has no [[channel]]: write one for each level".to_owned());
    }
    for (at, device) in devices.iter().enumerate() {
        let is_word = !device.is_empty()
            && !device.contains(|c: char| c.is_whitespace() || c.is_control() || "'\",".contains(c));
        if !is_word {
            return Err(format!("{device:?} is no name of a device: use a word, such as 0 or GPU-8f6a"));
        }
        if devices[..at].contains(device) {
            return Err(format!("device {device} is there twice"));
        }
    }
    for channel in channels {
        for (entry, value) in [("latency_us", channel.latency_us), ("gbytes_per_s", channel.gbytes_per_s)] {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
                return Err(format!("{entry} = {value} of the channel {}: it must be above 0", channel.name));
            }
        }
    }
    if let Some(one) = levels.iter().position(|row| row.len() != places) {
        return Err(format!(
            "row {one} of the levels has {}, not {places}",
            counted(levels[one].len(), "number")
        ));
    }
    for (one, row) in levels.iter().enumerate() {
        for (other, level) in row.iter().enumerate().filter(|(other, _)| *other != one) {
            if usize::from(*level) >= channels.len() {
                return Err(format!(
                    "level {level} between places {one} and {other}: there are {} channels",
                    channels.len()
                ));
            }
            if levels[other][one] != *level {
                return Err(format!(
                    "the level from place {one} to {other} is not that from {other} to {one}"
                ));
            }
        }
    }
    Ok(())
}

/// The levels between places of groups of groups.
fn nested(groups: &[usize]) -> Result<Vec<Vec<u8>>, String> {
    let places = groups.iter().try_fold(1usize, |places, group| places.checked_mul(*group));
    let most = Topology::MOST_PLACES;
    let places = places
        .filter(|places| (1..=most).contains(places))
        .ok_or_else(|| format!("the product of `groups` is the number of places: it must be 1 to {most}"))?;
    let level = |one: usize, other: usize| {
        let mut size = 1;
        let holds_both = |group: &usize| {
            size *= group;
            one / size == other / size
        };
        groups.iter().position(holds_both).unwrap_or_default() as u8
    };
    Ok((0..places).map(|one| (0..places).map(|other| level(one, other)).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_the_thesis_has_its_levels_and_ratios() {
        let helios = Topology::named("helios").expect("built in");
        assert_eq!(helios.places(), 16);
        assert_eq!([1, 2, 4, 8].map(|place| helios.level(0, place)), [0, 1, 2, 3]);
        assert_eq!((helios.level(14, 15), helios.level(7, 8), helios.level(5, 5)), (0, 3, 0));
        let near = &helios.channels()[0];
        for (far, ratio, slower) in [(1, 1.01, 2.47), (2, 1.17, 4.22), (3, 1.57, 4.47)] {
            let far = &helios.channels()[far];
            let latency = far.latency_us.unwrap() / near.latency_us.unwrap();
            let rate = near.gbytes_per_s.unwrap() / far.gbytes_per_s.unwrap();
            assert!((latency - ratio).abs() < 0.005 && (rate - slower).abs() < 0.005, "{latency} {rate}");
        }
        assert_eq!(Topology::named("pascal").expect("built in").level(1, 2), 1);
        assert!(Topology::named("hal").expect_err("unknown").to_string().contains("helios, pascal"));
    }

    #[test]
    fn a_file_is_read_as_it_is_written() {
        for name in Topology::NAMES {
            let topology = Topology::named(name).expect("built in");
            assert_eq!(Topology::parse(&topology.text(), "again").expect("the same"), topology);
        }
    }

    #[test]
    fn devices_are_chosen_by_name() {
        let helios = Topology::named("helios").expect("built in");
        let four = helios.only(&["8", "0", "1"]).expect("three of them");
        assert_eq!((four.device(0), four.level(0, 1), four.level(1, 2)), ("8", 3, 0));
        let error = helios.only(&["0", "16"]).expect_err("unknown").to_string();
        assert!(error.contains("no device `16`; it has 0, 1, 2"), "{error}");
        assert!(helios.only(&["3", "3"]).expect_err("twice").to_string().contains("device 3 is there twice"));
        assert!(helios.only::<&str>(&[]).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let channel = "[[channel]]\nname = 'x'\n";
        let wrong = |text: &str, part: &str| {
            let error = Topology::parse(text, "t.toml").expect_err(text).to_string();
            assert!(error.starts_with("t.toml: ") && error.contains(part), "{error}");
        };
        wrong("name = 'a'", "channel");
        wrong(&format!("name = 'a'\n{channel}"), "either `groups` or `levels`");
        wrong(
            &format!("name = 'a'\ngroups = [2, 2]\n{channel}"),
            "`groups` has 2 numbers, but there is 1 channel",
        );
        wrong(&format!("name = 'a'\ngroups = [0]\n{channel}"), "must be 1 to 1024");
        wrong(&format!("name = 'a'\ngroups = [4096]\n{channel}"), "must be 1 to 1024");
        wrong(&format!("name = 'a'\nlevels = [[0, 1], [1, 0]]\n{channel}"), "level 1 between places 0 and 1");
        wrong(&format!("name = 'a'\nlevels = [[0, 0], [0]]\n{channel}"), "row 1 of the levels has 1");
        wrong(
            &format!("name = 'a'\nlevels = [[0, 0], [1, 0]]\n{channel}{channel}"),
            "is not that from 1 to 0",
        );
        wrong(&format!("name = 'a'\nlevels = [[0, 0, 0], [0, 0]]\n{channel}"), "row 0 of the levels has 3");
        wrong(&format!("name = 'a'\ngroups = [2]\ndevices = ['0', 'a b']\n{channel}"), "no name of a device");
        wrong(
            &format!("name = 'a'\ngroups = [2]\ndevices = ['0']\n{channel}"),
            "2 places, but there is 1 device",
        );
        wrong(&format!("name = 'a'\ngroups = [2]\n{channel}gbytes_per_s = 0.0\n"), "must be above 0");
        wrong(&format!("name = 'a'\ngroups = [2]\n{channel}latency_us = nan\n"), "must be above 0");
        wrong(&format!("name = 'a'\ngroups = [2]\n{channel}speed = 1\n"), "speed");
    }
}
