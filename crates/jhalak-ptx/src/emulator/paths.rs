//! Which lanes of a warp are where.
//!
//! Lanes that go together are a path. A branch that parts them leaves a join at the place where
//! they meet again; there the first ones wait. A lane that jumps beyond a join (a break out of an
//! enclosing loop) or returns is no longer waited for.

/// Lanes at the same instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) at: usize,
    pub(super) lanes: u32,
}

/// A place where lanes meet again.
#[derive(Clone, Copy, Debug)]
struct Join {
    at: usize,
    expected: u32,
    arrived: u32,
}

/// The paths of a warp.
#[derive(Debug)]
pub(super) struct Paths {
    /// Those that can go on.
    pub(super) ready: Vec<Path>,
    /// Inner ones before outer ones: by place.
    joins: Vec<Join>,
    /// The lanes that have not returned.
    pub(super) alive: u32,
}

impl Paths {
    /// All lanes at the first instruction.
    pub(super) fn new(lanes: u32) -> Self {
        Paths { ready: vec![Path { at: 0, lanes }], joins: Vec::new(), alive: lanes }
    }

    /// Moves a path. Returns whether it goes on as path `index`; else its lanes wait at a join, or
    /// have met others there.
    pub(super) fn go(&mut self, index: usize, at: usize) -> bool {
        let lanes = self.ready[index].lanes;
        if !self.joins.iter().any(|join| join.at <= at && join.expected & lanes != 0) {
            self.ready[index].at = at;
            return true;
        }
        self.ready.swap_remove(index);
        self.arrive(Path { at, lanes });
        false
    }

    /// Parts a path: `taken` go to `target`, the others to the next instruction.
    pub(super) fn part(
        &mut self,
        index: usize,
        taken: u32,
        target: usize,
        reconverge: Option<usize>,
    ) {
        let path = self.ready.swap_remove(index);
        if let Some(at) = reconverge {
            self.expect(at, path.lanes);
        }
        self.arrive(Path { at: path.at + 1, lanes: path.lanes & !taken });
        self.arrive(Path { at: target, lanes: taken });
    }

    /// Ends these lanes of a path. The others go on to the next instruction.
    pub(super) fn exit(&mut self, index: usize, lanes: u32) {
        let path = self.ready.swap_remove(index);
        self.alive &= !lanes;
        self.leave(lanes, |_| true);
        if path.lanes & !lanes != 0 {
            self.arrive(Path { at: path.at + 1, lanes: path.lanes & !lanes });
        }
    }

    /// From now on these lanes, and those that will meet them before, meet at this place.
    fn expect(&mut self, at: usize, lanes: u32) {
        let inner = self.joins.iter().filter(|join| join.at < at && join.expected & lanes != 0);
        let lanes = inner.fold(lanes, |lanes, join| lanes | join.expected);
        if let Some(join) = self.joins.iter_mut().find(|j| j.at == at && j.expected & lanes != 0) {
            join.expected |= lanes;
            return;
        }
        let place = self.joins.partition_point(|join| join.at < at);
        self.joins.insert(place, Join { at, expected: lanes, arrived: 0 });
    }

    /// Lanes come to a place: they go on there, or wait.
    fn arrive(&mut self, path: Path) {
        let Path { at, lanes } = path;
        self.leave(lanes, |join| join.at < at);
        let Some(index) = self.joins.iter().position(|j| j.at == at && j.expected & lanes != 0)
        else {
            self.ready.push(path);
            return;
        };
        self.joins[index].arrived |= lanes;
        self.complete(index);
    }

    /// Lanes leave the joins that they will never come to.
    fn leave(&mut self, lanes: u32, which: impl Fn(&Join) -> bool) {
        for index in (0..self.joins.len()).rev() {
            if which(&self.joins[index]) && self.joins[index].expected & lanes != 0 {
                self.joins[index].expected &= !lanes;
                self.complete(index);
            }
        }
    }

    /// Lets the lanes at a join go on if all have come.
    fn complete(&mut self, index: usize) {
        let Join { at, expected, arrived } = self.joins[index];
        if arrived == expected {
            self.joins.remove(index);
            if arrived != 0 {
                self.ready.push(Path { at, lanes: arrived });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_branch_meet_again() {
        let mut paths = Paths::new(0b1111);
        paths.part(0, 0b0011, 5, Some(9));
        assert_eq!(paths.ready.len(), 2);
        let first = paths.ready[0].lanes;
        assert!(!paths.go(0, 9));
        assert_eq!(paths.ready.len(), 1);
        assert_eq!(paths.ready[0].lanes, 0b1111 & !first);
        assert!(!paths.go(0, 9));
        assert_eq!(paths.ready, [Path { at: 9, lanes: 0b1111 }]);
    }

    #[test]
    fn a_break_inside_a_branch_meets_the_others_at_the_end_of_the_loop() {
        // loop { if a { if b { break } } ... } : the `if` ends at 5, the loop at 9.
        let mut paths = Paths::new(0b111);
        paths.part(0, 0b001, 5, Some(5)); // lane 0 skips the `if` and waits at 5
        assert_eq!(paths.ready, [Path { at: 1, lanes: 0b110 }]);
        paths.part(0, 0b010, 9, Some(9)); // lane 1 breaks
        assert_eq!(paths.ready, [Path { at: 2, lanes: 0b100 }]);
        assert!(!paths.go(0, 5));
        assert_eq!(paths.ready, [Path { at: 5, lanes: 0b101 }]);
        assert!(!paths.go(0, 9));
        assert_eq!(paths.ready, [Path { at: 9, lanes: 0b111 }]);
    }

    #[test]
    fn nobody_waits_for_lanes_that_return() {
        let mut paths = Paths::new(0b11);
        paths.part(0, 0b01, 4, Some(4));
        assert_eq!(paths.ready, [Path { at: 1, lanes: 0b10 }]);
        paths.exit(0, 0b10);
        assert_eq!(paths.ready, [Path { at: 4, lanes: 0b01 }]);
        assert_eq!(paths.alive, 0b01);
    }
}
