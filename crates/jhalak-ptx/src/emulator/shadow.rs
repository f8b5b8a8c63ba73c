//! What is remembered of every word of memory, so that races are found: the last write, and the
//! reads since.
//!
//! Two accesses of one place, one of them a write, must be ordered, or both be strong (atomic,
//! volatile or relaxed). A word that is accessed in parts is watched byte by byte from then on.

use super::clock::{AGENTS, Clock, GENERIC};
use crate::address::Space;

/// The access is atomic, volatile, relaxed, an acquire or a release.
pub(super) const STRONG: u8 = 1;
/// The access promises that nobody writes while the kernel runs.
pub(super) const READ_ONLY: u8 = 2;

/// The access goes through the async proxy.
pub(super) const ASYNC: u8 = 4;

/// An access, as it is remembered. Epoch 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) block: u32,
    pub(super) lanes: u32,
    pub(super) epoch: u32,
    /// The instruction's index.
    pub(super) instruction: u32,
    pub(super) agent: u16,
    /// The warp whose instruction it was.
    pub(super) warp: u8,
    pub(super) flags: u8,
}

impl Access {
    fn is_none(&self) -> bool {
        self.epoch == 0
    }

    fn is_by(&self, other: &Access) -> bool {
        (self.block, self.agent) == (other.block, other.agent)
    }

    fn is_of(&self, other: &Access) -> bool {
        self.is_by(other) && self.epoch == other.epoch
    }
}

/// Who accesses memory now, and what it knows.
pub(super) struct Observer<'a> {
    pub(super) space: Space,
    pub(super) block: u32,
    pub(super) warp: usize,
    /// The lane whose own past counts as known; `None` for what a warp does as a whole.
    pub(super) lane: Option<u32>,
    pub(super) clock: &'a Clock,
    /// Of each of the warp's agents, up to which epoch this lane has waited for its own work.
    pub(super) done: [u32; AGENTS],
}

impl Observer<'_> {
    /// Whether an earlier access happened before.
    fn follows(&self, other: &Access) -> bool {
        if other.block != self.block {
            let Access { block, agent, lanes, epoch, .. } = *other;
            return self.clock.covers_foreign(block, agent, lanes, epoch);
        }
        let mut lanes = other.lanes;
        let agent = usize::from(other.agent);
        if agent / AGENTS == self.warp {
            let kind = agent % AGENTS;
            if kind == GENERIC || self.done[kind] >= other.epoch {
                lanes &= !self.lane.map_or(0, |lane| 1 << lane);
            }
        }
        lanes == 0 || self.clock.covers(other.agent, lanes, other.epoch)
    }

    /// Whether the async proxy sees a write that happened before.
    fn sees(&self, other: &Access) -> bool {
        other.flags & ASYNC != 0
            || other.block != self.block
            || self.clock.covers_fenced(self.space, (other.agent, other.lanes, other.epoch))
    }
}

/// What is wrong between two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Nothing orders them.
    Unordered,
    /// No proxy fence stands between them.
    Unfenced,
    /// One of them promised that nobody writes.
    ReadOnly,
}

/// Two accesses that may not be as they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub(super) other: Access,
    pub(super) other_wrote: bool,
    pub(super) wrong: Wrong,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Access,
    read: Access,
    /// 1 + the index of further reads, or 0.
    more: u32,
    /// 1 + the index of the four bytes' own cells, or 0.
    split: u32,
}

const PAGE: usize = 256;
type Page = Box<[Cell; PAGE]>;

/// The shadow of one piece of memory, made page by page as it is touched.
#[derive(Default)]
pub(super) struct Shadow {
    pages: Vec<Option<Page>>,
    splits: Vec<[Cell; 4]>,
    reads: Vec<Vec<Access>>,
}

impl Shadow {
    /// Checks and remembers a read of bytes `start..start + bytes`.
    pub(super) fn read(
        &mut self,
        start: usize,
        bytes: usize,
        access: Access,
        observer: &Observer<'_>,
    ) -> Result<(), Conflict> {
        self.each_cell(start, bytes, |cell, reads| read_cell(cell, reads, access, observer))
    }

    /// Checks a read that nobody needs to remember.
    pub(super) fn peek(
        &mut self,
        start: usize,
        bytes: usize,
        access: Access,
        observer: &Observer<'_>,
    ) -> Result<(), Conflict> {
        self.each_cell(start, bytes, |cell, _| {
            let other = cell.write;
            after_write(&other, &access, observer)
                .map_or(Ok(()), |wrong| Err(Conflict { other, other_wrote: true, wrong }))
        })
    }

    /// Checks and remembers a write (or an atomic read and write) of bytes `start..start + bytes`.
    pub(super) fn write(
        &mut self,
        start: usize,
        bytes: usize,
        access: Access,
        observer: &Observer<'_>,
    ) -> Result<(), Conflict> {
        self.each_cell(start, bytes, |cell, reads| write_cell(cell, reads, access, observer))
    }

