//! `gaspi_config_t`.

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ggas_gaspi::{Config, GaspiError, Timeout};

use crate::ffi::{export, put};
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
    transfer_size_max: ggas_gaspi::TRANSFER_MAX,
    notification_num: 65536,
    passive_queue_size_max: 1024,
    passive_transfer_size_max: ggas_gaspi::PASSIVE_MAX as c_uint,
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

    /// Takes the fields of `new` in their order, up to the first that is out of range.
    fn set(&mut self, new: &CConfig) -> Result<(), GaspiError> {
        let within = |is_good: bool| if is_good { Ok(()) } else { Err(GaspiError::Config) };
        self.logger = new.logger;
        within((1024..=65536).contains(&new.sn_port))?;
        self.sn_port = new.sn_port;
        self.net_info = new.net_info;
        self.sn_persistent = new.sn_persistent;
        self.sn_timeout = new.sn_timeout;
        let device = &new.dev_config;
        within(device.netdev_id <= 4)?;
        self.dev_config.netdev_id = device.netdev_id;
        within([0, 1024, 2048, 4096].contains(&device.mtu))?;
        self.dev_config.mtu = device.mtu;
        self.dev_config.port_check = device.port_check;
        within(device.use_shm >= 0 && device.provider_info >= 0)?;
        (self.dev_config.use_shm, self.dev_config.provider_info) = (device.use_shm, device.provider_info);
        within(new.network <= NETWORKS)?;
        (self.network, self.user_net) = (new.network, (new.network == ROCE).into());
        let mut limits = self.limits();
        let set = limits.set(&new.limits());
        self.queue_size_max = limits.queue_size_max;
        self.queue_num = limits.queue_num;
        self.group_max = limits.group_max;
        self.segment_max = limits.segment_max;
        self.transfer_size_max = limits.transfer_size_max;
        self.notification_num = limits.notification_num;
        self.passive_transfer_size_max = limits.passive_transfer_size_max as c_uint;
        self.allreduce_elem_max = limits.allreduce_elem_max;
        self.rw_list_elem_max = limits.rw_list_elem_max;
        set?;
        self.build_infrastructure = new.build_infrastructure;
        Ok(())
    }
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
        current().set(&new)
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
        assert_eq!(config.set(&with(|c| c.dev_config.mtu = 5000)), Err(GaspiError::Config));
        assert_eq!(config.set(&with(|c| c.dev_config.netdev_id = 5)), Err(GaspiError::Config));
        assert_eq!(config.set(&with(|c| c.sn_port = 1023)), Err(GaspiError::Config));
        config.set(&with(|c| c.dev_config.mtu = 4096)).unwrap();
        assert_eq!(config.dev_config.mtu, 4096);
        // Not copied.
        config.set(&CConfig { passive_queue_size_max: 7, ..DEFAULT }).unwrap();
        assert_eq!(config.passive_queue_size_max, 1024);
    }

    #[test]
    fn both_configurations_have_the_same_defaults() {
        assert_eq!(DEFAULT.limits(), Config::default());
    }
}
