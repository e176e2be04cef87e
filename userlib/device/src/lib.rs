//! The devices of the library: the model in this process, later the card and NVLink.
