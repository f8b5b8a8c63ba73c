//! [`Case`]: one attention call with every option, its tensors, and how it is drawn.

use jhalak_problem::{Attention, DType, Device, Element, TensorView};
use proptest::prelude::*;

use crate::strided::{Layout, Strided, noise};

/// Everything about a call but its numbers.
#[derive(Clone, Debug)]
pub struct Case {
    /// The dtype of q, k and v.
    pub dtype: DType,
    /// Key heads.
    pub heads_k: usize,
    /// Query heads of a key head.
    pub group: usize,
    /// D.
    pub head_dim: usize,
    /// Dv.
    pub head_dim_v: usize,
    /// (queries, keys) of each sequence.
    pub lengths: Vec<(usize, usize)>,
    /// Whether sequences lie one after the other.
    pub packed: bool,
    /// Rows after the last packed sequence.
    pub spare_rows: usize,
    /// How many queries and keys of each sequence are not used.
    pub unused: Option<(usize, usize)>,
    /// The scale, if not 1/√D.
    pub scale: Option<f64>,
    /// Causal.
    pub causal: bool,
    /// (left, right), −1 for unbounded.
    pub window: Option<(i64, i64)>,
    /// 0 for none.
    pub softcap: f64,
    /// Which dimensions of the bias have their full size, and whether it is f32.
    pub bias: Option<([bool; 4], bool)>,
    /// Which dimensions of the mask have their full size.
    pub mask: Option<[bool; 4]>,
    /// ALiBi, with slopes for each sequence or for all.
    pub alibi: Option<bool>,
    /// Sink logits.
    pub sinks: bool,
    /// The probability of dropout.
    pub dropout: Option<f64>,
    /// (q_start, k_start).
    pub starts: Option<(i64, i64)>,
    /// Whether out is f32.
    pub out_f32: bool,
    /// Whether gradients' bits must be the same every time.
    pub deterministic: bool,
    /// A hint of the longest packed sequence's queries and keys.
    pub max_seqlens: Option<(usize, usize)>,
    /// The layouts of q, k, v, and of bias and mask.
    pub layouts: [Layout; 4],
    /// Multiplies q.
    pub spread: f64,
    /// Where the numbers come from.
    pub seed: u64,
}

/// The tensors of a case.
pub struct Tensors {
    /// q.
    pub q: Strided,
    /// k.
    pub k: Strided,
    /// v.
    pub v: Strided,
    /// The bias.
    pub bias: Option<Strided>,
    /// The mask.
    pub mask: Option<Strided>,
    /// Slopes.
    pub alibi: Option<Strided>,
    /// Sinks.
    pub sinks: Option<Strided>,
    /// Where packed queries begin.
    pub cu_q: Vec<i32>,
    /// Where packed keys begin.
    pub cu_k: Vec<i32>,
    /// Used queries.
    pub used_q: Vec<i64>,
    /// Used keys.
    pub used_k: Vec<i64>,
}

impl Tensors {
    /// Tensors without options.
    pub fn plain(q: Strided, k: Strided, v: Strided) -> Self {
        let (cu_q, cu_k, used_q, used_k) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (bias, mask, alibi, sinks) = (None, None, None, None);
        Tensors { q, k, v, bias, mask, alibi, sinks, cu_q, cu_k, used_q, used_k }
    }

    /// Contiguous q, k and v of one dtype, each element given by its index.
    pub fn dense(
        dtype: DType,
        [q, k, v]: [&[usize]; 3],
        value: impl Fn(usize, &[usize]) -> f64,
    ) -> Self {
        let tensor = |n, shape| Strided::new(dtype, shape, &Layout::default(), |i| value(n, i));
        Tensors::plain(tensor(0, q), tensor(1, k), tensor(2, v))
    }
}

/// The tensors of a case, wherever they are.
#[derive(Clone, Copy)]
pub struct Views<'t> {
    /// q.
    pub q: TensorView<'t>,
    /// k.
    pub k: TensorView<'t>,
    /// v.
    pub v: TensorView<'t>,
    bias: Option<TensorView<'t>>,
    mask: Option<TensorView<'t>>,
    alibi: Option<TensorView<'t>>,
    sinks: Option<TensorView<'t>>,
    cu_q: TensorView<'t>,
    cu_k: TensorView<'t>,
    used_q: TensorView<'t>,
    used_k: TensorView<'t>,
}

