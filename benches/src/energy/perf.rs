//! RAPL through perf's `power` PMU, for machines without powercap.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use super::Class;
use super::counter::{Component, Counter, Found};

/// `struct perf_event_attr`, as far as its first version goes (linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// An event of one package, and the joules of one count.
struct Event {
    file: OwnedFd,
    scale: f64,
}

impl Counter for Event {
    fn joules(&mut self) -> Result<f64, String> {
        let mut count = [0; 8];
        nix::unistd::read(&self.file, &mut count)
            .map_err(|error| format!("reading perf's power: {error}"))?;
        Ok(u64::from_ne_bytes(count) as f64 * self.scale)
    }
}

/// What an event of the PMU is called in sysfs, and what it counts.
const EVENTS: [(&str, Class, &str); 2] =
    [("energy-pkg", Class::Cpu, "package"), ("energy-ram", Class::Dram, "dram")];

/// Packages and their memory, by the PMU in the sysfs at `sysfs` (usually `/sys`).
pub(super) fn power(sysfs: &Path) -> Found {
    let pmu = sysfs.join("bus/event_source/devices/power");
    let text = |file: &str| fs::read_to_string(pmu.join(file)).map(|text| text.trim().to_owned());
    let mut found = Found::default();
    let (Ok(kind), Ok(processors)) = (text("type"), text("cpumask")) else { return found };
    for (event, class, name) in EVENTS {
        let Ok(config) = text(&format!("events/{event}")) else { continue };
        let scale = text(&format!("events/{event}.scale")).unwrap_or_default();
        let numbers = (kind.parse().ok(), hexadecimal(&config), scale.parse::<f64>().ok());
        let (Some(kind), Some(config), Some(scale)) = numbers else {
            found.extend(Found::missing(name, format!("{} says `{config}`, scale `{scale}`", pmu.display())));
            continue;
        };
        for (number, processor) in list(&processors).into_iter().enumerate() {
            let name = format!("{name} {number}");
            found.extend(match open(kind, config, processor) {
                Ok(file) => {
                    let source = format!("RAPL, perf's {event} on processor {processor}");
                    let counter = Box::new(Event { file, scale });
                    let component = Component { class, name, source, counter, wraps_at: None };
                    Found { components: vec![component], ..Found::default() }
                }
                Err(error) => Found::missing(&name, refusal(event, &error)),
            });
        }
    }
    found
}

fn refusal(event: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "perf's {event} counts for all processes: run as root, with CAP_PERFMON, or set kernel.perf_event_paranoid to 0"
        ),
        _ => format!("perf's {event}: {error}"),
    }
}

/// `event=0x02`.
fn hexadecimal(config: &str) -> Option<u64> {
    u64::from_str_radix(config.strip_prefix("event=0x")?, 16).ok()
}

/// Processors of a list as sysfs writes it: `0,32`, `0-1`.
fn list(text: &str) -> Vec<i32> {
    let number = |text: &str| text.parse::<i32>().ok();
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|one| one..=one),
    };
    text.split(',').filter_map(range).flatten().collect()
}

fn open(kind: u32, config: u64, processor: i32) -> io::Result<OwnedFd> {
    let attributes =
        Attributes { kind, size: size_of::<Attributes>() as u32, config, ..Attributes::default() };
    let (everybody, no_group, flags) = (-1, -1, CLOSE_ON_EXEC);
    // SAFETY: the kernel reads `size` bytes of the structure, which has them.
    let file = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, everybody, processor, no_group, flags)
    };
    match i32::try_from(file) {
        // SAFETY: the call returned a descriptor that nobody else has.
        Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_cannot_be_opened_are_missing_and_say_why() {
        let sysfs = tempfile::tempdir().expect("a folder");
        assert!(power(sysfs.path()).missing.is_empty(), "no PMU, nothing to say");
        let pmu = sysfs.path().join("bus/event_source/devices/power");
        fs::create_dir_all(pmu.join("events")).expect("a folder");
        // No PMU of any machine has this number.
        for (file, text) in [
            ("type", "2147483000\n"),
            ("cpumask", "0,2-3\n"),
            ("events/energy-pkg", "event=0x02\n"),
            ("events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
            ("events/energy-ram", "event=rubbish\n"),
        ] {
            fs::write(pmu.join(file), text).expect("a file");
        }
        let found = power(sysfs.path());
        assert!(found.components.is_empty());
        let names: Vec<&str> = found.missing.iter().map(|missing| &*missing.component).collect();
        assert_eq!(names, ["package 0", "package 1", "package 2", "dram"]);
        assert!(found.missing[0].reason.contains("energy-pkg"), "{:?}", found.missing);
        assert!(found.missing[3].reason.contains("rubbish"), "{:?}", found.missing);
    }

    #[test]
    fn rights_that_are_missing_are_named() {
        assert!(refusal("energy-pkg", &ErrorKind::PermissionDenied.into()).contains("CAP_PERFMON"));
    }

    #[test]
    fn the_structure_is_the_kernel_s_first() {
        assert_eq!(size_of::<Attributes>(), 64);
        assert_eq!((hexadecimal("event=0x1f"), hexadecimal("umask=1")), (Some(31), None));
        assert_eq!(list("0,4-5,x"), [0, 4, 5]);
    }
}
