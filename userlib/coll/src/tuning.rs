//! The algorithm for each vector size: as measured by `ggas tune` on this host, else built-in choices.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{env, fs, io};

use ggas_kernels::Processor;
use ggas_shared_gpu::{HostTable, Table};
use ggas_window::Window;
use serde::{Deserialize, Serialize};

use crate::GroupError;

/// Bytes of the longest table that is read: thousands of times those of a host.
const BYTES_MAX: u64 = 1 << 20;

/// Version of the file.
const SCHEMA: u32 = 1;

/// How a sum that the host starts is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumShape {
    /// Blocks, 1 to 256.
    pub blocks: u32,
    /// Threads of each, 1 to 512.
    pub threads: u32,
    /// 0: every node reads the elements that it sums. Else the nodes write the elements to each other in this number
    /// of parts (at most 64); one part travels while another is summed.
    pub chunks: u32,
}

/// A shape for vectors from a size on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SumChoice {
    /// Bytes of the shortest vector.
    pub from_bytes: usize,
    /// How vectors from this size up to that of the next choice are summed.
    #[serde(flatten)]
    pub shape: SumShape,
}

/// Choices for groups of one size on one kind of processor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// `cpu`, or the name of the GPUs.
    pub device: String,
    /// Members.
    pub nodes: usize,
    /// Bytes up to which an allreduce by packets goes in one step.
    pub one_shot_bytes: usize,
    /// Sums that the host starts: the first from 0 bytes on, then ever longer ones.
    pub sums: Vec<SumChoice>,
}

/// How GASPI's processes write between segments in GPU memory (`ggas_gaspi::GpuConfig`, whose fields these are); bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaspiLimits {
    /// Name of the GPUs.
    pub device: String,
    /// Longest write by a kernel on standby.
    pub standby_max: u64,
    /// Longest by a copy engine.
    pub engine_max: u64,
    /// Longest by stores.
    pub stores_max: u64,
    /// A piece of the hybrid.
    pub piece: u64,
    /// Longest that the network device reads from GPU memory.
    pub staged_min: u64,
    /// A piece that goes through host memory.
    pub staged_piece: u64,
}

/// A table of choices, kept as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    schema: u32,
    choices: Vec<Choices>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaspi: Vec<GaspiLimits>,
    /// Of processes that share a GPU.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub shared_gpu: Table,
    /// Of processes that share GPUs of several hosts: between these.
    #[serde(default, skip_serializing_if = "HostTable::is_empty")]
    pub between_hosts: HostTable,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            choices: Vec::new(),
            gaspi: Vec::new(),
            shared_gpu: Table::default(),
            between_hosts: HostTable::default(),
        }
    }
}

/// The source of a group's choices. For entries that the table does not have, the built-in choices apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TunedBy {
    /// The table of this host ([`Tuning::host_path`]), if there is one. A damaged table is logged and not used.
    #[default]
    Host,
    /// The table in a file, which must be there.
    File(PathBuf),
    /// This table; an empty one: no table.
    Table(Tuning),
}

