//! Which keys a query sees by position: the only mask geometry.
//!
//! Query i of a sequence stands at position p, key j at its own position; a window (left, right)
//! shows the keys with p − left ≤ position ≤ p + right. Causal is right = 0. Both bounds grow with
//! i, so the visible keys of a row are one range, and a tile's class follows from its first and
//! last row:
//!
//! ```text
//!            keys →            ■ full tile: no mask is needed
//!          ┌────┬────┬────┐    ◪ partial tile: masked element by element
//!  queries │ ◪  │ ·  │ ·  │    · empty tile: skipped
//!     ↓    ├────┼────┼────┤
//!          │ ■  │ ◪  │ ·  │
//!          └────┴────┴────┘
//! ```

use std::ops::Range;

/// What a tile of scores looks like by position alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileClass {
    /// No query of the tile sees any of its keys.
    Empty,
    /// Every query of the tile sees all of its keys.
    Full,
    /// Anything else.
    Partial,
}

/// The keys that the queries of one sequence see by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    seqlen_q: usize,
    seqlen_k: usize,
    /// Query i sits on key i + `shift`, in key indices.
    shift: i64,
    /// Keys before that one which are visible; `i64::MAX` is unbounded.
    left: i64,
    /// Keys after it which are visible; `i64::MAX` is unbounded.
    right: i64,
}

impl Visibility {
    /// `shift` is the key index on which query 0 sits; `left` and `right` are at least 0, with
    /// `i64::MAX` for unbounded.
    pub fn new(seqlen_q: usize, seqlen_k: usize, shift: i64, left: i64, right: i64) -> Self {
        debug_assert!(left >= 0 && right >= 0);
        Visibility { seqlen_q, seqlen_k, shift, left, right }
    }

    /// Whether every query sees every key.
    pub fn is_everything(&self) -> bool {
        self.tile(0..self.seqlen_q, 0..self.seqlen_k) == TileClass::Full
    }

    /// The key index on which query `i` sits; may lie outside the keys.
    #[inline]
    pub fn diagonal(&self, i: usize) -> i64 {
        self.shift.saturating_add(i as i64)
    }

    /// The keys that query `i` sees; empty ranges are `0..0`.
    #[inline]
    pub fn keys(&self, i: usize) -> Range<usize> {
        self.keys_of(i..i + 1)
    }

    /// The keys that at least one of these queries sees, and those between.
    pub fn keys_of(&self, queries: Range<usize>) -> Range<usize> {
        if queries.is_empty() {
            return 0..0;
        }
        let low = self.first_key(queries.start);
        let high = self.end_key(queries.end - 1);
        if low < high { low..high } else { 0..0 }
    }

    /// The queries that see at least one of these keys, and those between.
    pub fn queries_of(&self, keys: Range<usize>) -> Range<usize> {
        if keys.is_empty() {
            return 0..0;
        }
        let clamp = |i: i64| i.clamp(0, self.seqlen_q as i64) as usize;
        // i + shift + right ≥ first key, and i + shift − left ≤ last key.
        let low = (keys.start as i64).saturating_sub(self.right).saturating_sub(self.shift);
        let last = (keys.end as i64 - 1).saturating_add(self.left).saturating_sub(self.shift);
        let (low, high) = (clamp(low), clamp(last.saturating_add(1)));
        if low < high { low..high } else { 0..0 }
    }

    /// The class of the tile of these queries and keys.
    pub fn tile(&self, queries: Range<usize>, keys: Range<usize>) -> TileClass {
        let seen = self.keys_of(queries.clone());
        if keys.is_empty() || seen.end <= keys.start || keys.end <= seen.start {
            TileClass::Empty
        } else if self.first_key(queries.end - 1) <= keys.start
            && keys.end <= self.end_key(queries.start)
        {
            TileClass::Full
        } else {
            TileClass::Partial
        }
    }

    fn first_key(&self, i: usize) -> usize {
        let key = self.diagonal(i).saturating_sub(self.left);
        key.clamp(0, self.seqlen_k as i64) as usize
    }

    fn end_key(&self, i: usize) -> usize {
        let key = self.diagonal(i).saturating_add(self.right).saturating_add(1);
        key.clamp(0, self.seqlen_k as i64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNBOUNDED: i64 = i64::MAX;

    fn sees(v: &Visibility, i: usize, j: usize) -> bool {
        v.keys(i).contains(&j)
    }

    #[test]
    fn causal_is_aligned_to_the_bottom_right() {
        let v = Visibility::new(2, 5, 3, UNBOUNDED, 0);
        assert_eq!(v.keys(0), 0..4);
        assert_eq!(v.keys(1), 0..5);
        let v = Visibility::new(5, 2, -3, UNBOUNDED, 0);
        assert_eq!([0, 1, 2].map(|i| v.keys(i)), [0..0, 0..0, 0..0]);
        assert_eq!([3, 4].map(|i| v.keys(i)), [0..1, 0..2]);
    }

    #[test]
    fn a_window_is_inclusive_on_both_sides() {
        let v = Visibility::new(10, 10, 0, 2, 0);
        assert_eq!(v.keys(5), 3..6);
        let v = Visibility::new(10, 10, 0, 0, 1);
        assert_eq!(v.keys(9), 9..10);
    }

    #[test]
    fn bounds_saturate() {
        for bound in [i64::MAX, i64::MAX - 1, i64::from(i32::MAX)] {
            for shift in [-(1 << 40), -1, 0, 1, 1 << 40] {
                let v = Visibility::new(3, 4, shift, bound, bound);
                if bound > 1 << 50 {
                    assert!(v.is_everything());
                }
                assert!(v.keys(2).end <= 4);
            }
        }
        assert!(Visibility::new(3, 4, i64::MAX, UNBOUNDED, UNBOUNDED).is_everything());
    }

    /// Every range and class agrees with the definition, element by element, on all small cases.
    #[test]
    fn ranges_and_tile_classes_agree_with_the_definition() {
        let bounds = [0, 1, 3, UNBOUNDED];
        for (sq, sk) in [(1, 1), (3, 5), (5, 3), (6, 6), (0, 4), (4, 0)] {
            for shift in -7..8i64 {
                for (left, right) in bounds.iter().flat_map(|&l| bounds.map(|r| (l, r))) {
                    let v = Visibility::new(sq, sk, shift, left, right);
                    for i in 0..sq {
                        for j in 0..sk {
                            let distance = j as i64 - (i as i64 + shift);
                            let visible = -distance <= left && distance <= right;
                            assert_eq!(sees(&v, i, j), visible, "{v:?} {i} {j}");
                            assert!(!visible || v.queries_of(j..j + 1).contains(&i));
                        }
                    }
                    for q0 in 0..sq {
                        for q1 in q0 + 1..=sq {
                            check_tiles(&v, q0..q1, sk);
                        }
                    }
                }
            }
        }
    }

    fn check_tiles(v: &Visibility, queries: Range<usize>, seqlen_k: usize) {
        for k0 in 0..seqlen_k {
            for k1 in k0 + 1..=seqlen_k {
                let cells = queries.clone().flat_map(|i| (k0..k1).map(move |j| (i, j)));
                let seen = cells.clone().filter(|&(i, j)| sees(v, i, j)).count();
                match v.tile(queries.clone(), k0..k1) {
                    TileClass::Empty => assert_eq!(seen, 0),
                    TileClass::Full => assert_eq!(seen, cells.count()),
                    TileClass::Partial => assert!(seen < cells.count()),
                }
            }
        }
    }
}
