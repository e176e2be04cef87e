//! Stores that are no messages garble their own VPID's messages and nothing else.

use extoll_abi::{VeloHeader, regs};
use ggas_device::VeloSetup;

use super::*;

#[test]
fn stray_stores_harm_nobody_else() {
    for (seed, network) in networks(2).iter().enumerate() {
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let wild = card(network, 0).open_velo(&VeloSetup::default()).unwrap();
        let (a, b) =
            (open(network, 0, small(MailboxSlots::B64)), open(network, 1, small(MailboxSlots::B128)));
        let to_b = a.connect(b.address());
        for i in 0..3000u64 {
            let (offset, words) = match rng.u8(..4) {
                0 => (rng.u64(..), vec![rng.u64(..); rng.usize(..20)]),
                1 => (8 * rng.u64(..16), vec![rng.u64(..); rng.usize(..16)]),
                // A header that announces more than a message holds, with all the words of a line.
                2 => (0, vec![rng.u64(121..2048) << 48; 16]),
                _ => (0, vec![rng.u64(..); 1]),
            };
            wild.store(rng.u8(..4), (offset & !7) | (u64::from(rng.bool()) * rng.u64(..8)), &words);
            to_b.send(&pattern((i % 121) as usize, i), i as u8).unwrap();
            let message = loop {
                let message = b.wait(SOON).unwrap();
                if message.source() == a.address() {
                    break message;
                }
                assert_eq!(message.source(), wild.address(), "nobody sends under another name");
            };
            assert_eq!((message.tag(), message.bytes()), (i as u8, &pattern((i % 121) as usize, i)[..]));
        }
        let errors = card(network, 0).read_register(regs::EXTOLL_RF_VELO_WCB_ERRORS).unwrap();
        for (count, what) in
            [(errors & 0xffff, "partial"), (errors >> 16 & 0xffff, "too long"), (errors >> 32, "unaligned")]
        {
            assert!(count > 0, "{what} stores are counted");
        }
    }
}

#[test]
fn words_come_in_any_order() {
    let network = &networks(1)[0];
    let port = card(network, 0).open_velo(&VeloSetup::default()).unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let (words, mut slot) = (16, 0);
    for length in (0..=120u8).chain([64; 40]) {
        let header = VeloHeader { destination: port.address(), tag: length, length, ..VeloHeader::default() };
        let mut line = vec![header.encode().unwrap()];
        line.extend((0..usize::from(length).div_ceil(8) as u64).map(|i| (i + 1) * 0x0101_0101_0101_0101));
        let mut order: Vec<usize> = (0..line.len()).collect();
        rng.shuffle(&mut order);
        for i in order {
            port.store(0, 8 * i as u64, &line[i..=i]);
        }
        port.progress();
        // SAFETY: a slot of the mailbox, which the port keeps.
        let word = |i: usize| unsafe { port.mailbox().base.add(slot * words + i).as_ref() };
        let load = |i| word(i).load(std::sync::atomic::Ordering::Acquire);
        assert_eq!(load(15) >> 48, u64::from(length), "the status is there");
        let first = 16 - line.len();
        // Nothing comes behind the last byte.
        if let Some(last) = line[1..].last_mut() {
            *last &= u64::MAX >> (8 * ((8 - length % 8) % 8));
        }
        assert!((1..line.len()).all(|i| load(first + i - 1) == line[i]), "right before it the payload");
        word(15).store(0, std::sync::atomic::Ordering::Relaxed);
        slot += 1;
        port.set_read_pointer(slot as u32, false);
    }
}
