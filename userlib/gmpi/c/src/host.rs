//! GMPI of a process, behind a `gmpi_t *`: joining, closing, looking what kernels left.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ggas::Job;
use ggas::kernels::{KernelMem, Processor};
use ggas_gmpi::{Class, Config, Gmpi, Joined, Placement, Polling};

use crate::error::{Failure, code};
use crate::ffi::{export, get, put, put_text};

/// What a `gmpi_t *` stands for. The pointer is a number that is never used again, so that one that was closed is known.
pub(crate) struct Host {
    // GMPI goes before what it uses.
    pub gmpi: Gmpi,
    /// Attached memory, by address.
    pub memory: Mutex<BTreeMap<u64, Arc<KernelMem>>>,
    pub processor: Processor,
    pub timeout: Duration,
    pub job: Option<Job>,
}

/// All of this process, by the address that C has.
struct Hosts {
    all: BTreeMap<usize, Arc<Host>>,
    next: usize,
}

static HOSTS: Mutex<Hosts> = Mutex::new(Hosts { all: BTreeMap::new(), next: FIRST });
/// No address of anything, and aligned as one.
const FIRST: usize = 16;

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `gmpi_t`.
#[repr(C)]
pub struct CHost {
    _private: [u8; 0],
}

pub(crate) fn host(gmpi: *mut CHost) -> Result<Arc<Host>, Failure> {
    let found = locked(&HOSTS).all.get(&(gmpi as usize)).cloned();
    found.ok_or_else(|| {
        Failure::new(Class::ARG, "no such gmpi_t: gmpi_join makes one, and gmpi_close ends it")
    })
}

/// `gmpi_config_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CConfig {
    ports: u32,
    single: u32,
    entries: u32,
    placement: u32,
    polling: u32,
    timeout_ms: u32,
    grace_ms: u32,
    reserved: u32,
}

const PLACEMENTS: [Placement; 4] =
    [Placement::Mapped, Placement::Tagged, Placement::Copied, Placement::Gdrcopy];
const POLLINGS: [Polling; 3] = [Polling::Spin, Polling::Yield, Polling::Sleep];

fn number<T: PartialEq>(all: &[T], of: &T) -> u32 {
    all.iter().position(|one| one == of).unwrap_or(0) as u32
}

impl From<&Config> for CConfig {
    fn from(config: &Config) -> CConfig {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        CConfig {
            ports: config.ports,
            single: config.single.into(),
            entries: config.entries,
            placement: number(&PLACEMENTS, &config.placement),
            polling: number(&POLLINGS, &config.polling),
            timeout_ms: ms(config.timeout),
            grace_ms: ms(config.grace),
            reserved: 0,
        }
    }
}

impl CConfig {
    fn read(self) -> Result<Config, Failure> {
        let unknown = |what: &str, number: u32| {
            Failure::new(Class::ARG, format!("there is no {what} {number}: gmpi.h lists them"))
        };
        let placement = PLACEMENTS.get(self.placement as usize);
        let polling = POLLINGS.get(self.polling as usize);
        Ok(Config {
            ports: self.ports,
            single: self.single != 0,
            entries: self.entries,
            placement: *placement.ok_or_else(|| unknown("placement", self.placement))?,
            polling: *polling.ok_or_else(|| unknown("polling", self.polling))?,
            timeout: Duration::from_millis(self.timeout_ms.into()),
            grace: Duration::from_millis(self.grace_ms.into()),
            ..Config::default()
        })
    }
}

export! {
    fn gmpi_config_init(config: *mut CConfig) {
        put(config, CConfig::from(&Config::default()))
    }

    fn gmpi_join(config: *const CConfig, gmpi: *mut *mut CHost) {
        get(gmpi)?;
        let config = if config.is_null() { Config::default() } else { get(config)?.read()? };
        let Joined { gmpi: joined, processor, job } = Gmpi::join(&config)?;
        let (memory, timeout) = (Mutex::default(), config.timeout);
        let host = Arc::new(Host { gmpi: joined, memory, processor, timeout, job });
        let mut hosts = locked(&HOSTS);
        let address = hosts.next;
        hosts.next += FIRST;
        hosts.all.insert(address, host);
        put(gmpi, address as *mut CHost)
    }

    fn gmpi_close(gmpi: *mut *mut CHost) {
        let address = get(gmpi)?;
        let known = host(address)?;
        // Who else has it is in a call.
        let mut hosts = locked(&HOSTS);
        if Arc::strong_count(&known) > 2 {
            return Err(Failure::new(Class::PENDING, "another thread is in a call with it: wait for that first"));
        }
        hosts.all.remove(&(address as usize));
        drop(hosts);
        put(gmpi, std::ptr::null_mut())?;
        match Arc::try_unwrap(known) {
            Ok(Host { gmpi, memory, processor, timeout: _, job }) => {
                let closed = gmpi.close();
                drop((memory, processor, job));
                Ok(closed?)
            }
            // It was taken from the table, where nobody finds it since.
            Err(_) => Err(Failure::new(Class::INTERN, "it is in use still")),
        }
    }

    fn gmpi_check(gmpi: *mut CHost) {
        Ok(host(gmpi)?.gmpi.check()?)
    }

    fn gmpi_gpu(gmpi: *mut CHost, ordinal: *mut c_int) {
        put(ordinal, match &host(gmpi)?.processor {
            Processor::Gpu(gpu) => gpu.device().ordinal() as c_int,
            _ => -1,
        })
    }

    fn gmpi_carrier(gmpi: *mut CHost, name: *mut c_char, room: usize) {
        put_text(name.cast(), room, host(gmpi)?.gmpi.carrier())
    }
}

/// For kernels; null: no such `gmpi_t`.
#[unsafe(no_mangle)]
pub extern "C" fn gmpi_address(gmpi: *mut CHost) -> *mut u8 {
    match host(gmpi) {
        Ok(host) => host.gmpi.address() as *mut u8,
        Err(failure) => {
            code(Err(failure));
            std::ptr::null_mut()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_go_to_c_and_back() {
        let c = CConfig::from(&Config { ports: 7, polling: Polling::Yield, ..Config::default() });
        assert_eq!(size_of::<CConfig>(), 32);
        let back = c.read().unwrap();
        assert_eq!((back.ports, back.polling, back.placement), (7, Polling::Yield, Placement::Tagged));
        assert_eq!((back.timeout, back.grace), (Duration::from_secs(30), Duration::from_secs(5)));
        assert!(CConfig { placement: 4, ..c }.read().is_err() && CConfig { polling: 3, ..c }.read().is_err());
    }
}
