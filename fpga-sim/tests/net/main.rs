//! Tests of the network between the cards.

mod link;
mod routing;