impl Tensors {
    /// The tensors where they are.
    pub fn views(&self) -> Views<'_> {
        Views {
            q: self.q.view(),
            k: self.k.view(),
            v: self.v.view(),
            bias: self.bias.as_ref().map(Strided::view),
            mask: self.mask.as_ref().map(Strided::view),
            alibi: self.alibi.as_ref().map(Strided::view),
            sinks: self.sinks.as_ref().map(Strided::view),
            cu_q: list(&self.cu_q),
            cu_k: list(&self.cu_k),
            used_q: list(&self.used_q),
            used_k: list(&self.used_k),
        }
    }

    /// The tensors on a device: `upload` copies bytes there and tells their address.
    pub fn views_on<'t>(
        &'t self,
        device: Device,
        mut upload: impl FnMut(&[u8]) -> u64,
    ) -> Views<'t> {
        let mut strided = |tensor: &'t Strided| {
            let address = upload(&tensor.bytes());
            // SAFETY: the host reads nothing of another device's memory.
            unsafe { tensor.view_at(address, device) }
        };
        let [q, k, v] = [&self.q, &self.k, &self.v].map(&mut strided);
        let optional = [&self.bias, &self.mask, &self.alibi, &self.sinks];
        let [bias, mask, alibi, sinks] = optional.map(|x| x.as_ref().map(&mut strided));
        let mut list = |bytes: Vec<u8>, dtype: DType| {
            let shape = [bytes.len() / dtype.size()];
            let address = std::ptr::without_provenance(upload(&bytes) as usize);
            // SAFETY: as above.
            unsafe { TensorView::from_raw(address, dtype, device, &shape, &[1]) }.expect("a list")
        };
        let starts = |x: &[i32]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let lengths = |x: &[i64]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
        Views {
            q,
            k,
            v,
            bias,
            mask,
            alibi,
            sinks,
            cu_q: list(starts(&self.cu_q), DType::I32),
            cu_k: list(starts(&self.cu_k), DType::I32),
            used_q: list(lengths(&self.used_q), DType::I64),
            used_k: list(lengths(&self.used_k), DType::I64),
        }
    }
}

fn list<T: Element>(values: &[T]) -> TensorView<'_> {
    TensorView::from_slice(values, &[values.len()]).expect("a list")
}

impl Default for Case {
    /// Plain f32 attention, 2 sequences of 5 queries and 7 keys, 2 heads of 8.
    fn default() -> Self {
        Case {
            dtype: DType::F32,
            heads_k: 2,
            group: 1,
            head_dim: 8,
            head_dim_v: 8,
            lengths: vec![(5, 7); 2],
            packed: false,
            spare_rows: 0,
            unused: None,
            scale: None,
            causal: false,
            window: None,
            softcap: 0.0,
            bias: None,
            mask: None,
            alibi: None,
            sinks: false,
            dropout: None,
            starts: None,
            out_f32: false,
            deterministic: false,
            max_seqlens: None,
            layouts: std::array::from_fn(|_| Layout::default()),
            spread: 1.0,
            seed: 0,
        }
    }
}

impl Case {
    /// A dense case of one sequence.
    pub fn dense(batch: usize, queries: usize, keys: usize, heads: usize, head_dim: usize) -> Self {
        Case {
            lengths: vec![(queries, keys); batch],
            heads_k: heads,
            head_dim,
            head_dim_v: head_dim,
            ..Case::default()
        }
    }

    /// Query heads.
    pub fn heads_q(&self) -> usize {
        self.heads_k * self.group
    }

    /// Sequences.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// [B, S, H, D] or [total, H, D] of queries (0) or keys (1).
    fn shape(&self, side: usize, heads: usize, dim: usize) -> Vec<usize> {
        let length = |&(q, k): &(usize, usize)| if side == 0 { q } else { k };
        if self.packed {
            let total: usize = self.lengths.iter().map(length).sum();
            vec![total + self.spare_rows, heads, dim]
        } else {
            vec![self.batch(), self.lengths.first().map_or(3, length), heads, dim]
        }
    }

