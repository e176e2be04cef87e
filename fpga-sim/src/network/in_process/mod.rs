//! Networks whose cards are all in this process: directly from card to card, or hop by hop over links with faults.

mod direct;
pub mod network;
pub mod world;
