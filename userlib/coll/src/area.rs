//! Where a group's flags and buffers lie: `kernels/include/ggas/impl/coll_area.h`.

use extoll_abi::layout::GGAS_CHANNELS;

use crate::{GroupConfig, GroupError};

/// A flag that is polled lies in a line of its own.
const LINE: usize = 256;

/// Blocks of a grid that may work on their own.
const CHANNELS: usize = GGAS_CHANNELS as usize;

/// Sizes of one node's area; all nodes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Bytes that are zero at first: flags and packets, at the start.
    pub zeroed: usize,
    /// All bytes.
    pub bytes: usize,
}

impl Area {
    pub fn new(nodes: usize, config: &GroupConfig) -> Result<Self, GroupError> {
        let &GroupConfig { slot_bytes, packed_bytes, packed_channels, .. } = config;
        if slot_bytes == 0 || !slot_bytes.is_multiple_of(LINE) {
            return Err(GroupError::SlotBytes(slot_bytes));
        }
        if packed_bytes == 0 || !packed_bytes.is_multiple_of(LINE) || u32::try_from(packed_bytes).is_err() {
            return Err(GroupError::PackedBytes(packed_bytes));
        }
        if packed_channels == 0 || packed_channels > CHANNELS {
            return Err(GroupError::PackedChannels { channels: packed_channels, most: CHANNELS });
        }
        let too_large = GroupError::TooLarge { nodes, slot_bytes };
        let sum = || {
            // The check-out flag; check-in, arrival and result flags of each node, and those of each channel.
            let flags = nodes.checked_mul(8)?.checked_next_multiple_of(LINE)?;
            let flags = LINE.checked_add(flags.checked_mul(3 + CHANNELS)?)?;
            // Two halves of packets of each node and channel.
            let packets = packed_bytes.checked_mul(nodes)?.checked_mul(2 * packed_channels)?;
            // Staging in two halves, and results: a slot of each node.
            let slots = slot_bytes.checked_mul(nodes)?.checked_mul(3)?;
            let zeroed = flags.checked_add(packets)?;
            Some(Self { zeroed, bytes: zeroed.checked_add(slots)? })
        };
        sum().ok_or(too_large)
    }
}

/// Bytes of all packet buffers of a group together, and of all staging, unless the caller wants more. Every node has
/// buffers of every other, so without a bound 256 nodes would take 64 GiB.
const TOGETHER: usize = 1 << 30;

/// `config` with buffers small enough for so many nodes: first of fewer bytes, then of fewer channels, since a block
/// without buffers makes no collectives on its own.
pub(crate) fn shrunk(nodes: usize, config: GroupConfig) -> GroupConfig {
    let pair = TOGETHER / nodes.max(1).saturating_mul(nodes.max(1));
    let lines = |bytes: usize, most: usize| (bytes.min(most) / LINE * LINE).max(LINE);
    let packed_bytes = lines(pair / (2 * config.packed_channels), config.packed_bytes);
    let packed_channels = (pair / (2 * packed_bytes)).clamp(1, config.packed_channels);
    let slot_bytes = lines(pair / 3, config.slot_bytes);
    GroupConfig { packed_bytes, packed_channels, slot_bytes, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_for_many_nodes_shrink_and_those_for_few_do_not() {
        let usual = GroupConfig::default();
        for nodes in 1..=32 {
            assert_eq!(GroupConfig::for_nodes(nodes), usual, "{nodes} nodes");
        }
        for nodes in 33..=1024 {
            let config = GroupConfig::for_nodes(nodes);
            let all = nodes * Area::new(nodes, &config).expect("it fits").bytes;
            let flags = nodes * (LINE + (3 + CHANNELS) * (8 * nodes).next_multiple_of(LINE));
            assert!(all - flags <= 2 * TOGETHER, "{nodes} nodes: {all} bytes with {config:?}");
            assert!(
                nodes > 256 || config.packed_channels == usual.packed_channels,
                "{nodes} nodes: {config:?}"
            );
        }
        // Those that 256 nodes had: 64 GiB of packets, 12 GiB of staging.
        let all = 256 * Area::new(256, &GroupConfig::for_nodes(256)).expect("it fits").bytes;
        assert!(all < 5 << 29, "{all} bytes");
        // As small as can be, and no less.
        let least = GroupConfig::for_nodes(usize::MAX);
        assert_eq!((least.packed_bytes, least.packed_channels, least.slot_bytes), (LINE, 1, LINE));
    }

    fn area(nodes: usize, slot_bytes: usize) -> Result<Area, GroupError> {
        let config =
            GroupConfig { slot_bytes, packed_bytes: 512, packed_channels: 3, ..GroupConfig::default() };
        Area::new(nodes, &config)
    }

    #[test]
    fn the_sum_is_that_of_the_kernels() {
        let zeroed = (1 + 3 + 256) * 256 + 2 * 3 * 2 * 512;
        assert_eq!(area(2, 256).expect("small"), Area { zeroed, bytes: zeroed + 6 * 256 });
        let zeroed = 256 + (3 + 256) * 512 + 2 * 3 * 33 * 512;
        assert_eq!(area(33, 4096).expect("small"), Area { zeroed, bytes: zeroed + 3 * 33 * 4096 });
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(matches!(area(2, 0), Err(GroupError::SlotBytes(0))));
        assert!(matches!(area(2, 100), Err(GroupError::SlotBytes(100))));
        assert!(matches!(area(2, usize::MAX & !255), Err(GroupError::TooLarge { .. })));
        assert!(matches!(area(usize::MAX, 256), Err(GroupError::TooLarge { .. })));
        let refused = |config: GroupConfig| Area::new(2, &config).expect_err("impossible");
        let default = GroupConfig::default;
        assert!(matches!(
            refused(GroupConfig { packed_bytes: 100, ..default() }),
            GroupError::PackedBytes(100)
        ));
        assert!(matches!(
            refused(GroupConfig { packed_bytes: 1 << 32, ..default() }),
            GroupError::PackedBytes(_)
        ));
        for packed_channels in [0, CHANNELS + 1] {
            let error = refused(GroupConfig { packed_channels, ..default() });
            assert!(matches!(error, GroupError::PackedChannels { .. }), "{error}");
        }
    }
}
