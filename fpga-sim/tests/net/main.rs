//! Tests of the network between the cards.

mod common;
mod link;
mod network;
mod registers;
mod routing;
mod smfu;
mod trouble;
