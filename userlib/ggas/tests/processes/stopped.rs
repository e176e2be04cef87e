//! A process that is stopped: timeouts, never hangs, and nothing damaged when it goes on.

use std::time::Duration;

use ggas::device::DeviceError;
use ggas::{HostBuffer, Job, Match, RegionError, RemoteRegion, Spec, WaitError};

use crate::common::{NOTICED, SOON, bytes, job_of, pattern, port_and_region, signal, timed, well};

#[test]
fn a_stopped_process_delays_and_damages_nothing() {
    let test = "stopped::a_stopped_process_delays_and_damages_nothing";
    let release = Duration::from_millis(500);
    job_of(Job::builder().release_timeout(release), test, (2, 1), well, |job| {
        const LEN: usize = 1 << 20;
        const MORE: usize = 100;
        let (port, region) = port_and_region(&job, LEN);
        let mine = (RemoteRegion::of(&region), std::process::id());
        let all = job.exchange_values(&mine, SOON).unwrap();
        let (other, process) = all[1 - job.rank() as usize];
        let from_other = Match::any().from(other.port());
        if job.rank() == 1 {
            signal(std::process::id(), libc::SIGSTOP); // the other one lets us go on
            port.wait_match(&from_other, SOON).unwrap();
            assert_eq!(bytes(&region, 0, LEN), pattern(LEN, 3));
            port.connect(other.port()).notification_put(1, 0, Spec::COMPLETER).unwrap();
            job.barrier(SOON).unwrap();
            return;
        }
        until_stopped(process);
        let buffer = port.register(HostBuffer::zeroed(LEN).unwrap()).unwrap();
        buffer.write(0, &pattern(LEN, 3)).unwrap();
        let to = port.connect(other.port());
        to.put(&buffer, 0, LEN, other.nla(0, LEN as u64).unwrap(), Spec::COMPLETER).unwrap();
        let error = port.wait_match(&from_other, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, WaitError::Timeout { .. }), "{error}");

        // It may still read the memory, which is kept.
        let (error, took) = timed(|| buffer.unregister().unwrap_err());
        assert!(took < NOTICED, "{took:?}");
        let RegionError::Device(DeviceError::HeldByPeers { ranks, .. }) = &error else { panic!("{error}") };
        assert_eq!(ranks, &[1]);
        // The card confirms in order: what else is released waits for the same process, but not once more.
        let more: Vec<_> =
            (0..MORE).map(|_| port.register(HostBuffer::zeroed(4096).unwrap()).unwrap()).collect();
        let (refused, took) = timed(|| more.into_iter().filter_map(|one| one.unregister().err()).count());
        assert_eq!(refused, MORE);
        assert!(took < MORE as u32 * Duration::from_millis(500) / 2, "{took:?}");
        let others: Vec<HostBuffer> = (0..4).map(|_| HostBuffer::zeroed(LEN).unwrap()).collect();
        others.iter().for_each(|other| other.write(0, &[0xee; LEN]));

        signal(process, libc::SIGCONT);
        port.wait_match(&from_other, SOON).unwrap();
        job.barrier(SOON).unwrap();
        // The card has let go since: the port closes in order.
        let (closed, took) = timed(|| port.close());
        closed.unwrap();
        assert!(took < NOTICED, "{took:?}");
    });
}

/// Returns once the process is stopped.
fn until_stopped(process: u32) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if state == Some('T') {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
