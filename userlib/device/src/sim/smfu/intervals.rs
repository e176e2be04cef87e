//! The intervals of a node's unit, which windows share: those of one that a process of the node has open already, or free ones. Windows
//! are stacked in the unit's range.

use std::collections::HashSet;

use extoll_abi::regs;
use extoll_abi::smfu::{Interval, VALID};
use extoll_sim::Nic;
use extoll_sim::shared::SmfuTurn;
use extoll_sim::smfu::{Label, SMFU_MASK_PLACE, SMFU_PLACES};

use super::opened::Opened;
use super::{BUS_ADDRESS, FIRST_INTERVAL, FIRST_PART, WINDOW_BYTES, has_mask};
use crate::{PAGE, SmfuMap};

/// The unit of a node, for who may set it up.
pub(super) struct Unit<'a> {
    pub(super) nic: &'a Nic,
    /// Where other processes may be on the node.
    pub(super) turn: Option<&'a SmfuTurn<'a>>,
}

/// Where a window is.
pub(super) struct Layout {
    /// The interval of each part; one place for all where address bits name the nodes.
    places: Vec<usize>,
    /// Bus address of the first part.
    start: u64,
    /// Nobody of this node has the window yet.
    is_new: bool,
}

impl Layout {
    /// Where a part is.
    pub(super) fn place(&self, part: usize) -> usize {
        self.places.get(part).copied().unwrap_or(SMFU_MASK_PLACE)
    }

    /// Offset of the first part in the unit's range.
    pub(super) fn offset(&self) -> u64 {
        self.start - BUS_ADDRESS
    }
}

