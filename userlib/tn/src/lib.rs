//! Triggered operations (GPU-TN): the host registers puts and gets in advance, each with a tag and a threshold, and
//! kernels start them by one store of the tag (`kernels/include/ggas/tn.cuh`).
//!
//! What the paper's host calls `TrigPut`, `GetTriggerAddr` and `LaunchKern` are [`Triggers::put`],
//! [`Triggers::address`], which goes into kernel arguments, and an ordinary launch, while a guard of
//! [`Triggers::arm`] is held. Registering may come before the triggers or behind them.
//!
//! ```
//! # use ggas_device::sim::SimNetwork;
//! use ggas_kernels::Processor;
//! use ggas_rma::{HostBuffer, Node, PortConfig, Spec};
//! use ggas_tn::{Config, Triggers, When};
//! use std::time::Duration;
//! # let network = SimNetwork::builder().nodes(2).build()?;
//! # let (here, there) = (Node::new(network.device(0)?), Node::new(network.device(1)?));
//! let triggers = Triggers::open(&here, &Processor::cpu(), Config::default())?;
//! let target = there.open_port(PortConfig::default())?;
//! let source = triggers.port().register(HostBuffer::zeroed(4096)?)?;
//! let destination = target.register(HostBuffer::zeroed(4096)?)?;
//! source.write(0, b"hello")?;
//!
//! // Two triggers of tag 7 send five bytes. Kernels trigger; so may the host.
//! let when = When::tag(7).after(2);
//! let sent = triggers.put(when, &source, 0..5, target.address(), destination.nla(0)?, Spec::COMPLETER)?;
//! triggers.trigger(7);
//! assert_eq!(triggers.completed(sent).times, 0);
//! triggers.trigger(7);
//!
//! target.wait(Duration::from_secs(10))?;
//! triggers.wait(sent, 1, Duration::from_secs(10))?;
//! let mut text = [0; 5];
//! destination.read(0, &mut text)?;
//! assert_eq!(&text, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod config;
mod error;
mod host;
mod kernel;
mod ring;
mod triggers;
mod window;
mod words;

pub use config::{Config, Way, When};
pub use error::{TnError, TriggersLost};
pub use ggas_device::{TriggerCounts, TriggerError, TriggerLookup};
pub use kernel::Armed;
pub use triggers::Triggers;
pub use window::{Signal, WindowConfig, WindowTriggers};
pub use words::{Completed, Completion, Status};
