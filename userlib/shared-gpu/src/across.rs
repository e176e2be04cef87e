//! How the leaders of hosts make a call between them: through which memory, and in how many rounds; what was measured of that.

use serde::{Deserialize, Serialize};

use crate::circle::Circle;
use crate::{Collective, HierarchyConfig, SharedGpuError};

/// Through which memory what leaders put to each other goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// The host's, where cores reduce.
    #[default]
    Host,
    /// The GPU's, which reduces: puts are from GPU memory to GPU memory. The network reads and writes that itself, or, where it does not
    /// reach it, copies it by way of the host's.
    Gpu,
}

/// How leaders make a call. The default is what is taken where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// Through which memory.
    pub through: Through,
    /// Reductions and broadcasts: a vector goes whole to all hosts, in one round a slot; else one beyond 4 KiB goes in a share for each
    /// host, in two. What has parts for each rank goes in one round, whatever this is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// Who chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// The configuration.
    Forced,
    /// A table.
    Table,
    /// Nobody has measured this collective between so many hosts: what suits any network.
    BuiltIn,
}

/// How a call is made between hosts, from a size of its result on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostChoice {
    /// Bytes of the shortest result.
    pub from_bytes: usize,
    /// How.
    pub across: Across,
}

/// Choices for a collective between one number of hosts, of one kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostChoices {
    /// `cpu`, or the name of the leaders' GPUs.
    pub device: String,
    /// Which.
    pub collective: Collective,
    /// How many hosts.
    pub hosts: usize,
    /// The first from 0 bytes on, then ever longer ones.
    pub by_size: Vec<HostChoice>,
    /// Versions of what measured it, and how many ranks there were.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measured_by: String,
}

impl HostChoices {
    fn check(&self) -> Result<(), String> {
        let HostChoices { device, collective, hosts, by_size, .. } = self;
        let wrong = |what: &str| Err(format!("{collective} between {hosts} hosts of {device}: {what}"));
        if *hosts < 2 {
            return wrong("there are two hosts or more");
        }
        if by_size.first().is_none_or(|first| first.from_bytes != 0) {
            return wrong("the first choice is for results from_bytes 0 on");
        }
        if !by_size.is_sorted_by(|a, b| a.from_bytes < b.from_bytes) {
            return wrong("choices are in the order of from_bytes");
        }
        if !collective.has_steps() && by_size.iter().any(|choice| choice.across.whole) {
            return wrong("it has parts for each rank, and never goes whole");
        }
        Ok(())
    }

    fn is_for(&self, other: &HostChoices) -> bool {
        let key = |one: &HostChoices| (one.collective, one.hosts);
        self.device == other.device && key(self) == key(other)
    }
}

/// Choices between hosts, as `ggas tune --shared-gpu --between-hosts` measures them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostTable(Vec<HostChoices>);

impl HostTable {
    /// Inserts choices. They replace those for the same device, collective and number of hosts.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn insert(&mut self, choices: HostChoices) -> Result<(), String> {
        choices.check()?;
        self.0.retain(|old| !old.is_for(&choices));
        self.0.push(choices);
        Ok(())
    }

    /// Those for a device and a number of hosts.
    pub fn find<'a>(&'a self, device: &'a str, hosts: usize) -> impl Iterator<Item = &'a HostChoices> + 'a {
        self.0.iter().filter(move |one| one.device == device && one.hosts == hosts)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks what was read.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.0.iter().try_for_each(HostChoices::check)
    }
}

/// What leaders have to choose from: what the first host's says, alike on all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChoosingAcross {
    forced: Option<Across>,
    /// Of the table.
    rows: Vec<(Collective, HostChoice)>,
}

/// Bytes of a row as leaders say it: the collective, how, and from which size on.
const ROW: usize = 10;

impl ChoosingAcross {
    /// Of a program's settings.
    pub(crate) fn new(forced: Option<Across>, table: &HostTable, device: &str, hosts: usize) -> Self {
        let rows = |one: &HostChoices| {
            let collective = one.collective;
            one.by_size.iter().map(move |choice| (collective, *choice)).collect::<Vec<_>>()
        };
        ChoosingAcross { forced, rows: table.find(device, hosts).flat_map(rows).collect() }
    }

    /// What the first of the leaders says. Collective over the circle's world.
    pub(crate) fn agreed(
        leaders: &Circle<'_>,
        device: &str,
        config: &HierarchyConfig,
    ) -> Result<ChoosingAcross, SharedGpuError> {
        let own = ChoosingAcross::new(config.across, &config.hosts, device, leaders.ranks());
        let said = leaders.exchange(&own.words())?;
        let first = leaders.members()[0] as usize;
        let other = SharedGpuError::Peer { rank: first, what: "it runs another version".to_owned() };
        let all = said.first().and_then(|said| ChoosingAcross::read(said)).ok_or(other)?;
        if leaders.rank() == Some(0) && all.is_built_in() {
            tracing::info!(
                "nothing was measured between {} hosts: collectives go through host memory there (`ggas tune --shared-gpu \
                 --between-hosts` measures)",
                leaders.ranks()
            );
        }
        Ok(all)
    }

    /// Of a call with results of so many bytes; and who says so.
    pub(crate) fn choice(&self, collective: Collective, bytes: usize) -> (Across, ChosenBy) {
        if let Some(forced) = self.forced {
            return (forced, ChosenBy::Forced);
        }
        let of_this =
            |(of, choice): &&(Collective, HostChoice)| *of == collective && choice.from_bytes <= bytes;
        match self.rows.iter().rev().find(of_this) {
            Some((_, choice)) => (choice.across, ChosenBy::Table),
            None => (Across::default(), ChosenBy::BuiltIn),
        }
    }

