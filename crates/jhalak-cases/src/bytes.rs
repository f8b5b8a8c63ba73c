//! [`Bytes`]: numbers as memory holds them.

use half::{bf16, f16};

/// A number and its bytes, little endian.
pub(crate) trait Bytes: Copy {
    fn to_bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Bytes for $ty {
            fn to_bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                <$ty>::from_le_bytes(bytes.try_into().expect("as many bytes as it has"))
            }
        }
    )*};
}

numbers! { f32 f64 f16 bf16 }

impl Bytes for bool {
    fn to_bytes(self) -> Vec<u8> {
        vec![self.into()]
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}