impl Unit<'_> {
    /// Frees what is of windows that no process of this node has any more, whatever became of those that had them.
    pub(super) fn sweep(&self, opened: &Opened) {
        let is_held = |place: usize| self.turn.is_some_and(|turn| turn.is_held(place));
        let held = (0..SMFU_PLACES).filter(|place| is_held(*place));
        let held: HashSet<u64> = held.filter_map(|place| self.window(place)).collect();
        let lives = |window: u64| opened.has(window) || held.contains(&window);
        for place in FIRST_INTERVAL..SMFU_PLACES {
            if !self.window(place).is_some_and(lives) {
                self.clear(place);
            }
        }
        if (0..SMFU_PLACES).all(|place| self.window(place).is_none()) {
            self.nic.reg_write(regs::EXTOLL_RF_SMFU_STATUS_CONTROL, 0);
            self.nic.reg_write(regs::EXTOLL_RF_SMFU_T_START_ADDR, 0);
        }
    }

    /// Nothing is at a place.
    fn clear(&self, place: usize) {
        let is_left = self.turn.is_some_and(|turn| turn.is_left(place));
        if place == SMFU_MASK_PLACE {
            for register in [regs::EXTOLL_RF_SMFU_ADDR_MASK, regs::EXTOLL_RF_SMFU_N_NODE_OFFSET] {
                self.nic.reg_write(register, 0);
            }
        } else {
            let base = regs::smfu_target_base(place as u32);
            if is_left && self.nic.reg_read(base) == 0 {
                // One that died had the default base.
                self.nic.reg_write(regs::EXTOLL_RF_SMFU_T_START_ADDR, 0);
            }
            self.nic.reg_write(regs::smfu_control(place as u32), 0);
            self.nic.reg_write(base, 0);
        }
        self.nic.set_smfu_label(place, None);
        if let Some(turn) = self.turn {
            turn.forget_holder(place);
        }
    }

    /// Where a window is, or can be.
    pub(super) fn layout(
        &self,
        map: &SmfuMap,
        seats: &[u8],
        number: u64,
        opened: &Opened,
    ) -> Result<Layout, String> {
        match self.find(number) {
            None => self.room_for(map, opened),
            Some(found) if self.is_as(&found, map, seats, number) => Ok(found),
            Some(_) => Err("other processes of this node have the same window with other parts".to_owned()),
        }
    }

    fn find(&self, number: u64) -> Option<Layout> {
        if self.window(SMFU_MASK_PLACE) == Some(number) {
            return Some(Layout { places: Vec::new(), start: FIRST_PART, is_new: false });
        }
        let mut places: Vec<usize> =
            intervals().filter(|place| self.window(*place) == Some(number)).collect();
        places.sort_unstable_by_key(|place| self.interval(*place).start);
        let start = self.interval(*places.first()?).start;
        Some(Layout { places, start, is_new: false })
    }

    fn is_as(&self, found: &Layout, map: &SmfuMap, seats: &[u8], number: u64) -> bool {
        let is_as = |(part, place): (usize, &usize)| {
            let label = Label { window: number, seat: seats[part] };
            self.interval(*place) == interval(map, part, found.start)
                && self.nic.smfu_label(*place) == Some(label)
        };
        let parts = if has_mask(map) { 0 } else { map.nodes.len() };
        found.places.len() == parts && found.places.iter().enumerate().all(is_as)
    }

    fn room_for(&self, map: &SmfuMap, opened: &Opened) -> Result<Layout, String> {
        if let Some(window) = self.window(SMFU_MASK_PLACE) {
            let parts = opened.parts(window).map_or_else(|| "more".to_owned(), |parts| parts.to_string());
            return Err(format!(
                "a window of {parts} parts, more than there are intervals, has the unit to itself; drop that one first"
            ));
        }
        let parts = map.nodes.len();
        let (free, used): (Vec<usize>, Vec<usize>) = intervals().partition(|place| !self.is_used(*place));
        let windows: HashSet<u64> = used.iter().filter_map(|place| self.window(*place)).collect();
        let others = format!("{} parts of {} other windows are in use here", used.len(), windows.len());
        if has_mask(map) && !used.is_empty() {
            return Err(format!(
                "a window of {parts} parts, more than there are intervals, has the unit to itself, and {others}; drop those first"
            ));
        }
        if parts > free.len() && !has_mask(map) {
            let most = free.len() + used.len();
            return Err(format!(
                "{parts} parts; it has intervals for {most}, and {others}; drop windows that are not needed any more, or let this one                  have at most {} parts",
                free.len()
            ));
        }
        let bytes = map.stride * parts as u64;
        let Some(start) = self.start_of(&used, bytes) else {
            let taken: u64 = used.iter().map(|place| self.bytes(*place)).sum();
            return Err(format!(
                "{parts} parts of {} bytes, of which {taken} of its {WINDOW_BYTES} leave no room: {others}; drop windows that are not                  needed any more, or make them smaller",
                map.stride
            ));
        };
        let places = if has_mask(map) { Vec::new() } else { free[..parts].to_vec() };
        Ok(Layout { places, start, is_new: true })
    }

    /// The first range of bus addresses that is free.
    fn start_of(&self, used: &[usize], bytes: u64) -> Option<u64> {
        let mut taken: Vec<(u64, u64)> =
            used.iter().map(|place| (self.interval(*place).start, self.bytes(*place))).collect();
        taken.sort_unstable();
        let mut start = FIRST_PART;
        for (at, len) in taken {
            if at.saturating_sub(start) >= bytes {
                break;
            }
            start = start.max(at + len);
        }
        (start + bytes <= FIRST_PART + WINDOW_BYTES).then_some(start)
    }

    /// Shows the unit the window, unless another process of this node has done so.
    pub(super) fn show(&self, map: &SmfuMap, seats: &[u8], number: u64, layout: &Layout) {
        if !layout.is_new {
            return;
        }
        let write = |register, value| self.nic.reg_write(register, value);
        write(regs::EXTOLL_RF_SMFU_O_START_ADDR, BUS_ADDRESS);
        write(regs::EXTOLL_RF_SMFU_TRAFFIC_CLASS, regs::EXTOLL_SMFU_TC_DEFAULT);
        if has_mask(map) {
            // The parts begin behind the range of remote registers, so the first part's bits are not 0.
            let first = (regs::EXTOLL_SMFU_RRA_BYTES / map.stride) as u16;
            let mask = (regs::EXTOLL_SMFU_WINDOW_BYTES - 1) & !(map.stride - 1);
            self.nic.set_smfu_label(SMFU_MASK_PLACE, Some(Label { window: number, seat: 0 }));
            write(regs::EXTOLL_RF_SMFU_N_NODE_OFFSET, map.nodes[0].wrapping_sub(first).into());
            write(regs::EXTOLL_RF_SMFU_ADDR_MASK, mask);
            return;
        }
        for (part, place) in layout.places.iter().enumerate() {
            let (interval, index) = (interval(map, part, layout.start), *place as u32);
            self.nic.set_smfu_label(*place, Some(Label { window: number, seat: seats[part] }));
            write(regs::smfu_start(index), interval.start);
            write(regs::smfu_end(index), interval.end);
            // Accesses of other windows may be looking for theirs: this one is valid when all else is there.
            write(regs::smfu_control(index), interval.control);
        }
    }

    fn window(&self, place: usize) -> Option<u64> {
        self.nic.smfu_label(place).map(|label| label.window)
    }

    fn is_used(&self, place: usize) -> bool {
        VALID.is_set(self.interval(place).control) || self.window(place).is_some()
    }

    fn interval(&self, place: usize) -> Interval {
        let [control, start, end] = [regs::smfu_control, regs::smfu_start, regs::smfu_end]
            .map(|register| self.nic.reg_read(register(place as u32)));
        Interval { control, start, end }
    }

    fn bytes(&self, place: usize) -> u64 {
        let Interval { start, end, .. } = self.interval(place);
        (end + PAGE as u64).saturating_sub(start)
    }
}

fn intervals() -> impl Iterator<Item = usize> {
    FIRST_INTERVAL..regs::EXTOLL_SMFU_INTERVALS as usize
}

/// What registers say of a part of a window that begins at a bus address (thesis 6.4: evenly distributed). Bounds count by pages.
fn interval(map: &SmfuMap, part: usize, start: u64) -> Interval {
    let interval = Interval::new(map.nodes[part], start + part as u64 * map.stride, map.stride);
    Interval { end: interval.end & regs::EXTOLL_SMFU_ADDRESS_MASK, ..interval }
}
