//! What is measured: shapes, dtypes and directions.

use jhalak_problem::DType;

/// One row of the table, but for the number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub dtype: DType,
    pub heads: usize,
    pub heads_k: usize,
    pub seqlen: usize,
    pub head_dim: usize,
    pub causal: bool,
    pub backward: bool,
    /// One query only, on `seqlen` keys.
    pub decode: bool,
}

impl Case {
    const fn new(seqlen: usize, head_dim: usize) -> Self {
        Case {
            dtype: DType::F32,
            heads: 8,
            heads_k: 8,
            seqlen,
            head_dim,
            causal: false,
            backward: false,
            decode: false,
        }
    }

    /// All of them, shapes in the order of the table.
    pub fn all() -> Vec<Case> {
        let mut shapes = Vec::new();
        for head_dim in [128, 64] {
            for seqlen in [512, 1024, 2048, 4096] {
                let full = Case::new(seqlen, head_dim);
                shapes.extend([full, Case { causal: true, ..full }]);
            }
        }
        let grouped = Case { heads_k: 2, ..Case::new(2048, 128) };
        shapes.extend([grouped, Case { causal: true, ..grouped }]);
        let mut cases: Vec<Case> =
            shapes.into_iter().flat_map(|c| [c, Case { backward: true, ..c }]).collect();
        for dtype in [DType::BF16, DType::F16] {
            cases.extend([2048, 4096].map(|seqlen| Case { dtype, ..Case::new(seqlen, 128) }));
        }
        cases
    }

    /// What the project's goals are stated for: the largest share of the peak is asked here.
    pub fn is_headline(&self) -> bool {
        let forward = Case { backward: false, ..*self };
        forward == Case::new(4096, 128)
    }

    /// The share of the peak that a headline row must reach.
    pub fn goal(&self) -> Option<f64> {
        let goal = if self.backward { 0.35 } else { 0.55 };
        self.is_headline().then_some(goal)
    }

    pub fn queries(&self) -> usize {
        if self.decode { 1 } else { self.seqlen }
    }

    /// The shape, such as `H8 S4096 D128 causal`.
    pub fn shape(&self) -> String {
        let Case { heads, heads_k, seqlen, head_dim, .. } = self;
        let group = if heads == heads_k { String::new() } else { format!("/{heads_k}") };
        let mask = if self.causal { "causal" } else { "full" };
        format!("H{heads}{group} S{seqlen} D{head_dim} {mask}")
    }

    pub fn direction(&self) -> &'static str {
        if self.backward { "backward" } else { "forward" }
    }

    /// What `--filter` looks in.
    pub fn name(&self) -> String {
        let mark = if self.is_headline() { " headline" } else { "" };
        format!("{} {} {}{mark}", self.dtype, self.shape(), self.direction())
    }

    /// Floating-point operations of the products that attention needs; the softmax, and what an
    /// algorithm computes a second time, are not counted.
    pub fn flops(&self) -> f64 {
        let products = if self.backward { 10.0 } else { 4.0 };
        let visible = if self.causal { 0.5 } else { 1.0 };
        let pairs = (self.heads * self.seqlen * self.seqlen) as f64;
        products * visible * pairs * self.head_dim as f64
    }
}
