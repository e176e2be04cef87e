//! `gaspi_config_t`.

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ggas_gaspi::{Config, GaspiError, PASSIVE_MAX, QUEUES_MAX, SEGMENTS_MAX, TRANSFER_MAX, Timeout};

use crate::ffi::{export, put, refuse};
use crate::process;

/// `struct gaspi_config`; its device's parameters have no effect here, but are checked and kept.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CConfig {
    pub(crate) logger: c_uint,
    sn_port: c_uint,
    net_info: c_uint,
    user_net: c_uint,
    sn_persistent: c_int,
    sn_timeout: c_ulong,
    dev_config: CDevice,
    network: c_uint,
    queue_size_max: c_uint,
    queue_num: c_uint,
    group_max: c_uint,
    segment_max: c_uint,
    transfer_size_max: c_ulong,
    notification_num: c_uint,
    passive_queue_size_max: c_uint,
    passive_transfer_size_max: c_uint,
    allreduce_buf_size: c_ulong,
    allreduce_elem_max: c_uint,
    rw_list_elem_max: c_uint,
    build_infrastructure: c_uint,
    user_defined: *mut c_void,
}

// SAFETY: the pointer is the program's, and nobody here follows it.
unsafe impl Send for CConfig {}

/// `struct gaspi_dev_config`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CDevice {
    network_type: c_uint,
    netdev_id: c_int,
    mtu: c_uint,
    port_check: c_uint,
    tcp_port: c_uint,
    use_shm: c_int,
    provider_info: c_int,
    progress_auto: c_int,
}

const _: () = assert!(size_of::<CConfig>() == 144 && std::mem::offset_of!(CConfig, network) == 64);

/// GASPI_OFI, the last network.
const NETWORKS: c_uint = 5;
/// Sizes of packets of devices that have a choice; 0: theirs.
const MTUS: [c_uint; 4] = [0, 1024, 2048, 4096];
/// The only network that sets `user_net`.
const ROCE: c_uint = 1;
/// GASPI_TOPOLOGY_STATIC.
const STATIC: c_uint = 1;

const DEFAULT: CConfig = CConfig {
    logger: 1,
    sn_port: 12121,
    net_info: 0,
    user_net: 0,
    sn_persistent: 1,
    sn_timeout: 30_000,
    dev_config: CDevice {
        network_type: 0,
        netdev_id: -1,
        mtu: 0,
        port_check: 1,
        tcp_port: 0,
        use_shm: 1,
        provider_info: 0,
        progress_auto: 1,
    },
    network: 0,
    queue_size_max: 1024,
    queue_num: 8,
    group_max: 32,
    segment_max: 255,
    transfer_size_max: TRANSFER_MAX,
    notification_num: 65536,
    passive_queue_size_max: 1024,
    passive_transfer_size_max: PASSIVE_MAX as c_uint,
    allreduce_buf_size: 2040,
    allreduce_elem_max: 255,
    rw_list_elem_max: 255,
    build_infrastructure: STATIC,
    user_defined: std::ptr::null_mut(),
};

static CONFIG: Mutex<CConfig> = Mutex::new(DEFAULT);

pub(crate) fn current() -> MutexGuard<'static, CConfig> {
    CONFIG.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CConfig {
    /// What the library needs of it.
    pub(crate) fn limits(&self) -> Config {
        Config {
            queue_size_max: self.queue_size_max,
            queue_num: self.queue_num,
            group_max: self.group_max,
            segment_max: self.segment_max,
            transfer_size_max: self.transfer_size_max,
            notification_num: self.notification_num,
            passive_transfer_size_max: self.passive_transfer_size_max.into(),
            allreduce_elem_max: self.allreduce_elem_max,
            rw_list_elem_max: self.rw_list_elem_max,
            failure_timeout: Timeout::from_millis(self.sn_timeout).duration(),
        }
    }

    /// Takes the fields of `new` in their order, up to the first that is out of range, which the error's text names.
    fn set(&mut self, new: &CConfig) -> Result<(), String> {
        let device = &new.dev_config;
        self.logger = new.logger;
        within("sn_port", new.sn_port, 1024..=65536)?;
        self.sn_port = new.sn_port;
        self.net_info = new.net_info;
        self.sn_persistent = new.sn_persistent;
        self.sn_timeout = new.sn_timeout;
        within("dev_config.params.ib.netdev_id", device.netdev_id, c_int::MIN..=4)?;
        self.dev_config.netdev_id = device.netdev_id;
        if !MTUS.contains(&device.mtu) {
            return Err(format!("dev_config.params.ib.mtu {}: use one of {MTUS:?}", device.mtu));
        }
        self.dev_config.mtu = device.mtu;
        self.dev_config.port_check = device.port_check;
        within("dev_config.params.ofi.use_shm", device.use_shm, 0..=c_int::MAX)?;
        self.dev_config.use_shm = device.use_shm;
        within("dev_config.params.ofi.provider_info", device.provider_info, 0..=c_int::MAX)?;
        self.dev_config.provider_info = device.provider_info;
        within("network", new.network, 0..=NETWORKS)?;
        (self.network, self.user_net) = (new.network, (new.network == ROCE).into());
        within("queue_size_max", new.queue_size_max, 1..=4096)?;
        self.queue_size_max = new.queue_size_max;
        within("queue_num", new.queue_num, 1..=QUEUES_MAX)?;
        self.queue_num = new.queue_num;
        self.group_max = new.group_max;
        within("segment_max", new.segment_max, 1..=SEGMENTS_MAX)?;
        self.segment_max = new.segment_max;
        within("transfer_size_max", new.transfer_size_max, 0..=TRANSFER_MAX)?;
        self.transfer_size_max = new.transfer_size_max;
        self.notification_num = new.notification_num;
        within("passive_transfer_size_max", new.passive_transfer_size_max, 0..=PASSIVE_MAX as c_uint)?;
        self.passive_transfer_size_max = new.passive_transfer_size_max;
        self.allreduce_elem_max = new.allreduce_elem_max;
        within("rw_list_elem_max", new.rw_list_elem_max, 1..=255)?;
        self.rw_list_elem_max = new.rw_list_elem_max;
        self.build_infrastructure = new.build_infrastructure;
        Ok(())
    }
}