impl Tuning {
    /// The file that `ggas tune` writes and groups read: `GGAS_TUNING`, or `ggas/tuning.json` in `XDG_CONFIG_HOME` or
    /// `~/.config`. `None`: the environment has neither these variables nor a home directory.
    pub fn host_path() -> Option<PathBuf> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = || set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
        set("GGAS_TUNING").or_else(|| Some(config()?.join("ggas/tuning.json")))
    }

    /// The table in a file.
    ///
    /// # Errors
    /// [`GroupError::TuningUnread`]: the file cannot be read, is no regular file, or has more than 1 MiB;
    /// [`GroupError::Tuning`]: the file is no valid table.
    pub fn read(path: &Path) -> Result<Self, GroupError> {
        let unread = |source| GroupError::TuningUnread { path: path.to_owned(), source };
        let bytes = ggas_files::read(path, BYTES_MAX).map_err(unread)?;
        let text = String::from_utf8(bytes).map_err(|error| error.to_string());
        let table = text.and_then(|text| Self::parse(&text));
        table.map_err(|reason| GroupError::Tuning { path: path.to_owned(), reason })
    }

    /// Writes the table, and creates its folder. A concurrent reader sees the old or the new table.
    ///
    /// # Errors
    /// [`GroupError::TuningUnwritten`].
    pub fn write(&self, path: &Path) -> Result<(), GroupError> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other);
        let written = || fs::rename(fresh(path, text? + "\n")?, path);
        written().map_err(|source| unwritten(path, source))
    }

    /// Checks that a table can be written to this path, and creates its folder. Call it before long measurements.
    ///
    /// # Errors
    /// [`GroupError::TuningUnwritten`].
    pub fn can_write(path: &Path) -> Result<(), GroupError> {
        let tried = || match path.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => fs::remove_file(fresh(path, String::new())?),
        };
        tried().map_err(|source| unwritten(path, source))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if table.schema != SCHEMA {
            return Err(format!("it has schema {}, this library reads {SCHEMA}", table.schema));
        }
        table.choices.iter().try_for_each(Choices::check)?;
        table.shared_gpu.check()?;
        table.between_hosts.check()?;
        Ok(table)
    }

    /// Inserts choices. They replace those for the same device and number of nodes.
    ///
    /// # Errors
    /// [`GroupError::Choices`]: the choices are invalid.
    pub fn insert(&mut self, choices: Choices) -> Result<(), GroupError> {
        choices.check().map_err(GroupError::Choices)?;
        self.choices.retain(|old| (&old.device, old.nodes) != (&choices.device, choices.nodes));
        self.choices.push(choices);
        Ok(())
    }

    /// Inserts limits. They replace those for the same device.
    pub fn insert_gaspi(&mut self, limits: GaspiLimits) {
        self.gaspi.retain(|old| old.device != limits.device);
        self.gaspi.push(limits);
    }

    /// The table's limits for GASPI on `device`.
    pub fn gaspi(&self, device: &str) -> Option<&GaspiLimits> {
        self.gaspi.iter().find(|limits| limits.device == device)
    }

    /// The table of this host, empty where there is none. One that is of no use is logged.
    pub fn of_host() -> Self {
        Self::host_path().map_or_else(Self::default, |path| of_host(&path))
    }

    /// The table's choices for `nodes` members on `device`.
    pub fn choices(&self, device: &str, nodes: usize) -> Option<&Choices> {
        self.choices.iter().find(|choices| choices.device == device && choices.nodes == nodes)
    }
}

/// A file beside `path` with this text, to be renamed; and the folder for both.
fn fresh(path: &Path, text: String) -> io::Result<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    match fs::write(&fresh, text) {
        Ok(()) => Ok(fresh),
        Err(error) => {
            // On a full disk the file is there, and empty.
            let _ = fs::remove_file(&fresh);
            Err(error)
        }
    }
}

/// With what is in the way: the path itself, or the nearest of its folders that is there.
fn unwritten(path: &Path, source: io::Error) -> GroupError {
    let folders = path.ancestors().skip(usize::from(!path.is_dir()));
    let there = folders.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let place = there.filter(|folder| folder.exists()).map(Path::to_owned).next();
    GroupError::TuningUnwritten { path: path.to_owned(), place: place.unwrap_or_default(), source }
}