    fn longest(&self) -> (usize, usize) {
        let longest = |f: fn(&(usize, usize)) -> usize| self.lengths.iter().map(f).max();
        (longest(|l| l.0).unwrap_or(3), longest(|l| l.1).unwrap_or(3))
    }

    fn score_shape(&self, full: [bool; 4]) -> [usize; 4] {
        let (q, k) = self.longest();
        let sizes = [self.batch(), self.heads_q(), q, k];
        std::array::from_fn(|d| if full[d] { sizes[d] } else { 1 })
    }

    /// The tensors, filled from the seed.
    pub fn tensors(&self) -> Tensors {
        let rank = if self.packed { 3 } else { 4 };
        let head = rank - 2;
        let input = |n: u64, shape: &[usize], layout: &Layout, factor: f64| {
            // Only a whole batch or all heads share memory.
            let broadcast = layout.broadcast & (1 | 1 << head);
            let layout = Layout { broadcast, ..layout.clone() };
            Strided::new(self.dtype, shape, &layout, |i| factor * noise(self.seed * 16 + n, i))
        };
        let (hq, hk) = (self.heads_q(), self.heads_k);
        let q = self.shape(0, hq, self.head_dim);
        let [k, v] = [self.head_dim, self.head_dim_v].map(|dim| self.shape(1, hk, dim));
        let cu = |side: usize| {
            let mut at = 0i32;
            let lengths = self.lengths.iter().map(move |&(q, k)| if side == 0 { q } else { k });
            std::iter::once(0)
                .chain(lengths.map(move |n| {
                    at += n as i32;
                    at
                }))
                .collect::<Vec<i32>>()
        };
        let (spare_q, spare_k) = self.unused.unwrap_or((0, 0));
        Tensors {
            q: input(0, &q, &self.layouts[0], self.spread),
            k: input(1, &k, &self.layouts[1], 1.0),
            v: input(2, &v, &self.layouts[2], 1.0),
            bias: self.bias.map(|(full, wide)| {
                let dtype = if wide { DType::F32 } else { self.dtype };
                Strided::new(dtype, &self.score_shape(full), &self.layouts[3], |i| {
                    let x = noise(self.seed * 16 + 3, i);
                    if x > 1.2 { f64::NEG_INFINITY } else { x }
                })
            }),
            mask: self.mask.map(|full| {
                Strided::new(DType::Bool, &self.score_shape(full), &self.layouts[3], |i| {
                    f64::from(noise(self.seed * 16 + 4, i) < 0.8)
                })
            }),
            alibi: self.alibi.map(|per_sequence| {
                let shape = if per_sequence { vec![self.batch(), hq] } else { vec![hq] };
                Strided::new(DType::F32, &shape, &Layout::default(), |i| {
                    noise(self.seed * 16 + 5, i).abs() * 0.2
                })
            }),
            sinks: self.sinks.then(|| {
                Strided::new(DType::F32, &[hq], &Layout::default(), |i| {
                    noise(self.seed * 16 + 6, i)
                })
            }),
            cu_q: cu(0),
            cu_k: cu(1),
            used_q: self.lengths.iter().map(|l| l.0.saturating_sub(spare_q) as i64).collect(),
            used_k: self.lengths.iter().map(|l| l.1.saturating_sub(spare_k) as i64).collect(),
        }
    }