/// Whether a field is in its range; what is wrong with it.
fn within<T: PartialOrd + Display>(name: &str, value: T, range: RangeInclusive<T>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{name} {value}: use {} to {}", range.start(), range.end()))
}

export! {
    /// The configuration; at any time.
    fn pgaspi_config_get / gaspi_config_get(config: *mut CConfig) {
        put(config, *current())
    }

    /// Sets it, before `gaspi_proc_init`.
    fn pgaspi_config_set / gaspi_config_set(new: CConfig) {
        if process::has_begun() {
            return Err(GaspiError::Initialized);
        }
        let set = current().set(&new);
        set.map_err(|why| refuse(GaspiError::Config, format!("gaspi_config_set: {why}")))
    }

    /// The configured network; at any time.
    fn pgaspi_network_type / gaspi_network_type(network: *mut c_uint) {
        put(network, current().network)
    }

    /// The configured way to connect; at any time.
    fn pgaspi_build_infrastructure / gaspi_build_infrastructure(build: *mut c_uint) {
        put(build, current().build_infrastructure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_programs_try_are_taken_or_refused_as_they_expect() {
        let mut config = DEFAULT;
        let with = |change: fn(&mut CConfig)| {
            let mut new = DEFAULT;
            change(&mut new);
            new
        };
        for network in 0..=5 {
            config.set(&CConfig { network, ..DEFAULT }).unwrap();
            assert_eq!((config.network, config.user_net), (network, (network == 1).into()));
        }
        assert!(config.set(&with(|c| c.dev_config.mtu = 5000)).is_err());
        assert!(config.set(&with(|c| c.dev_config.netdev_id = 5)).is_err());
        assert!(config.set(&with(|c| c.sn_port = 1023)).is_err());
        config.set(&with(|c| c.dev_config.mtu = 4096)).unwrap();
        assert_eq!(config.dev_config.mtu, 4096);
        // Not copied.
        config.set(&CConfig { passive_queue_size_max: 7, ..DEFAULT }).unwrap();
        assert_eq!(config.passive_queue_size_max, 1024);
    }

    #[test]
    fn a_field_out_of_range_is_named_with_its_range() {
        let why = |change: fn(&mut CConfig)| {
            let mut new = DEFAULT;
            change(&mut new);
            let (why, limits) = (DEFAULT.clone().set(&new), new.limits());
            // What is taken here is taken at the beginning, and the other way round.
            assert_eq!(why.is_ok(), Config::default().set(&limits).is_ok(), "{why:?}");
            why.err()
        };
        assert_eq!(why(|c| c.queue_num = 17).as_deref(), Some("queue_num 17: use 1 to 16"));
        assert_eq!(why(|c| c.queue_size_max = 4097).as_deref(), Some("queue_size_max 4097: use 1 to 4096"));
        assert_eq!(why(|c| c.segment_max = 0).as_deref(), Some("segment_max 0: use 1 to 255"));
        let large = "transfer_size_max 1073741825: use 0 to 1073741824";
        assert_eq!(why(|c| c.transfer_size_max += 1).as_deref(), Some(large));
        let large = "passive_transfer_size_max 65536: use 0 to 65535";
        assert_eq!(why(|c| c.passive_transfer_size_max += 1).as_deref(), Some(large));
        assert_eq!(why(|c| c.rw_list_elem_max = 256).as_deref(), Some("rw_list_elem_max 256: use 1 to 255"));
        let none: fn(&mut CConfig) =
            |c| (c.group_max, c.notification_num, c.allreduce_elem_max, c.transfer_size_max) = (0, 0, 0, 0);
        assert_eq!(why(none), None, "limits of nothing are taken");
    }

    #[test]
    fn both_configurations_have_the_same_defaults() {
        assert_eq!(DEFAULT.limits(), Config::default());
    }
}
