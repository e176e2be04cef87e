//! Memory of GPUs, host memory, windows.

use std::io::{Seek, SeekFrom};

use ggas_gpu::{Gpu, GpuError, GpuWindow, Launch, Module};
use ggas_selftest::args::gputest_poke;

use crate::harness::{Outcome, SHORT, Suite, pattern};
use crate::text;

pub fn checks(suite: &mut Suite, gpus: &[Module]) {
    let first = &gpus[0];
    suite.check("device memory: zeroed, written, read, bounds", || device_memory(first.gpu()));
    suite.check("page-locked memory: zeroed, copied part by part, bounds", || page_locked(first.gpu()));
    suite.check("host memory: unaligned and shared pages, mapped again", || host_memory(first));
    suite.check("host memory: refusals", || host_refusals(first.gpu()));
    suite.check("memory of another device: what is none is refused", || no_device_memory(first.gpu()));
    suite.check("device memory as a dma-buf", || dma_buf(first.gpu()));
    suite.check("window: three nodes on one GPU", || window(first, &vec![first.gpu().clone(); 3]));
    if gpus.len() > 1 {
        let nodes: Vec<_> = gpus.iter().chain(gpus).map(|module| module.gpu().clone()).collect();
        for module in gpus {
            let name = format!("window: all GPUs, twice each, stores from GPU {}", module.gpu().ordinal());
            suite.check(&name, || window(module, &nodes));
        }
    }
    suite.check("window: refusals", || window_refusals(first.gpu()));
}

fn device_memory(gpu: &Gpu) -> Outcome {
    let buffer = gpu.alloc((3 << 20) + 5).map_err(text)?;
    let mut bytes = vec![1; buffer.len()];
    buffer.read(0, &mut bytes).map_err(text)?;
    if bytes.iter().any(|byte| *byte != 0) {
        return Err("not zeroed".into());
    }
    let data = pattern(buffer.len() - 3, 1);
    buffer.write(3, &data).map_err(text)?;
    buffer.read(3, &mut bytes[3..]).map_err(text)?;
    if bytes[3..] != data {
        return Err("read other bytes than written".into());
    }
    match buffer.write(buffer.len() as u64 - 7, &[0; 8]) {
        Err(GpuError::OutOfRange { .. }) => {}
        other => return Err(format!("write past the end: {other:?}")),
    }
    match gpu.alloc(1 << 50) {
        Err(GpuError::OutOfMemory { .. }) => Ok("1 PiB refused as out of memory".into()),
        other => Err(format!("1 PiB: {other:?}")),
    }
}

fn page_locked(gpu: &Gpu) -> Outcome {
    let (buffer, pinned) = (gpu.alloc(1 << 20).map_err(text)?, gpu.alloc_pinned(1 << 20).map_err(text)?);
    let bytes = || {
        // SAFETY: as many as there are, and no copy is under way.
        unsafe { std::slice::from_raw_parts(pinned.as_ptr(), pinned.len()) }
    };
    if bytes().iter().any(|byte| *byte != 0) {
        return Err("not zeroed".into());
    }
    let data = pattern(buffer.len(), 2);
    buffer.write(0, &data).map_err(text)?;
    // Every other 4 KiB, and back to where the others were.
    let parts = |first: usize| (first..256).step_by(2).map(|part| (part << 12, 1 << 12));
    pinned.gather(100, &buffer, parts(0)).map_err(text)?;
    let gathered: Vec<u8> =
        parts(0).flat_map(|(offset, len)| data[offset..offset + len].iter().copied()).collect();
    if bytes()[100..100 + gathered.len()] != gathered {
        return Err("other bytes came than there were".into());
    }
    pinned.scatter(100, &buffer, parts(1)).map_err(text)?;
    let mut after = vec![0; data.len()];
    buffer.read(0, &mut after).map_err(text)?;
    if after.chunks(2 << 12).zip(data.chunks(2 << 12)).any(|(now, was)| now[1 << 12..] != was[..1 << 12]) {
        return Err("other bytes went than came".into());
    }
    match pinned.gather((1 << 20) - 7, &buffer, std::iter::once((0, 8))) {
        Err(GpuError::OutOfRange { .. }) => Ok(format!("{} parts at once", parts(0).count())),
        other => Err(format!("a copy past the end: {other:?}")),
    }
}