    /// The options, on these tensors.
    pub fn attention<'t>(&self, tensors: &'t Tensors) -> Attention<'t> {
        self.options(&tensors.views())
    }

    /// The options, on tensors wherever they are.
    pub fn options<'t>(&self, views: &Views<'t>) -> Attention<'t> {
        let mut a = Attention::new().softcap(self.softcap);
        if self.deterministic {
            a = a.deterministic();
        }
        if let Some((q, k)) = self.max_seqlens {
            a = a.max_seqlens(q, k);
        }
        if let Some(scale) = self.scale {
            a = a.scale(scale);
        }
        if self.causal {
            a = a.causal();
        }
        if let Some((left, right)) = self.window {
            a = a.window(left, right);
        }
        if let Some(bias) = views.bias {
            a = a.bias(bias);
        }
        if let Some(mask) = views.mask {
            a = a.mask(mask);
        }
        if let Some(slopes) = views.alibi {
            a = a.alibi_slopes(slopes);
        }
        if let Some(sinks) = views.sinks {
            a = a.sinks(sinks);
        }
        if let Some(p) = self.dropout {
            a = a.dropout(p, self.seed ^ 0xABCD_EF01_2345_6789, 11);
        }
        if let Some((q, k)) = self.starts {
            a = a.q_start(q).k_start(k);
        }
        if self.packed {
            a = a.cu_seqlens(views.cu_q, views.cu_k);
        }
        if self.unused.is_some() {
            a = a.seqused_q(views.used_q).seqused_k(views.used_k);
        }
        if self.out_f32 && self.dtype != DType::F64 {
            a = a.out_dtype(DType::F32);
        }
        a
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    let broadcast = prop_oneof![5 => Just(0u8), 1 => 0..16u8];
    (0..4usize, prop_oneof![2 => Just(0u8), 1 => 0..16u8], broadcast, 0..2usize, 0..4usize)
        .prop_map(|(rotate, reversed, broadcast, gap, lead)| Layout {
            rotate,
            reversed,
            broadcast,
            gap,
            lead,
        })
}

fn dims() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..40usize, 2 => Just(64usize), 1 => 65..140usize]
}

/// Any call with up to `longest` positions per sequence.
pub fn any_case(dtypes: &'static [DType], longest: usize) -> impl Strategy<Value = Case> {
    let length = move || prop_oneof![1 => Just(0usize), 2 => 1..8usize, 6 => 1..longest];
    let sizes = (
        prop::sample::select(dtypes),
        1..3usize,
        prop_oneof![3 => Just(1usize), 2 => 2..5usize, 1 => Just(7usize)],
        dims(),
        prop::option::weighted(0.3, dims()),
        prop::collection::vec((length(), length()), 1..4),
        any::<bool>(),
        0..3usize,
        prop::option::weighted(0.2, (0..9usize, 0..9usize)),
        any::<u64>(),
    );
    let flags = || any::<[bool; 4]>();
    let bound = || prop_oneof![Just(-1i64), 0..20i64, Just(i64::from(i32::MAX))];
    let options = (
        prop::option::weighted(0.3, prop::sample::select(&[0.3, -0.2, 0.0, 1.0][..])),
        any::<bool>(),
        prop::option::weighted(0.3, (bound(), bound())),
        prop_oneof![3 => Just(0.0), 1 => 0.5..20.0f64],
        prop::option::weighted(0.3, (flags(), any::<bool>())),
        prop::option::weighted(0.25, flags()),
        prop::option::weighted(0.25, any::<bool>()),
        prop::bool::weighted(0.25),
        prop::option::weighted(0.2, prop::sample::select(&[0.1, 0.5, 1.0][..])),
        prop::option::weighted(0.2, (-30..30i64, -30..30i64)),
        prop::bool::weighted(0.2),
    );
    let layouts = [layout(), layout(), layout(), layout()];
    let spread = prop_oneof![4 => Just(1.0), 1 => Just(5.0)];
    (sizes, options, layouts, spread).prop_map(|(sizes, options, layouts, spread)| {
        let (dtype, heads_k, group, head_dim, dv, mut lengths, packed, spare, unused, seed) = sizes;
        let (scale, causal, window, softcap, bias, mask, alibi, sinks, dropout, starts, out_f32) =
            options;
        if !packed {
            let first = lengths[0];
            lengths.fill(first);
        }
        Case {
            dtype,
            heads_k,
            group,
            head_dim,
            head_dim_v: dv.unwrap_or(head_dim),
            lengths,
            packed,
            spare_rows: spare,
            unused,
            scale,
            causal,
            window,
            softcap,
            bias,
            mask,
            alibi,
            sinks,
            dropout,
            starts,
            out_f32,
            deterministic: false,
            max_seqlens: None,
            layouts,
            // Scores of a hundred and more are for the tests of extremes.
            spread: if scale.is_some() { 1.0 } else { spread },
            seed: seed >> 8,
        }
    })
}
