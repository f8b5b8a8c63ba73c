//! [`Attention`]: what is asked for, as a plain value.

use crate::dtype::DType;
use crate::philox::Dropout;
use crate::tensor::TensorView;

/// The options of an attention call: scores, visibility, softmax, dropout and sequence lengths.
///
/// A plain value with builder methods. Nothing is checked here: what is wrong is said when a call
/// is made, by name. Without options it is `softmax(q·kᵀ / √D)·v`, every key visible.
///
/// Shapes below: B sequences, Sq queries, Sk keys, Hq query heads, Hk key heads, head dimension D.
///
/// ```
/// use jhalak_problem::Attention;
///
/// let sliding = Attention::new().causal().window(4095, 0).scale(0.125);
/// # let _ = sliding;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attention<'a> {
    pub(crate) scale: Option<f64>,
    pub(crate) causal: bool,
    pub(crate) window: Option<(i64, i64)>,
    pub(crate) softcap: f64,
    pub(crate) bias: Option<TensorView<'a>>,
    pub(crate) mask: Option<TensorView<'a>>,
    pub(crate) alibi_slopes: Option<TensorView<'a>>,
    pub(crate) sinks: Option<TensorView<'a>>,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) q_start: Option<i64>,
    pub(crate) k_start: Option<i64>,
    pub(crate) cu_seqlens_q: Option<TensorView<'a>>,
    pub(crate) cu_seqlens_k: Option<TensorView<'a>>,
    pub(crate) max_seqlens: Option<(usize, usize)>,
    pub(crate) seqused_q: Option<TensorView<'a>>,
    pub(crate) seqused_k: Option<TensorView<'a>>,
    pub(crate) out_dtype: Option<DType>,
    pub(crate) deterministic: bool,
}

impl<'a> Attention<'a> {
    /// Plain attention: scale 1/√D, every key visible.
    pub fn new() -> Self {
        Self::default()
    }

    /// Multiplies q·k by `scale` instead of 1/√D. Any finite number, 0 and negative included.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Hides the keys after the query's own position: query i sees keys j ≤ i + Sk − Sq, so the
    /// last query sits on the last key. For top-left alignment add `q_start(0)`.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Shows only the keys within `left` before and `right` after the query's position, both
    /// inclusive: `(l, 0)` sees l + 1 keys. −1 is unbounded. With `causal`, `right` becomes 0.
    pub fn window(mut self, left: i64, right: i64) -> Self {
        self.window = Some((left, right));
        self
    }

    /// Caps scores softly: s becomes c·tanh(s/c), before bias and masks. 0 turns it off.
    pub fn softcap(mut self, c: f64) -> Self {
        self.softcap = c;
        self
    }

    /// Adds a bias to the scores: [B, Hq, Sq, Sk] with size-1 dimensions broadcast, f32 or the
    /// dtype of q. −∞ hides the key. With packed sequences: [B or 1, Hq or 1, max Sq, max Sk].
    pub fn bias(mut self, bias: TensorView<'a>) -> Self {
        self.bias = Some(bias);
        self
    }

    /// Hides the keys where the mask is false: bool, shaped as for [`bias`](Self::bias).
    pub fn mask(mut self, mask: TensorView<'a>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// Subtracts slope · |query position − key position|: f32, `[Hq]` or [B, Hq]
    /// (Press et al., 2022, "Train Short, Test Long").
    pub fn alibi_slopes(mut self, slopes: TensorView<'a>) -> Self {
        self.alibi_slopes = Some(slopes);
        self
    }

    /// Adds exp(sink) to the softmax's denominator: `[Hq]`, f32 or the dtype of q. Not scaled; the
    /// lse includes it (Xiao et al., 2024, "Efficient Streaming Language Models with Attention
    /// Sinks").
    pub fn sinks(mut self, sinks: TensorView<'a>) -> Self {
        self.sinks = Some(sinks);
        self
    }

    /// Drops attention weights with probability `p`, keeps the others divided by 1 − p. The same
    /// `seed` and `offset` give the same mask on every device, in forward and backward.
    pub fn dropout(mut self, p: f64, seed: u64, offset: u32) -> Self {
        self.dropout = Some(Dropout::new(p, seed, offset));
        self
    }

    /// Places query i at position i + `start` in causal, window, ALiBi and dropout, for
    /// block-wise use. `k_start` is 0 unless set.
    pub fn q_start(mut self, start: i64) -> Self {
        self.q_start = Some(start);
        self
    }

    /// Places key j at position j + `start`, as [`q_start`](Self::q_start) does for queries.
    pub fn k_start(mut self, start: i64) -> Self {
        self.k_start = Some(start);
        self
    }

    /// Packs sequences one after the other: q is [total_q, Hq, D], k and v [total_k, …].
    ///
    /// Sequence b holds the rows `cu_seqlens[b]..cu_seqlens[b + 1]`: i32 or i64, [B + 1], starts
    /// at 0, never decreases, ends within the total.
    pub fn cu_seqlens(mut self, q: TensorView<'a>, k: TensorView<'a>) -> Self {
        self.cu_seqlens_q = Some(q);
        self.cu_seqlens_k = Some(k);
        self
    }

    /// The longest packed sequence's queries and keys, for lengths in a device's memory, which the
    /// host does not read: a hint for how many blocks to launch. Wrong hints cost time, never
    /// results.
    pub fn max_seqlens(mut self, q: usize, k: usize) -> Self {
        self.max_seqlens = Some((q, k));
        self
    }

    /// Uses only the first `seqused_q[b]` queries of sequence b: i32 or i64, `[B]`.
    /// The other rows of out are 0, of lse −∞, and have zero gradients.
    pub fn seqused_q(mut self, lengths: TensorView<'a>) -> Self {
        self.seqused_q = Some(lengths);
        self
    }

    /// Uses only the first `seqused_k[b]` keys of sequence b: i32 or i64, `[B]`.
    pub fn seqused_k(mut self, lengths: TensorView<'a>) -> Self {
        self.seqused_k = Some(lengths);
        self
    }

    /// Asks for gradients whose bits are the same every time. On the CPU they always are. A GPU then
    /// adds to dq in a fixed order.
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// The dtype of out: that of q unless set; f32 for partial results that get merged.
    pub fn out_dtype(mut self, dtype: DType) -> Self {
        self.out_dtype = Some(dtype);
        self
    }
}
