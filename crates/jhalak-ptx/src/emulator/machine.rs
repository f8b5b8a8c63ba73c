//! Runs the blocks of a grid: a few at once, their warps in bursts, in an order that the seed picks.

use super::arena::Arena;
use super::block::Block;
use super::execute::{Context, execute};
use super::fault::{Fault, Place, Report, Trouble};
use super::launch::{Grid, Statistics};
use super::random::Random;
use crate::instruction::Operation;

/// At most so many blocks are under way at once.
const RESIDENT: usize = 4;
/// At most so many instructions of a warp in a row.
const LONGEST_BURST: usize = 64;
/// A warp that has looked so often at what nobody changes lets others go first.
const PATIENCE: u32 = 2;
/// If all have looked so often, nothing will change any more.
const DEADLOCK: u32 = 64;

/// What becomes of a path after an instruction.
pub(super) enum Flow {
    /// It goes on with the next instruction.
    Next,
    /// It goes on there.
    Jump(usize),
    /// The lanes of `taken` go there, the others to the next instruction.
    Part { taken: u32, target: usize, reconverge: Option<usize> },
    /// These lanes have ended.
    Exit(u32),
    /// It goes on with the next instruction, after others had their turn.
    Yield,
    /// It tries the same instruction again, after others had their turn.
    Stay,
}

