//! Types of elements, and what reduces two of them: the codes of `kernels/shared_gpu.cu`.

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Element {
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `int32_t`.
    Int32,
    /// `int64_t`.
    Int64,
    /// IEEE binary16, reduced in float and rounded once for each reduction.
    Half,
    /// The upper half of a float, reduced in float and rounded once for each reduction.
    Bfloat16,
    /// `uint32_t`.
    Uint32,
    /// `uint64_t`.
    Uint64,
    /// `int8_t`. Sums and products of these and the next ones wrap, as of all whole numbers.
    Int8,
    /// `uint8_t`: a byte.
    Uint8,
    /// `int16_t`.
    Int16,
    /// `uint16_t`.
    Uint16,
}

impl Element {
    /// All of them, by code.
    pub const ALL: [Element; 12] = [
        Element::Float,
        Element::Double,
        Element::Int32,
        Element::Int64,
        Element::Half,
        Element::Bfloat16,
        Element::Uint32,
        Element::Uint64,
        Element::Int8,
        Element::Uint8,
        Element::Int16,
        Element::Uint16,
    ];

    /// Bytes of one.
    pub fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Half | Self::Bfloat16 | Self::Int16 | Self::Uint16 => 2,
            Self::Float | Self::Int32 | Self::Uint32 => 4,
            Self::Double | Self::Int64 | Self::Uint64 => 8,
        }
    }

    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Self::Float | Self::Double | Self::Half | Self::Bfloat16)
    }
}

/// What reduces two elements to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Op {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// Bitwise and, of whole numbers only, as the next two.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl Op {
    /// All of them, by code.
    pub const ALL: [Op; 7] = [Op::Sum, Op::Prod, Op::Min, Op::Max, Op::And, Op::Or, Op::Xor];

    pub(crate) fn is_bitwise(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Xor)
    }
}
