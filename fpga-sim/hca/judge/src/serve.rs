//! Who comes over TCP is served, one after the other, until the guest has gone.

use crate::world::World;
use crate::{pingpong, verbs};
use anyhow::{Context, Result};
use smoltcp::iface::SocketHandle;
use std::net::Ipv4Addr;

/// Port of `ibv_rc_pingpong`, ours and the guest's.
const PINGPONG: u16 = 18515;
/// Port of `rxe-verbs`.
const VERBS: u16 = 18516;
/// Who connects here is connected to, by us, as a client of `ibv_rc_pingpong`.
const CALL: u16 = 18517;
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

pub fn serve(world: &mut World) -> Result<()> {
    let mut places = [PINGPONG, VERBS, CALL].map(|port| (port, None));
    loop {
        for (port, place) in &mut places {
            if place.is_none() {
                *place = Some(world.host.listen(*port)?);
            }
        }
        world.step()?;
        if world.host.gone() {
            return Ok(());
        }
        for (port, place) in &mut places {
            if let Some(line) = *place
                && world.host.connected(line) == Some(true)
            {
                *place = None;
                conversation(world, *port, line).with_context(|| format!("port {port}"))?;
            }
        }
    }
}

fn conversation(world: &mut World, port: u16, line: SocketHandle) -> Result<()> {
    match port {
        VERBS => verbs::serve(world, line)?,
        PINGPONG => pingpong::play(world, line, false)?,
        _ => call(world)?,
    }
    end(world, line)
}

/// Until both sides have closed, or the guest has forgotten it.
fn end(world: &mut World, line: SocketHandle) -> Result<()> {
    world.host.close(line)?;
    world.until("end of a connection", |world| {
        Ok((world.host.connected(line).is_none() || world.host.over(line) || world.host.gone()).then_some(()))
    })?;
    world.host.forget(line);
    Ok(())
}

/// The guest may not listen yet.
fn call(world: &mut World) -> Result<()> {
    let line = world.until("connection to ibv_rc_pingpong", |world| {
        let line = world.host.connect(GUEST, PINGPONG)?;
        let there = world.until("answer", |world| {
            let connected = world.host.connected(line);
            Ok((connected != Some(false)).then_some(connected.is_some()))
        })?;
        if !there {
            world.host.forget(line);
            world.step()?;
        }
        Ok(there.then_some(line))
    })?;
    pingpong::play(world, line, true)?;
    end(world, line)
}