    /// Whether some call goes through GPU memory.
    pub(crate) fn needs_gpu(&self) -> bool {
        let all = self.rows.iter().map(|(_, choice)| choice.across).chain(self.forced);
        all.into_iter().any(|across| across.through == Through::Gpu)
    }

    /// Whether nothing is known.
    pub(crate) fn is_built_in(&self) -> bool {
        self.forced.is_none() && self.rows.is_empty()
    }

    pub(crate) fn words(&self) -> Vec<u8> {
        let how = |across: Across| u8::from(across.through == Through::Gpu) | u8::from(across.whole) << 1;
        let mut said = vec![self.forced.map_or(u8::MAX, how)];
        for (collective, choice) in &self.rows {
            said.extend([*collective as u8, how(choice.across)]);
            said.extend((choice.from_bytes as u64).to_ne_bytes());
        }
        said
    }

    /// `None`: of another version.
    pub(crate) fn read(said: &[u8]) -> Option<ChoosingAcross> {
        let how = |how: u8| {
            let through = if how & 1 == 0 { Through::Host } else { Through::Gpu };
            (how < 4).then_some(Across { through, whole: how & 2 != 0 })
        };
        let (forced, rest) = said.split_first()?;
        let forced = if *forced == u8::MAX { None } else { Some(how(*forced)?) };
        let (rows, []) = rest.as_chunks::<ROW>() else { return None };
        let row = |row: &[u8; ROW]| {
            let ([of, across], from) = row.split_first_chunk()?;
            let collective = Collective::TUNED.into_iter().find(|one| *one as u8 == *of)?;
            let from_bytes = u64::from_ne_bytes(from.try_into().ok()?) as usize;
            Some((collective, HostChoice { from_bytes, across: how(*across)? }))
        };
        Some(ChoosingAcross { forced, rows: rows.iter().map(row).collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Across = Across { through: Through::Gpu, whole: false };
    const WHOLE: Across = Across { through: Through::Host, whole: true };

    fn choices(collective: Collective, hosts: usize, by_size: &[(usize, Across)]) -> HostChoices {
        let choice = |&(from_bytes, across)| HostChoice { from_bytes, across };
        let by_size = by_size.iter().map(choice).collect();
        HostChoices { device: "a GPU".to_owned(), collective, hosts, by_size, measured_by: String::new() }
    }

    fn table() -> HostTable {
        let mut table = HostTable::default();
        let by_size = [(0, WHOLE), (1000, Across::default()), (1 << 20, GPU)];
        table.insert(choices(Collective::Allreduce, 2, &by_size)).expect("good");
        table.insert(choices(Collective::Allreduce, 3, &[(0, GPU)])).expect("good");
        table.insert(choices(Collective::Allgather, 2, &[(0, GPU)])).expect("good");
        table
    }

    #[test]
    fn rows_count_for_as_many_hosts_and_others_are_built_in() {
        let of = |hosts| ChoosingAcross::new(None, &table(), "a GPU", hosts);
        let found = [0, 999, 1000, 1 << 20, 1 << 40].map(|bytes| of(2).choice(Collective::Allreduce, bytes));
        let by_table = [WHOLE, WHOLE, Across::default(), GPU, GPU].map(|across| (across, ChosenBy::Table));
        assert_eq!(found, by_table);
        let built_in = (Across::default(), ChosenBy::BuiltIn);
        assert_eq!(of(2).choice(Collective::Reduce, 8), built_in, "another collective");
        assert_eq!(of(4).choice(Collective::Allreduce, 8), built_in, "another number of hosts");
        assert!(of(4).is_built_in() && !of(4).needs_gpu() && of(2).needs_gpu());
        let other = ChoosingAcross::new(None, &table(), "another GPU", 2);
        assert_eq!(other.choice(Collective::Allreduce, 8), built_in);
        let forced = ChoosingAcross::new(Some(WHOLE), &table(), "a GPU", 2);
        assert_eq!(forced.choice(Collective::Allreduce, 1 << 30), (WHOLE, ChosenBy::Forced));
    }

    #[test]
    fn choices_are_read_as_they_are_said() {
        for forced in [None, Some(WHOLE), Some(GPU)] {
            let own = ChoosingAcross::new(forced, &table(), "a GPU", 2);
            assert_eq!(ChoosingAcross::read(&own.words()), Some(own.clone()));
            assert_eq!(ChoosingAcross::read(&own.words()[..15]), None, "cut short");
        }
        assert_eq!([&[][..], &[7]].map(ChoosingAcross::read), [None, None]);
    }

    #[test]
    fn tables_are_checked_and_new_rows_replace_old_ones() {
        let mut all = table();
        all.insert(choices(Collective::Allreduce, 2, &[(0, WHOLE)])).expect("good");
        assert_eq!(all.find("a GPU", 2).count(), 2);
        let text = serde_json::to_string(&all).expect("JSON");
        assert_eq!(serde_json::from_str::<HostTable>(&text).expect("a table"), all);
        let refused = |collective, hosts, by_size: &[_]| {
            choices(collective, hosts, by_size).check().expect_err("wrong")
        };
        use Collective::{Alltoall, Reduce};
        assert!(refused(Reduce, 1, &[(0, GPU)]).contains("two hosts"));
        assert!(refused(Reduce, 2, &[]).contains("from_bytes 0"));
        assert!(refused(Reduce, 2, &[(8, GPU)]).contains("from_bytes 0"));
        assert!(refused(Reduce, 2, &[(0, GPU), (0, WHOLE)]).contains("order"));
        assert!(refused(Alltoall, 2, &[(0, WHOLE)]).contains("never goes whole"));
    }
}
