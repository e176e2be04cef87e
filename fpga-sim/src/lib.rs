//! A software model of the EXTOLL network card.

pub mod faults;
pub mod link;
pub mod routing;
pub mod torus;
