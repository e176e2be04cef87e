//! The shared buffer and the directory: made by rank 0, mapped by all.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use ggas_gpu::{GpuPart, GpuWindow};
use ggas_kernels::{Mapped, Processor};
use ggas_members::memory::{Mapping, create, sealed_len};

use crate::circle::Circle;
use crate::station::Word;
use crate::{Config, Directory, Layout, Mps, SharedGpuError};

/// Most ranks: what a GPU's memory and a host's cores are enough for, with room.
pub(crate) const RANKS_MAX: usize = 256;
/// Largest buffer: more than the memory of any GPU.
const BUFFER_MAX: usize = 1 << 40;

/// The buffer as this process reaches it.
enum Buffer {
    Host(Mapping),
    Gpu(GpuWindow),
}

/// What ranks share.
pub(crate) struct Shared {
    // Unregistered before the memory goes.
    words_mapped: Mapped,
    staging_mapped: Mapped,
    words: Mapping,
    /// Of the host, as large as the buffer.
    staging: Mapping,
    buffer: Buffer,
    /// Bytes in front of the buffer's data: the directory, where it lies on the GPU.
    head: usize,
}

impl Shared {
    /// Sets the memory up, alike on all ranks; `None` at one that is not of the circle.
    pub(crate) fn new(
        circle: &Circle<'_>,
        processor: &Processor,
        config: &Config,
        is_one_gpu: bool,
    ) -> Result<Option<(Shared, Layout)>, SharedGpuError> {
        let tag = same(circle, processor, config, is_one_gpu)?;
        let of_this = tag.as_ref().ok().copied();
        let made = Shared::agreed(circle, processor, config, tag);
        if let (Err(_), Some(tag)) = (&made, of_this) {
            circle.forget(tag);
        }
        made
    }

    /// The same with what the ranks think of each other's settings.
    fn agreed(
        circle: &Circle<'_>,
        processor: &Processor,
        config: &Config,
        tag: Result<u64, SharedGpuError>,
    ) -> Result<Option<(Shared, Layout)>, SharedGpuError> {
        let ranks = circle.ranks();
        let (tag, layout) = circle.agree(tag.and_then(|tag| {
            if circle.spans_hosts() {
                return Err(SharedGpuError::OtherHost);
            }
            if ranks > RANKS_MAX {
                return Err(SharedGpuError::TooMany { ranks, most: RANKS_MAX });
            }
            if config.buffer > BUFFER_MAX {
                return Err(SharedGpuError::LargeBuffer { bytes: config.buffer, most: BUFFER_MAX });
            }
            let least = Layout::least(ranks);
            let small = SharedGpuError::SmallBuffer { bytes: config.buffer, ranks, least };
            Ok((tag, Layout::new(ranks, config.buffer).ok_or(small)?))
        }))?;
        let head = match config.directory {
            Directory::Host => 0,
            _ => (8 * Word::count(ranks)).next_multiple_of(4096),
        };
        let bytes = head + config.buffer;
        let made = (circle.rank() == Some(0)).then(|| make(processor, bytes, ranks)).transpose();
        let made = circle.agree(made)?;
        let map = |made| map(processor, made, bytes, ranks, head);
        let mapped = circle.rank().map(|_| pass_on(circle, tag, made).and_then(map)).transpose();
        Ok(circle.agree(mapped)?.map(|shared| (shared, layout)))
    }

    /// A word of the directory in host memory.
    pub(crate) fn word(&self, word: Word) -> &AtomicU64 {
        // SAFETY: a word of a directory of that many ranks, as `map` checked; an atomic, of which any bytes are a value.
        unsafe { self.words.at(8 * word.index()) }
    }

    /// Its address for copies of a GPU.
    pub(crate) fn word_address(&self, word: Word) -> u64 {
        self.words_mapped.address() + 8 * word.index() as u64
    }

    /// Where a directory on the GPU begins.
    pub(crate) fn head(&self) -> u64 {
        self.base()
    }

    /// Address of a byte of the buffer.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        self.base() + (self.head + offset) as u64
    }

    /// Address of a byte of the staging buffer.
    pub(crate) fn staging(&self, offset: usize) -> u64 {
        debug_assert!(offset < self.staging.len());
        self.staging_mapped.address() + offset as u64
    }

    /// Its address for the host.
    pub(crate) fn staging_on_host(&self, offset: usize) -> u64 {
        debug_assert!(offset < self.staging.len());
        self.staging.base() as u64 + offset as u64
    }

    fn base(&self) -> u64 {
        match &self.buffer {
            Buffer::Host(mapping) => mapping.base() as u64,
            Buffer::Gpu(window) => window.base(),
        }
    }
}

/// What rank 0 made.
struct Made {
    words: OwnedFd,
    staging: OwnedFd,
    buffer: OwnedFd,
    /// The maker's own, on a GPU.
    part: Option<GpuPart>,
}