/// No test machine has a card: ordinary memory is refused, or mapped like that.
fn no_device_memory(gpu: &Gpu) -> Outcome {
    let words = vec![0u64; 1024];
    // SAFETY: the words outlive the mapping, which no kernel uses.
    match unsafe { gpu.map_device(words.as_ptr().cast(), 4096) } {
        Ok(mapping) => Ok(format!("mapped at {:#x}, as memory of the host", mapping.address())),
        Err(error @ GpuError::NotMappable { .. }) if error.to_string().contains("PeerMappingOverride") => {
            Ok(error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn dma_buf(gpu: &Gpu) -> Outcome {
    let buffer = gpu.alloc(4 << 20).map_err(text)?;
    let address = buffer.address() + 5_003;
    match gpu.dma_buf(address, 70_000) {
        Ok((exported, offset)) => {
            let bytes = std::fs::File::from(exported).seek(SeekFrom::End(0)).map_err(text)?;
            let wanted = (address % 4096, (address % 4096 + 70_000).next_multiple_of(4096));
            if (offset, bytes) == wanted {
                Ok(format!("{bytes} bytes, the first at {offset}"))
            } else {
                Err(format!("{bytes} bytes, the first at {offset}, not {wanted:?}"))
            }
        }
        Err(error @ (GpuError::Unsupported { .. } | GpuError::Driver(_))) => Ok(format!("not here: {error}")),
        Err(error) => Err(error.to_string()),
    }
}

fn poke(module: &Module, poke: gputest_poke) -> Result<(), String> {
    // SAFETY: the structure is the kernel's, and the callers own the words.
    let launch = unsafe { Launch::new(module, "ggas_gputest_poke", 1, 32, &poke) };
    ggas_gpu::start(&[launch]).and_then(|mut running| running.wait(SHORT)).map_err(text)
}

fn host_memory(module: &Module) -> Outcome {
    let gpu = module.gpu();
    // Several mappings in one allocation share pages.
    let mut words = vec![0u64; 4096];
    let base = words.as_mut_ptr();
    let map = |word: usize, count: usize| {
        // SAFETY: inside `words`, which outlives the kernels and mappings below.
        unsafe { gpu.map_host(base.wrapping_add(word).cast(), 8 * count) }.map_err(text)
    };
    for round in 1..=3 {
        let maps = [map(1, 100)?, map(90, 1000)?, map(3000, 1000)?, map(0, 4096)?];
        for (i, map) in maps.iter().enumerate() {
            let value = round * 1000 + i as u64;
            poke(module, gputest_poke { base: map.address(), stride: 8, parts: 2, value })?;
        }
    }
    let word = |i: usize| {
        // SAFETY: in range; kernels have ended.
        unsafe { base.wrapping_add(i).read_volatile() }
    };
    let seen = [word(0), word(1), word(2), word(90), word(91), word(3000), word(3001)];
    // The last mapping stored 3003 and 3004 to words 0 and 1; the first 3000 and 3001 to words 1 and 2 before.
    if seen != [3003, 3004, 3001, 3001, 3002, 3002, 3003] {
        return Err(format!("kernels stored {seen:?}"));
    }
    Ok(format!("{} calls put off", ggas_gpu::deferred_calls()))
}

fn host_refusals(gpu: &Gpu) -> Outcome {
    let mut said = Vec::new();
    for (start, len) in [(0usize, 8), (4096, 8), (0x1000, 0)] {
        // SAFETY: no memory is accessed by anyone.
        match unsafe { gpu.map_host(start as *const u8, len) } {
            Err(GpuError::NotMappable { why, .. }) => said.push(why),
            other => return Err(format!("{start:#x}, {len} bytes: {other:?}")),
        }
    }
    Ok(said.swap_remove(1))
}

fn window(module: &Module, nodes: &[Gpu]) -> Outcome {
    let bytes = (2 << 20) + 64;
    let window = GpuWindow::new(nodes, bytes).map_err(text)?;
    let (base, stride) = (window.base(), window.stride());
    for node in 0..nodes.len() {
        let mut seen = vec![1; bytes];
        window.read(node, 0, &mut seen).map_err(text)?;
        if seen.iter().any(|byte| *byte != 0) {
            return Err(format!("part {node} is not zeroed"));
        }
    }
    poke(module, gputest_poke { base, stride, parts: nodes.len() as u64, value: 0x77_0000 })?;
    for node in 0..nodes.len() {
        let mut seen = [0; 8];
        window.read(node, 0, &mut seen).map_err(text)?;
        if u64::from_le_bytes(seen) != 0x77_0000 + node as u64 {
            return Err(format!("part {node} holds {:#x}", u64::from_le_bytes(seen)));
        }
        let data = pattern(64, node as u64);
        window.write(node, bytes as u64 - 64, &data).map_err(text)?;
        let mut back = [0; 64];
        window.read(node, bytes as u64 - 64, &mut back).map_err(text)?;
        if back[..] != data {
            return Err(format!("part {node} gives other bytes than written"));
        }
    }
    // A kernel reaches the host's bytes and the other way round: the last word of a part.
    let last = stride.min(bytes as u64) - 8;
    poke(module, gputest_poke { base: base + last, stride, parts: nodes.len() as u64, value: 5 })?;
    let mut seen = [0; 8];
    window.read(nodes.len() - 1, last, &mut seen).map_err(text)?;
    match u64::from_le_bytes(seen) {
        value if value == 5 + nodes.len() as u64 - 1 => Ok(format!("{} parts, stride {stride}", nodes.len())),
        value => Err(format!("the last word is {value}")),
    }
}

fn window_refusals(gpu: &Gpu) -> Outcome {
    let errors = [
        GpuWindow::new(&[], 4096).err(),
        GpuWindow::new(std::slice::from_ref(gpu), 0).err(),
        GpuWindow::new(std::slice::from_ref(gpu), usize::MAX).err(),
        GpuWindow::new(std::slice::from_ref(gpu), 1 << 46).err(),
    ];
    if let Some(i) = errors.iter().position(Option::is_none) {
        return Err(format!("case {i} was not refused"));
    }
    let small = GpuWindow::new(std::slice::from_ref(gpu), 4096).map_err(text)?;
    match small.read(1, 0, &mut [0]) {
        Err(GpuError::Invalid(_)) => Ok(errors[3].as_ref().map_or_else(String::new, ToString::to_string)),
        other => Err(format!("a node that is not there: {other:?}")),
    }
}