pub(super) struct Machine<'a> {
    pub(super) grid: &'a Grid<'a>,
    pub(super) memory: &'a mut Arena,
    pub(super) random: Random,
    /// The blocks that have not begun, the next one last.
    waiting: Vec<u32>,
    pub(super) resident: Vec<Block>,
    most_resident: usize,
    /// Of how many bursts one lets something asynchronous end early; 0 for none.
    eagerness: usize,
    steps: u64,
    /// Counts whatever a waiting warp might wait for.
    pub(super) progress: u64,
    /// Of each instruction, whether a label stands before it: paths may meet there.
    is_label: Vec<bool>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(grid: &'a Grid<'a>, memory: &'a mut Arena) -> Self {
        memory.forget_accesses();
        let mut random = Random::new(grid.seed);
        let mut waiting: Vec<u32> = (0..grid.block_count()).rev().collect();
        if !grid.in_order {
            random.shuffle(&mut waiting);
        }
        let mut is_label = vec![false; grid.kernel.instructions.len()];
        grid.kernel.labels.iter().for_each(|position| is_label[*position] = true);
        let most_resident = 1 + random.below(RESIDENT);
        let eagerness = [0, 1, 8][random.below(3)];
        Machine {
            grid,
            memory,
            random,
            waiting,
            resident: Vec::new(),
            most_resident,
            eagerness,
            steps: 0,
            progress: 0,
            is_label,
        }
    }

    /// Runs all blocks to their end.
    pub(super) fn run(mut self) -> Result<Statistics, Report> {
        loop {
            self.retire()?;
            while self.resident.len() < self.most_resident
                && let Some(block) = self.waiting.pop()
            {
                self.resident.push(self.grid.block(block));
            }
            if self.resident.is_empty() {
                return Ok(Statistics { instructions: self.steps });
            }
            let (block, warp) = self.choose()?;
            self.burst(block, warp)?;
        }
    }

    /// A warp that can go on. Those that look at memory in vain come last.
    fn choose(&mut self) -> Result<(usize, usize), Report> {
        if let Some(chosen) = self.choose_patient(PATIENCE) {
            return Ok(chosen);
        }
        if self.force()? {
            self.progress += 1;
        }
        self.choose_patient(DEADLOCK).ok_or_else(|| self.deadlock())
    }

    fn choose_patient(&mut self, patience: u32) -> Option<(usize, usize)> {
        let mut candidates = Vec::new();
        for (b, block) in self.resident.iter().enumerate() {
            for (w, warp) in block.warps.iter().enumerate() {
                let patient = warp.looks.in_vain(self.progress) < patience;
                if !warp.has_ended() && warp.waiting.is_none() && patient {
                    candidates.push((b, w));
                }
            }
        }
        let count = candidates.len();
        (count > 0).then(|| candidates[self.random.below(count)])
    }

    fn deadlock(&self) -> Report {
        let mut waiting = Vec::new();
        for block in &self.resident {
            for warp in block.warps.iter().filter(|warp| !warp.has_ended()) {
                let looking = warp.looks.last().map_or(0, |(at, _)| at);
                let at = warp.waiting.map_or(looking, |waiting| waiting.at);
                let index = block.shared.index;
                let place = Place::new(self.grid.kernel, at, index, warp.number, None);
                waiting.push((place, block.missing(warp)));
            }
        }
        let place = waiting.first().map(|(place, _)| Box::new(place.clone()));
        self.grid.report(Fault::Deadlock { waiting }, place)
    }

    /// Runs a warp for a while.
    fn burst(&mut self, block: usize, warp: usize) -> Result<(), Report> {
        if self.eagerness > 0 && self.random.below(self.eagerness) == 0 {
            self.end_something(block, warp)?;
        }
        self.arrive_for_copies(block, warp)?;
        let mut path = self.choose_path(block, warp);
        for _ in 0..1 + self.random.below(LONGEST_BURST) {
            let at = self.resident[block].warps[warp].paths.ready[path].at;
            let flow = self.step(block, warp, path).map_err(|trouble| {
                let shared = &self.resident[block].shared;
                let Trouble { lane, cause } = trouble;
                let fault = cause.into_fault(self.grid.kernel, |block| self.grid.index_of(block));
                let place = Place::new(self.grid.kernel, at, shared.index, warp, lane);
                self.grid.report(fault, Some(Box::new(place)))
            })?;
            self.steps += 1;
            if self.steps > self.grid.step_limit {
                let index = self.resident[block].shared.index;
                let place = Place::new(self.grid.kernel, at, index, warp, None);
                let fault = Fault::StepLimit { steps: self.grid.step_limit };
                return Err(self.grid.report(fault, Some(Box::new(place))));
            }
            if let Flow::Exit(lanes) = flow {
                self.check_exit(block, warp, lanes)?;
            }
            let paths = &mut self.resident[block].warps[warp].paths;
            let goes_on = match flow {
                Flow::Next | Flow::Yield if !self.is_label[at + 1] => {
                    paths.ready[path].at = at + 1;
                    true
                }
                Flow::Next | Flow::Yield => paths.go(path, at + 1),
                Flow::Stay => return Ok(()),
                Flow::Jump(target) => paths.go(path, target),
                Flow::Part { taken, target, reconverge } => {
                    paths.part(path, taken, target, reconverge);
                    false
                }
                Flow::Exit(lanes) => {
                    self.progress += 1;
                    paths.exit(path, lanes);
                    false
                }
            };
            self.resident[block].wake();
            let state = &self.resident[block].warps[warp];
            if state.has_ended() || state.waiting.is_some() || matches!(flow, Flow::Yield) {
                return Ok(());
            }
            if !goes_on {
                path = self.choose_path(block, warp);
            }
        }
        Ok(())
    }

    fn choose_path(&mut self, block: usize, warp: usize) -> usize {
        let count = self.resident[block].warps[warp].paths.ready.len();
        if count == 1 { 0 } else { self.random.below(count) }
    }

    /// Executes one instruction of a path.
    fn step(&mut self, block: usize, warp: usize, path: usize) -> Result<Flow, Trouble> {
        let Block { warps, shared } = &mut self.resident[block];
        let warp = &mut warps[warp];
        let lanes = warp.paths.ready[path].lanes;
        let at = warp.paths.ready[path].at;
        let instruction = &self.grid.kernel.instructions[at];
        let mask = match instruction.guard {
            None => lanes,
            Some(guard) => lanes & warp.registers.condition(guard, lanes)?,
        };
        match &instruction.operation {
            Operation::Branch(branch) => {
                let target = self.grid.kernel.position(branch.target);
                let reconverge = branch.reconverge.map(|label| self.grid.kernel.position(label));
                Ok(match mask {
                    0 => Flow::Next,
                    taken if taken == lanes => Flow::Jump(target),
                    taken => Flow::Part { taken, target, reconverge },
                })
            }
            _ if mask == 0 => Ok(Flow::Next),
            Operation::Return(_) => Ok(Flow::Exit(mask)),
            operation => {
                let mut context = Context {
                    grid: self.grid,
                    memory: self.memory,
                    shared,
                    warp,
                    random: &mut self.random,
                    progress: &mut self.progress,
                    lanes: mask,
                    at,
                };
                let flow = execute(&mut context, operation)?;
                warp.registers.check_violation()?;
                Ok(flow)
            }
        }
    }
}
