//! Bit layouts of the EXTOLL card and of the structures shared with kernels.