fn make(processor: &Processor, bytes: usize, ranks: usize) -> Result<Made, SharedGpuError> {
    let words = create(c"ggas-directory", (8 * Word::count(ranks)).next_multiple_of(4096) as u64)?;
    let staging = create(c"ggas-staging-buffer", bytes as u64)?;
    match processor {
        Processor::Gpu(gpu) => {
            let stride = stride(gpu.device(), bytes)?;
            let part = GpuPart::new(gpu.device(), stride)?;
            Ok(Made { words, staging, buffer: part.export()?, part: Some(part) })
        }
        _ => Ok(Made { words, staging, buffer: create(c"ggas-shared-buffer", bytes as u64)?, part: None }),
    }
}

fn stride(gpu: &ggas_gpu::Gpu, bytes: usize) -> Result<usize, SharedGpuError> {
    Ok(bytes.next_multiple_of(gpu.part_granularity()?))
}

fn map(
    processor: &Processor,
    made: Made,
    bytes: usize,
    ranks: usize,
    head: usize,
) -> Result<Shared, SharedGpuError> {
    let len = (8 * Word::count(ranks)).next_multiple_of(4096);
    let what = "the directory of a shared GPU";
    let is_short = sealed_len(made.words.as_fd(), what)? < len as u64
        || sealed_len(made.staging.as_fd(), "a staging buffer")? < bytes as u64;
    if is_short {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into());
    }
    let words = Mapping::new(made.words.as_fd(), 0, len, true)?;
    // SAFETY: the mapping lives as long as the registration, which is declared before it; only atomics are used there.
    let words_mapped = unsafe { processor.map_host(words.base(), len) }?;
    let staging = Mapping::new(made.staging.as_fd(), 0, bytes, true)?;
    // SAFETY: as above; what is there is copied by addresses only.
    let staging_mapped = unsafe { processor.map_host(staging.base(), bytes) }?;
    let buffer = match (processor, made.part) {
        (Processor::Gpu(_), Some(part)) => Buffer::Gpu(part.window(0, &[None], bytes)?),
        (Processor::Gpu(gpu), None) => {
            let stride = stride(gpu.device(), bytes)?;
            Buffer::Gpu(GpuWindow::received(gpu.device(), made.buffer.as_fd(), stride, bytes)?)
        }
        _ => {
            if sealed_len(made.buffer.as_fd(), "a shared buffer")? < bytes as u64 {
                return Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into());
            }
            Buffer::Host(Mapping::new(made.buffer.as_fd(), 0, bytes, true)?)
        }
    };
    Ok(Shared { words_mapped, staging_mapped, words, staging, buffer, head })
}

/// Fails unless all ranks have the same settings, and the same GPU where it is to be one. Gives the tag of this set-up's descriptors.
fn same(
    circle: &Circle<'_>,
    processor: &Processor,
    config: &Config,
    is_one_gpu: bool,
) -> Result<Result<u64, SharedGpuError>, SharedGpuError> {
    static TAGS: AtomicU64 = AtomicU64::new(1);
    let device = match processor {
        Processor::Gpu(gpu) => {
            let how = if Mps::find().is_on() { "with" } else { "without" };
            let one = if is_one_gpu { gpu.device().info().uuid.as_str() } else { "of its own" };
            format!("GPU {one} {how} MPS")
        }
        _ => "the CPU executor".to_owned(),
    };
    let Config { buffer, directory, algorithm, table, .. } = config;
    let algorithm = match algorithm {
        Some(algorithm) => format!("{algorithm:?}"),
        None if table.is_empty() => "as built in".to_owned(),
        // The same program gives the same number.
        None => format!("of table {:x}", BuildHasherDefault::<DefaultHasher>::new().hash_one(table)),
    };
    let tag = TAGS.fetch_add(1, Ordering::Relaxed) | 1 << 40;
    let mine = format!(
        "{tag}\n{device}, a buffer of {buffer} bytes, the directory {directory} and the algorithm {algorithm}"
    );
    let all = circle.exchange(mine.as_bytes())?;
    let all: Vec<String> = all.iter().map(|said| String::from_utf8_lossy(said).into_owned()).collect();
    let split = |said: &str| said.split_once('\n').map(|(tag, rest)| (tag.to_owned(), rest.to_owned()));
    let (first, ours) = all.first().and_then(|said| split(said)).unwrap_or_default();
    for (rank, said) in all.iter().enumerate() {
        let theirs = split(said).unwrap_or_default().1;
        if theirs != ours {
            return Ok(Err(SharedGpuError::Unequal { rank: circle.members()[rank] as usize, theirs, ours }));
        }
    }
    Ok(Ok(first.parse().unwrap_or_default()))
}

/// Rank 0's descriptors, to all.
fn pass_on(circle: &Circle<'_>, tag: u64, made: Option<Made>) -> Result<Made, SharedGpuError> {
    if let Some(made) = made {
        circle.send(tag, &[made.words.as_fd(), made.staging.as_fd(), made.buffer.as_fd()])?;
        return Ok(made);
    }
    let Ok([words, staging, buffer]) = <[OwnedFd; 3]>::try_from(circle.receive(tag)?) else {
        return Err(SharedGpuError::Peer { rank: 0, what: "it runs another version".to_owned() });
    };
    Ok(Made { words, staging, buffer, part: None })
}
