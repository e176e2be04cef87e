//! A software model of the EXTOLL network card.
