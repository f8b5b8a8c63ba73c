//! From the run-time [`IsaKind`](crate::IsaKind) to a token that engines are generic over.

/// Evaluates `$body` with `$isa` bound to the token of `$kind` for f32 arithmetic.
///
/// The kind was found available when the engine was made, so a token is there; portable code is
/// what remains for other CPUs.
macro_rules! with_f32_isa {
    ($kind:expr, $isa:ident => $body:expr) => {{
        use $crate::isa::IsaKind;
        #[cfg(target_arch = "x86_64")]
        use $crate::isa::{Avx2, Avx512, Avx512Bf16};
        let kind: IsaKind = $kind;
        'done: {
            #[cfg(target_arch = "x86_64")]
            {
                if kind == IsaKind::Avx2
                    && let Some($isa) = Avx2::new()
                {
                    break 'done $body;
                }
                if kind == IsaKind::Avx512
                    && let Some($isa) = Avx512::new()
                {
                    break 'done $body;
                }
                if kind == IsaKind::Avx512Bf16
                    && let Some($isa) = Avx512Bf16::new()
                {
                    break 'done $body;
                }
            }
            debug_assert_eq!(kind, IsaKind::Scalar);
            let $isa = $crate::isa::Scalar::<f32>::new();
            $body
        }
    }};
}
pub(crate) use with_f32_isa;

/// Calls a generic test function with the token of every instruction set of this machine.
#[cfg(test)]
macro_rules! for_each_f32_isa {
    ($check:ident) => {
        for kind in $crate::isa::IsaKind::available() {
            $crate::dispatch::with_f32_isa!(kind, isa => $check(isa));
        }
    };
}
#[cfg(test)]
pub(crate) use for_each_f32_isa;
