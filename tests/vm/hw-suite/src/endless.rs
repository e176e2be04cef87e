//! Kernels of two nodes that compute until a card or a node is taken from them: each posts and polls, and loads and
//! stores in the other one's part of a window.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use ggas_kernels::{Processor, start};
use ggas_rma::{Node, PortConfig};
use ggas_selftest::args::{SELFTEST_WINDOW_DONE, selftest_window};
use ggas_window::Window;

use crate::kernels::Side;
use crate::meet::{meet, sync};
use crate::{Outcome, SOON, check, patient};

/// What a kernel waits for another node.
const LIMIT: Duration = Duration::from_secs(20);
/// From the start of kernels that nobody stops to their end.
const ENDLESS: Duration = Duration::from_secs(600);
/// Bytes of each node's part, and of a transfer in it.
const PART: usize = 64 << 10;
const BYTES: u64 = 512;
/// Rounds after which all is under way.
const UNDER_WAY: u64 = 3;
/// Steps of the meeting, as classes of notifications.
const MADE: u8 = 224;
const AT_IT: u8 = 225;

/// One of the nodes 0 and 1. Says "computing" once the kernels of both are at it. They have to end with an error: nobody
/// else ends them. What they say is printed.
pub fn all(node: &Node, count: u16) -> Outcome {
    check(count == 2, "there are two of them")?;
    let (own, other) = (usize::from(node.id()), 1 - node.id());
    let port = node.open_port(patient())?;
    let (there, _) = meet(&port, other, 0)?;
    let cpu = Processor::cpu();
    let window = Window::on_nodes(node, &[0, 1], &cpu, PART, LIMIT)?;
    let config = PortConfig { post_timeout: LIMIT, kernel_timeout: LIMIT, ..patient() };
    let (side, to) = Side::meet(node, &port, &there, &cpu, config)?;
    sync(&port, &there, MADE)?;
    let result = cpu.alloc(16)?;
    let exchange = selftest_window {
        window: window.member(own)?.address(),
        status: result.address(),
        wrong: result.address() + 8,
        bytes: BYTES,
        rounds: u32::MAX,
        atomics: 0,
    };
    let ping_pong = side.args(to, u32::MAX, own == 0)?;
    // SAFETY: the arguments are these kernels'; their memory lives beyond the wait.
    let launches = unsafe {
        [
            ggas_selftest::launch(&cpu, "ggas_selftest_window", 1, 32, &exchange),
            ggas_selftest::launch(&cpu, "ggas_selftest_rma", 1, 32, &ping_pong),
        ]
    };
    let running = start(&launches)?;
    under_way(&window, own, &side)?;
    // Who is to go does so at once.
    sync(&port, &there, AT_IT)?;
    println!("computing");
    std::io::stdout().flush()?;
    running.wait(ENDLESS)?;
    let ([status, wrong], (posts, report)) = (two(&result.read_u64s(0, 2)?)?, side.status()?);
    println!("window: status {status}, {wrong} wrong, {:?}", window.member(own)?.report());
    println!("posts: status {posts}, {report}");
    check(status != 0 && posts != 0, "kernels ended, and nothing was wrong")?;
    println!("stopped");
    Ok(())
}

/// Until the other node has read what this one sent, several times, and its put is here.
fn under_way(window: &Window, own: usize, side: &Side) -> Outcome {
    let (end, flag) = (Instant::now() + SOON, SELFTEST_WINDOW_DONE as usize + 8 * (1 - own));
    while window.load_u64(own, flag)? < UNDER_WAY || !side.received()? {
        check(Instant::now() < end, "the kernels do not come to it")?;
        std::thread::yield_now();
    }
    Ok(())
}

fn two(words: &[u64]) -> Result<[u64; 2], Box<dyn Error>> {
    Ok(words.try_into()?)
}