    fn each_cell(
        &mut self,
        start: usize,
        bytes: usize,
        mut visit: impl FnMut(&mut Cell, &mut Vec<Vec<Access>>) -> Result<(), Conflict>,
    ) -> Result<(), Conflict> {
        let Shadow { pages, splits, reads } = self;
        let end = start + bytes;
        let mut at = start;
        while at < end {
            let (word, first) = (at / 4, at % 4);
            let last = (first + end - at).min(4);
            at += last - first;
            if pages.len() <= word / PAGE {
                pages.resize_with(word / PAGE + 1, || None);
            }
            let page = pages[word / PAGE].get_or_insert_with(|| Box::new([Cell::default(); PAGE]));
            let cell = &mut page[word % PAGE];
            if last - first == 4 && cell.split == 0 {
                visit(cell, reads)?;
                continue;
            }
            if cell.split == 0 {
                let parts = [(); 4].map(|()| copy_of(cell, reads));
                splits.push(parts);
                cell.split = splits.len() as u32;
            }
            for byte in &mut splits[cell.split as usize - 1][first..last] {
                visit(byte, reads)?;
            }
        }
        Ok(())
    }
}

fn copy_of(cell: &Cell, reads: &mut Vec<Vec<Access>>) -> Cell {
    let mut copy = *cell;
    if cell.more != 0 {
        reads.push(reads[cell.more as usize - 1].clone());
        copy.more = reads.len() as u32;
    }
    copy
}

/// What is wrong with an access after a write.
fn after_write(write: &Access, access: &Access, observer: &Observer<'_>) -> Option<Wrong> {
    if write.is_none() {
        None
    } else if access.flags & READ_ONLY != 0 {
        Some(Wrong::ReadOnly)
    } else if access.flags & write.flags & STRONG != 0 {
        None
    } else if !observer.follows(write) {
        Some(Wrong::Unordered)
    } else if access.flags & ASYNC != 0 && !observer.sees(write) {
        Some(Wrong::Unfenced)
    } else {
        None
    }
}

fn read_cell(
    cell: &mut Cell,
    reads: &mut Vec<Vec<Access>>,
    mut access: Access,
    observer: &Observer<'_>,
) -> Result<(), Conflict> {
    let other = cell.write;
    if let Some(wrong) = after_write(&other, &access, observer) {
        return Err(Conflict { other, other_wrote: true, wrong });
    }
    // What happened before this read needs no memory of its own: whoever follows this follows that.
    if cell.read.is_none() {
        cell.read = access;
    } else if cell.read.is_of(&access) {
        cell.read.lanes |= access.lanes;
        cell.read.flags = merged_flags(&cell.read, &access);
    } else if cell.more == 0 && observer.follows(&cell.read) {
        access.flags |= cell.read.flags & READ_ONLY;
        cell.read = access;
    } else {
        if cell.more == 0 {
            reads.push(Vec::new());
            cell.more = reads.len() as u32;
        }
        let others = &mut reads[cell.more as usize - 1];
        if let Some(same) = others.iter_mut().find(|other| other.is_of(&access)) {
            same.lanes |= access.lanes;
            same.flags = merged_flags(same, &access);
            return Ok(());
        }
        let by = access;
        for other in others.iter_mut().filter(|other| other.is_by(&by)) {
            // An agent's lane goes forward: its later read stands for the earlier one.
            other.lanes &= !access.lanes;
            access.flags |= other.flags & READ_ONLY;
        }
        others.retain(|other| {
            other.lanes != 0 && (other.flags & READ_ONLY != 0 || !observer.follows(other))
        });
        others.push(access);
    }
    Ok(())
}

/// A set of reads is strong when all are, and read-only when one is.
fn merged_flags(a: &Access, b: &Access) -> u8 {
    (a.flags & b.flags & STRONG) | ((a.flags | b.flags) & READ_ONLY)
}

fn write_cell(
    cell: &mut Cell,
    reads: &mut [Vec<Access>],
    access: Access,
    observer: &Observer<'_>,
) -> Result<(), Conflict> {
    if let Some(wrong) = after_write(&cell.write, &access, observer) {
        return Err(Conflict { other: cell.write, other_wrote: true, wrong });
    }
    let empty = Vec::new();
    let more = if cell.more == 0 { &empty } else { &reads[cell.more as usize - 1] };
    for read in std::iter::once(&cell.read).chain(more).filter(|read| !read.is_none()) {
        let wrong = if read.flags & READ_ONLY != 0 {
            Wrong::ReadOnly
        } else if access.flags & read.flags & STRONG != 0 || observer.follows(read) {
            continue;
        } else {
            Wrong::Unordered
        };
        return Err(Conflict { other: *read, other_wrote: false, wrong });
    }
    cell.write = access;
    cell.read = Access::default();
    if cell.more != 0 {
        reads[cell.more as usize - 1].clear();
    }
    Ok(())
}
