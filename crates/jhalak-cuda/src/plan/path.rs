//! Which kernels run a call, and why not the fastest.

use std::fmt;

/// The kernels that run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Those for Hopper.
    Hopper,
    /// Those for every GPU, for this reason.
    Portable(Reason),
}

/// Why a call does not run on the kernels for Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The GPU is another one.
    Device,
    /// `JHALAK_GPU_PATH=portable`.
    Asked,
    /// They multiply 16-bit numbers.
    DType,
    /// They know no bias, mask or dropout.
    Options,
    /// So few queries do not fill their tiles.
    FewQueries,
    /// There are no keys.
    NoKeys,
    /// q, k, v and out must have contiguous rows that begin at multiples of 16 bytes, one after the
    /// other.
    Layout,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Device => "the GPU is not of compute capability 9.0",
            Reason::Asked => "JHALAK_GPU_PATH asks for the portable kernels",
            Reason::DType => "the dtype is not f16 or bf16",
            Reason::Options => "there is a bias, a mask or dropout",
            Reason::FewQueries => "there are few queries",
            Reason::NoKeys => "there are no keys",
            Reason::Layout => {
                "rows of q, k, v or out are not contiguous, aligned to 16 bytes and \
                               in order"
            }
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Hopper => f.write_str("hopper"),
            Path::Portable(reason) => write!(f, "portable: {reason}"),
        }
    }
}
