//! What lanes tell each other.

use super::case::{ALWAYS, Form, SM90};

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(ALWAYS, "shfl.sync.idx.b32 %r8, %r0, %r1, 31, 0xffffffff;", |k, i| {
            k.shfl_idx_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shfl.sync.idx.b32 %f8, %f0, 2, 31, 0xffffffff;", |k, i| {
            k.shfl_idx_f32(i.f[0], 2);
        }),
        Form::new(ALWAYS, "shfl.sync.bfly.b32 %r8, %r0, %r1, 31, 0xffffffff;", |k, i| {
            k.shfl_bfly_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shfl.sync.bfly.b32 %f8, %f0, 2, 31, 0xffffffff;", |k, i| {
            k.shfl_bfly_f32(i.f[0], 2);
        }),
        Form::new(ALWAYS, "shfl.sync.up.b32 %r8, %r0, %r1, 0, 0xffffffff;", |k, i| {
            k.shfl_up_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shfl.sync.up.b32 %f8, %f0, 2, 0, 0xffffffff;", |k, i| {
            k.shfl_up_f32(i.f[0], 2);
        }),
        Form::new(ALWAYS, "shfl.sync.down.b32 %r8, %r0, %r1, 31, 0xffffffff;", |k, i| {
            k.shfl_down_b32(i.r[0], i.r[1]);
        }),
        Form::new(ALWAYS, "shfl.sync.down.b32 %f8, %f0, 2, 31, 0xffffffff;", |k, i| {
            k.shfl_down_f32(i.f[0], 2);
        }),
        Form::new(ALWAYS, "vote.sync.all.pred %p4, %p0, 0xffffffff;", |k, i| {
            k.vote_all(i.p[0]);
        }),
        Form::new(ALWAYS, "vote.sync.any.pred %p4, %p0, 0xffffffff;", |k, i| {
            k.vote_any(i.p[0]);
        }),
        Form::new(ALWAYS, "vote.sync.ballot.b32 %r8, %p0, 0xffffffff;", |k, i| {
            k.vote_ballot(i.p[0]);
        }),
        Form::new(ALWAYS, "activemask.b32 %r8;", |k, _| {
            k.activemask();
        }),
        Form::new(SM90, "elect.sync _|%p4, 0xffffffff;", |k, _| {
            k.elect();
        }),
    ]
}