/// The table of a host. Without one, or with one that is of no use, groups choose as suits most; the latter is said
/// once.
fn of_host(path: &Path) -> Tuning {
    static SAID: Once = Once::new();
    match Tuning::read(path) {
        Ok(table) => table,
        Err(GroupError::TuningUnread { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Tuning::default()
        }
        Err(error) => {
            SAID.call_once(|| tracing::warn!("choices are made without a table: {error}"));
            Tuning::default()
        }
    }
}

impl TunedBy {
    pub(crate) fn table(&self) -> Result<Tuning, GroupError> {
        match self {
            Self::Table(table) => {
                table.choices.iter().try_for_each(Choices::check).map_err(GroupError::Choices)?;
                Ok(table.clone())
            }
            Self::File(path) => Tuning::read(path),
            Self::Host => Ok(Tuning::of_host()),
        }
    }

    /// The choices for the members of a window.
    pub(crate) fn choices(&self, window: &Window) -> Result<Choices, GroupError> {
        let device = device_of(window.member(window.local().start)?.processor());
        let nodes = window.len();
        let table = self.table()?;
        Ok(table.choices(&device, nodes).cloned().unwrap_or_else(|| Choices::defaults(device, nodes)))
    }
}

/// The name of a kind of processor in tables.
pub fn device_of(processor: &Processor) -> String {
    match processor {
        Processor::Gpu(gpu) => gpu.device().info().name.clone(),
        _ => "cpu".to_owned(),
    }
}

impl Choices {
    /// What suits most, measured on two and four H200 over NVLink: data read and data written in the same direction
    /// reach 312 to 340 GB/s, writes alone 350 to 360, which pays for long vectors.
    pub fn defaults(device: String, nodes: usize) -> Self {
        let (blocks, threads) = if device == "cpu" { (2, 32) } else { (132, 512) };
        let from = |from_bytes, chunks| SumChoice { from_bytes, shape: SumShape { blocks, threads, chunks } };
        let sums = if device == "cpu" { vec![from(0, 0)] } else { vec![from(0, 0), from(32 << 20, 4)] };
        Self { device, nodes, one_shot_bytes: 64 << 10, sums }
    }

    /// How a vector of `bytes` is summed.
    pub fn sum(&self, bytes: usize) -> SumShape {
        let longest = self.sums.iter().rev().find(|choice| choice.from_bytes <= bytes);
        longest.or(self.sums.first()).map_or(SumShape { blocks: 1, threads: 32, chunks: 0 }, |c| c.shape)
    }

    fn check(&self) -> Result<(), String> {
        let of = format!("choices for {} nodes on {}", self.nodes, self.device);
        if self.sums.first().is_none_or(|first| first.from_bytes != 0) {
            return Err(format!("{of}: the first sum is for vectors from_bytes 0 on"));
        }
        if !self.sums.is_sorted_by(|a, b| a.from_bytes < b.from_bytes) {
            return Err(format!("{of}: sums are in the order of from_bytes"));
        }
        self.sums
            .iter()
            .try_for_each(|choice| choice.shape.check().map_err(|reason| format!("{of}: {reason}")))
    }
}

impl SumShape {
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { blocks, threads, chunks } = *self;
        if (1..=256).contains(&blocks) && (1..=512).contains(&threads) && chunks <= 64 {
            return Ok(());
        }
        Err(format!(
            "{blocks} blocks of {threads} threads in {chunks} chunks; use at most 256 of 512, and 64 chunks"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(nodes: usize, chunks: u32) -> Choices {
        let shape = SumShape { blocks: 3, threads: 64, chunks };
        let sums = vec![
            SumChoice { from_bytes: 0, shape: SumShape { chunks: 0, ..shape } },
            SumChoice { from_bytes: 1000, shape },
        ];
        Choices { device: "cpu".to_owned(), nodes, one_shot_bytes: 77, sums }
    }

    #[test]
    fn a_table_comes_back_as_it_was_written() {
        let folder = env::temp_dir().join(format!("ggas-tuning-{}", std::process::id()));
        let path = folder.join("deeper/tuning.json");
        let mut table = Tuning::default();
        table.insert(choices(2, 5)).expect("good");
        table.insert(choices(4, 5)).expect("good");
        table.insert(choices(2, 6)).expect("good");
        table.write(&path).expect("written");
        assert_eq!(Tuning::read(&path).expect("read"), table);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(table.choices("cpu", 2), Some(&choices(2, 6)));
        assert_eq!(table.choices("cpu", 3), None);
        assert!(matches!(Tuning::read(&path), Err(GroupError::TuningUnread { .. })));
    }

    #[test]
    fn a_damaged_table_of_the_host_is_passed_over_and_one_that_was_named_is_not() {
        let path = env::temp_dir().join(format!("ggas-damaged-{}.json", std::process::id()));
        for damaged in [&b"{"[..], b"", b"\xff\xfe", br#"{"schema": 7, "choices": []}"#] {
            fs::write(&path, damaged).expect("written");
            assert_eq!(of_host(&path), Tuning::default());
            let error = TunedBy::File(path.clone()).table().expect_err("damaged").to_string();
            let advice = format!("`ggas tune --output {}` writes it anew", path.display());
            assert!(error.contains("is damaged") && error.ends_with(&advice), "{error}");
        }
        fs::remove_file(&path).expect("removed");
        assert_eq!(of_host(&path), Tuning::default());
        let error = TunedBy::File(path.clone()).table().expect_err("gone").to_string();
        assert!(error.contains("cannot read") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_is_named_with_the_variables_that_choose_another_place() {
        let file = env::temp_dir().join(format!("ggas-no-folder-{}", std::process::id()));
        fs::write(&file, "").expect("written");
        let path = file.join(".config/ggas/tuning.json");
        for error in [Tuning::can_write(&path), Tuning::default().write(&path)] {
            let error = error.expect_err("no folder").to_string();
            let place = format!("because of {}: ", file.display());
            assert!(error.contains(&place) && error.contains("Not a directory"), "{error}");
            assert!(error.contains("GGAS_TUNING") && error.contains("XDG_CONFIG_HOME"), "{error}");
            assert!(!error.contains("ggas tune"), "{error}");
        }
        fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn a_table_that_could_not_be_written_leaves_nothing() {
        let folder = env::temp_dir().join(format!("ggas-full-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("tuning.json");
        // Where the text would go, there is no room.
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        std::os::unix::fs::symlink("/dev/full", &fresh).expect("a link");
        let error = Tuning::default().write(&path).expect_err("no room").to_string();
        let left = fs::read_dir(&folder).expect("a folder").count();
        fs::remove_dir_all(&folder).expect("removed");
        assert!(error.contains("No space left"), "{error}");
        assert_eq!(left, 0);
    }

    #[test]
    fn a_path_without_an_end_is_no_table() {
        assert_eq!(of_host(Path::new("/dev/zero")), Tuning::default());
        let error = TunedBy::File("/dev/zero".into()).table().expect_err("no table").to_string();
        assert!(error.contains("no regular file"), "{error}");
    }

    #[test]
    fn the_longest_choice_below_a_size_counts() {
        let choices = choices(2, 5);
        assert_eq!([0, 999, 1000, 1 << 40].map(|bytes| choices.sum(bytes).chunks), [0, 0, 5, 5]);
    }

    #[test]
    fn malformed_tables_are_refused_with_the_reason() {
        let refused = |text: &str| Tuning::parse(text).expect_err("malformed");
        assert!(refused("{").contains("line 1"));
        assert!(refused(r#"{"schema": 2, "choices": []}"#).contains("schema 2"));
        assert!(refused(r#"{"schema": 1, "choices": [], "more": 1}"#).contains("more"));
        let with = |sums: &str| {
            let table = format!(
                r#"{{"schema": 1, "choices": [{{"device": "cpu", "nodes": 2, "one_shot_bytes": 1, "sums": [{sums}]}}]}}"#
            );
            refused(&table)
        };
        assert!(with("").contains("from_bytes 0"));
        assert!(
            with(r#"{"from_bytes": 1, "blocks": 1, "threads": 32, "chunks": 0}"#).contains("from_bytes 0")
        );
        let one = r#"{"from_bytes": 0, "blocks": 1, "threads": 32, "chunks": 0}"#;
        assert!(with(&format!("{one}, {one}")).contains("order"));
        let of_8 = r#""device": "cpu", "collective": "reduce", "ranks": 8, "mps": false"#;
        for (by_size, reason) in [
            (r#"{"from_bytes": 5, "algorithm": "gsb"}"#, "from_bytes 0"),
            (r#"{"from_bytes": 0, "algorithm": {"static": {"staged": 9}}}"#, "there are 7"),
            (r#"{"from_bytes": 0, "algorithm": "ring"}"#, "dynamic"),
        ] {
            let refused = refused(&format!(
                r#"{{"schema": 1, "choices": [], "shared_gpu": [{{{of_8}, "by_size": [{by_size}]}}]}}"#
            ));
            assert!(refused.contains(reason), "{refused}");
        }
        let row = r#""device": "cpu", "collective": "alltoall", "hosts": 2"#;
        for (by_size, reason) in [
            (r#"{"from_bytes": 0, "across": {"through": "gpu", "whole": true}}"#, "never goes whole"),
            (r#"{"from_bytes": 0, "across": {"through": "air"}}"#, "air"),
        ] {
            let refused = refused(&format!(
                r#"{{"schema": 1, "choices": [], "between_hosts": [{{{row}, "by_size": [{by_size}]}}]}}"#
            ));
            assert!(refused.contains(reason), "{refused}");
        }
        assert!(with(r#"{"from_bytes": 0, "blocks": 0, "threads": 32, "chunks": 0}"#).contains("0 blocks"));
        assert!(with(r#"{"from_bytes": 0, "blocks": 1, "threads": 32}"#).contains("chunks"));
    }
}
