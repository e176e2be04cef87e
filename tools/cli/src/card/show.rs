//! What `ggas card show` prints.

use super::apply::{read, state};
use crate::failure::Failure;
use extoll_abi::regs::*;
use ggas_device::hw;
use std::fmt::Write;

/// The sources of system notifications, by number (spec 8.4).
pub const TRIGGERS: [&str; 29] = [
    "HT3",
    "ECC correctable",
    "ECC fatal",
    "PCIe link",
    "bridge",
    "bridge",
    "PCIe core",
    "timer",
    "GPIO",
    "HTAX discard",
    "HTAX assert",
    "SMFU store empty",
    "SMFU timeout",
    "xbar in",
    "xbar out",
    "barrier",
    "global interrupt",
    "link port",
    "MAC",
    "MAC",
    "MAC",
    "BQ error",
    "WCB error",
    "VELO notification",
    "VELO error",
    "RMA notification",
    "RMA history",
    "RMA error",
    "network state",
];
/// Entries of a multicast table (spec 8.2).
const GROUPS: u64 = 64;

/// The card in words.
pub fn text(device: &dyn ggas_device::Device) -> Result<String, Failure> {
    let info = read(device, EXTOLL_RF_INFO_NODE)?;
    let state = state(device)?;
    let name = ["unconfigured", "configured", "stopped"].get(state as usize).unwrap_or(&"unknown");
    let mut text = format!(
        "node           {}\nguid           {:#x}\nnetwork state  {state} ({name})\nlinks\n",
        INFO_NODE.get(info),
        INFO_GUID.get(info)
    );
    for link in 0..EXTOLL_RF_LINKS {
        let at = EXTOLL_RF_LINK_STRIDE * link;
        let status = read(device, EXTOLL_RF_LINK_STATUS + at)?;
        let other = LINK_REMOTE_NODE.get(read(device, EXTOLL_RF_LINK_IDS + at)?);
        let _ = match (LINK_ENABLE.is_set(status), LINK_READY.is_set(status)) {
            (_, true) => writeln!(text, "  lp{link}          ready, to node {other}"),
            (true, false) => writeln!(text, "  lp{link}          enabled, not ready"),
            (false, false) => writeln!(text, "  lp{link}          off"),
        };
    }
    let mut groups = Vec::new();
    for group in 0..GROUPS {
        let entry = read(device, EXTOLL_RF_XBAR_INPORT + EXTOLL_RF_XBAR_MULTICAST + 8 * group)?;
        if entry != 0 {
            groups.push(format!("{group} ({entry:#x})"));
        }
    }
    let list = if groups.is_empty() { "none".to_owned() } else { groups.join(", ") };
    let _ = writeln!(text, "multicast groups of inport 0 that are not 0\n  {list}");
    triggers(&mut text, read(device, EXTOLL_RF_SNQ_TRIGGER_ENABLE)?, &handled());
    Ok(text)
}

fn triggers(text: &mut String, enabled: u64, handled: &[(usize, u64)]) {
    text.push_str("system notifications\n");
    for (i, name) in TRIGGERS.iter().enumerate() {
        let on = if enabled >> i & 1 == 1 { "on" } else { "off" };
        let _ = match handled.iter().find(|(trigger, _)| *trigger == i) {
            Some((_, count)) => writeln!(text, "  {i:<2} {name:<18} {on:<3} {count} handled"),
            None => writeln!(text, "  {i:<2} {name:<18} {on}"),
        };
    }
}

/// What the driver has handled, where there is one.
fn handled() -> Vec<(usize, u64)> {
    let Some(path) = hw::expected() else { return Vec::new() };
    let card = path.rsplit('/').next().unwrap_or_default();
    let text = std::fs::read_to_string(format!("/sys/class/extoll/{card}/notifications")).unwrap_or_default();
    let line = |line: &str| {
        let (trigger, count) = line.split_once(' ')?;
        Some((trigger.parse().ok()?, count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}
