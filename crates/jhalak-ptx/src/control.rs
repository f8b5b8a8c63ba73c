//! Control flow by closures. Kernels never write a label.
//!
//! What a closure emits is a list of instructions with branches in it. A branch that parts the
//! lanes of a warp knows where they meet again.

use crate::KernelBuilder;
use crate::instruction::control::{Branch, Return};
use crate::instruction::{Label, Operation};
use crate::register::{B32, Condition, Source};
use crate::{Comparison, register::Pred};

/// A loop that is being written: what [`KernelBuilder::break_if`] leaves.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    end: Label,
}

/// # Control flow
impl KernelBuilder {
    /// Guards each instruction of the body: lanes for which the condition does not hold skip it.
    /// For a few instructions; the body holds no control flow of its own except `ret`.
    #[track_caller]
    pub fn when<T>(
        &mut self,
        condition: impl Into<Condition>,
        body: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.forbid_guard();
        self.guard = Some(condition.into());
        let result = body(self);
        self.guard = None;
        result
    }

    /// Runs the body where the condition holds.
    #[track_caller]
    pub fn if_(&mut self, condition: impl Into<Condition>, body: impl FnOnce(&mut Self)) {
        let end = self.new_label();
        self.branch(!condition.into(), end, Some(end));
        body(self);
        self.bind(end);
    }

    /// Runs the first body where the condition holds, the second elsewhere.
    #[track_caller]
    pub fn if_else(
        &mut self,
        condition: impl Into<Condition>,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let (other, end) = (self.new_label(), self.new_label());
        self.branch(!condition.into(), other, Some(end));
        then(self);
        self.jump(end);
        self.bind(other);
        otherwise(self);
        self.bind(end);
    }

    /// Runs the body while the condition, computed before each round, holds.
    #[track_caller]
    pub fn while_<C: Into<Condition>>(
        &mut self,
        condition: impl FnOnce(&mut Self) -> C,
        body: impl FnOnce(&mut Self),
    ) {
        let (head, end) = (self.new_label(), self.new_label());
        self.bind(head);
        let condition = condition(self).into();
        self.branch(!condition, end, Some(end));
        body(self);
        self.jump(head);
        self.bind(end);
    }

    /// Runs the body once, and again while the condition that it returns holds.
    #[track_caller]
    pub fn do_while<C: Into<Condition>>(&mut self, body: impl FnOnce(&mut Self) -> C) {
        let (head, end) = (self.new_label(), self.new_label());
        self.bind(head);
        let condition = body(self).into();
        self.branch(condition, head, Some(end));
        self.bind(end);
    }

    /// Runs the body for i = start, start + step, … below end, all unsigned; end + step must be
    /// below 2³².
    #[track_caller]
    pub fn for_range(
        &mut self,
        start: impl Into<Source<B32>>,
        end: impl Into<Source<B32>>,
        step: u32,
        body: impl FnOnce(&mut Self, B32),
    ) {
        self.declare(step > 0, "for_range".to_owned(), "a range has a step above 0");
        let (head, done) = (self.new_label(), self.new_label());
        let end = end.into();
        let i = self.mov_b32(start);
        let more: Pred = self.setp_u32(Comparison::Lt, i, end);
        self.branch(!more, done, Some(done));
        self.bind(head);
        body(self, i);
        self.add_u32_to(i, i, step);
        self.setp_u32_to(more, Comparison::Lt, i, end);
        self.branch(more.into(), head, Some(done));
        self.bind(done);
    }

    /// Runs the body again and again, until [`break_if`](Self::break_if) leaves it.
    #[track_caller]
    pub fn loop_(&mut self, body: impl FnOnce(&mut Self, Loop)) {
        let (head, end) = (self.new_label(), self.new_label());
        self.bind(head);
        body(self, Loop { end });
        self.jump(head);
        self.bind(end);
    }

    /// Leaves the loop where the condition holds.
    #[track_caller]
    pub fn break_if(&mut self, from: Loop, condition: impl Into<Condition>) {
        self.branch(condition.into(), from.end, Some(from.end));
    }

    /// Gives a part of the block a body of its own, and its own end: where the condition holds, the
    /// body runs and the thread returns. What follows is for the others alone. Whole warps should
    /// agree on the condition. Nothing is shared after the body, which keeps ptxas from merging the
    /// register needs of the parts.
    #[track_caller]
    pub fn role(&mut self, condition: impl Into<Condition>, body: impl FnOnce(&mut Self)) {
        let others = self.new_label();
        self.branch(!condition.into(), others, None);
        body(self);
        self.ret();
        self.bind(others);
    }

    /// Ends the thread; inside [`when`](Self::when), where the condition holds.
    #[track_caller]
    pub fn ret(&mut self) {
        if self.guard.is_some() || !self.has_returned() {
            self.push(Return);
        }
    }

    /// Whether nothing can come to the next instruction: the last one returns, and no label follows.
    fn has_returned(&self) -> bool {
        let next = self.kernel.instructions.len();
        let returned = self.kernel.instructions.last().is_some_and(|last| {
            last.guard.is_none() && matches!(last.operation, Operation::Return(_))
        });
        returned && !self.kernel.labels.contains(&next)
    }

    /// Goes to `target` where the condition holds.
    #[track_caller]
    pub(crate) fn branch(
        &mut self,
        condition: Condition,
        target: Label,
        reconverge: Option<Label>,
    ) {
        self.forbid_guard();
        self.push_guarded(Some(condition), Branch { target, reconverge }.into());
    }

    #[track_caller]
    fn jump(&mut self, target: Label) {
        self.forbid_guard();
        self.push(Branch { target, reconverge: None });
    }

    #[track_caller]
    fn forbid_guard(&mut self) {
        let rule = "`when` guards single instructions; control flow inside needs `if_`";
        self.declare(self.guard.is_none(), "a guarded body".to_owned(), rule);
    }
}
