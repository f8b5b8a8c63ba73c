//! What each instruction does. One file per family, as in [`crate::instruction`].

mod access;
mod atomic;
mod barrier;
mod bulk;
mod compare;
mod convert;
pub(super) mod cp_async;
mod float;
mod formats;
mod integer;
mod matrix;
mod mbarrier;
mod moves;
mod order;
mod packed;
mod resources;
mod warp_wide;
pub(super) mod wgmma;

use super::arena::{Arena, Request};
use super::block::Shared;
use super::fault::{Fault, Outcome, Trouble};
use super::launch::Grid;
use super::machine::Flow;
use super::random::Random;
use super::registers::{Lanes, WARP, lanes_of};
use super::shadow::Access;
use super::warp::Warp;
use crate::address::{Address, Base, Space};
use crate::instruction::Operation;
use crate::register::{Operand, Register};

/// All that an instruction can touch, and the lanes that execute it.
pub(super) struct Context<'a> {
    pub(super) grid: &'a Grid<'a>,
    pub(super) memory: &'a mut Arena,
    pub(super) shared: &'a mut Shared,
    pub(super) warp: &'a mut Warp,
    pub(super) random: &'a mut Random,
    pub(super) progress: &'a mut u64,
    pub(super) lanes: u32,
    /// The instruction's number.
    pub(super) at: usize,
}

impl Context<'_> {
    /// The addresses that the lanes give.
    fn addresses(&self, address: Address) -> Outcome<Lanes<u64>> {
        let offset = i64::from(address.offset).cast_unsigned();
        Ok(match address.base {
            Base::Register(register) if address.space == Space::Shared => {
                // Shared addresses are 32 bits wide and wrap there.
                let base = self.warp.registers.words(Operand::Register(register), self.lanes)?;
                base.map(|base| base.wrapping_add(offset as u32).into())
            }
            Base::Register(register) => {
                let base = self.warp.registers.wide(Operand::Register(register), self.lanes)?;
                base.map(|base| base.wrapping_add(offset))
            }
            Base::Shared(placement) => [self.shared.address(placement).wrapping_add(offset); 32],
            Base::Parameter(_) => [offset; 32],
        })
    }

    /// The memory of a space, and a lane's request of it.
    fn request(
        &mut self,
        space: Space,
        lane: u32,
        address: u64,
        flags: u8,
    ) -> (&mut Arena, Request<'_>) {
        let access = self.warp.access(lane, self.at as u32, flags);
        self.request_as(space, lane, address, access)
    }

    /// The same for an access that is remembered in another way.
    fn request_as(
        &mut self,
        space: Space,
        lane: u32,
        address: u64,
        access: Access,
    ) -> (&mut Arena, Request<'_>) {
        let observer = self.warp.observer(lane, space);
        let arena = match space {
            Space::Shared => &mut self.shared.memory,
            _ => &mut *self.memory,
        };
        (arena, Request { address, access, observer })
    }

    /// Fails unless all lanes that have not ended execute this together.
    fn require_converged(&self) -> Outcome<()> {
        let expected = self.warp.paths.alive;
        self.require(expected)
    }

    /// Fails unless all 32 lanes execute this together.
    fn require_whole_warp(&self) -> Outcome<()> {
        self.require(WARP)
    }

    fn require(&self, expected: u32) -> Outcome<()> {
        let active = self.lanes;
        if active == expected {
            return Ok(());
        }
        Err(Fault::Diverged { active, expected }.into())
    }

    /// An operand's value, which all lanes must agree on.
    fn uniform(&self, operand: Operand, what: &'static str) -> Outcome<u64> {
        let values = self.warp.registers.any(operand, self.lanes)?;
        let first = values[self.lanes.trailing_zeros() as usize];
        if lanes_of(self.lanes).any(|lane| values[lane as usize] != first) {
            return Err(Fault::NotUniform { operand: what }.into());
        }
        Ok(first)
    }

    fn check_aligned(&self, address: Address, align: u32) -> Outcome<()> {
        let addresses = self.addresses(address)?;
        let wrong = |lane: &u32| !addresses[*lane as usize].is_multiple_of(align.into());
        lanes_of(self.lanes).find(wrong).map_or(Ok(()), |lane| {
            let (space, address) = (address.space, addresses[lane as usize]);
            Err(Trouble::from(Fault::Misaligned { space, address, align }).at_lane(lane))
        })
    }

    /// The warp looked at something that it may be waiting for.
    fn look(&mut self, address: u64) {
        self.warp.looks.look(self.at, address, *self.progress);
    }

    fn words(&self, register: Register) -> Outcome<Lanes<u32>> {
        self.warp.registers.words(Operand::Register(register), self.lanes)
    }
}

/// Executes an instruction other than a branch or the end.
pub(super) fn execute(context: &mut Context<'_>, operation: &Operation) -> Outcome<Flow> {
    let lanes = context.lanes;
    let registers = &mut context.warp.registers;
    match operation {
        Operation::Integer(form) => integer::integer(registers, lanes, form)?,
        Operation::BitField(form) => integer::bit_field(registers, lanes, form)?,
        Operation::BitInsert(form) => integer::bit_insert(registers, lanes, form)?,
        Operation::Lop3(form) => integer::lop3(registers, lanes, form)?,
        Operation::Permute(form) => integer::permute(registers, lanes, form)?,
        Operation::MulWide(form) => integer::mul_wide(registers, lanes, form)?,
        Operation::MulAdd(form) => integer::mul_add(registers, lanes, form)?,
        Operation::Float(form) => float::binary(registers, lanes, form)?,
        Operation::FusedMulAdd(form) => float::fused(registers, lanes, form)?,
        Operation::FloatUnary(form) => float::unary(registers, lanes, form)?,
        Operation::Packed(form) => packed::binary(registers, lanes, form)?,
        Operation::PackedFusedMulAdd(form) => packed::fused(registers, lanes, form)?,
        Operation::PackedEx2(form) => packed::ex2(registers, lanes, form)?,
        Operation::Compare(form) => compare::compare(registers, lanes, form)?,
        Operation::Select(form) => compare::select(registers, lanes, form)?,
        Operation::Logic(form) => compare::logic(registers, lanes, form)?,
        Operation::Convert(form) => convert::convert(registers, lanes, form)?,
        Operation::ConvertPair(form) => convert::pair(registers, lanes, form)?,
        Operation::AddressConvert(form) => {
            let values = registers.wide(form.a, lanes)?;
            registers.set_wide(form.d, lanes, values);
        }
        Operation::Move(form) => moves::copy(registers, lanes, form)?,
        Operation::Pack(form) => moves::pack(registers, lanes, form)?,
        Operation::Unpack(form) => moves::unpack(registers, lanes, form)?,
        Operation::AddressOf(form) => moves::address_of(context, form)?,
        Operation::ReadSpecial(form) => moves::special(context, form),
        Operation::Shuffle(form) => warp_wide::shuffle(context, form)?,
        Operation::Vote(form) => warp_wide::vote(context, form)?,
        Operation::Ballot(form) => warp_wide::ballot(context, form)?,
        Operation::ActiveMask(form) => registers.set_words(form.d, lanes, [lanes; 32]),
        Operation::Elect(form) => warp_wide::elect(context, form)?,
        Operation::Load(form) => return access::load(context, form),
        Operation::Store(form) => return access::store(context, form),
        Operation::Prefetch(_) => {}
        Operation::Atomic(form) => return atomic::atomic(context, form),
        Operation::CompareSwap(form) => return atomic::compare_swap(context, form),
        Operation::Reduce(form) => return atomic::reduce(context, form),
        Operation::ReduceVector(form) => return atomic::reduce_vector(context, form),
        Operation::ReducePair(form) => return atomic::reduce_pair(context, form),
        Operation::Barrier(form) => barrier::barrier(context, form)?,
        Operation::WarpBarrier(_) => barrier::warp_barrier(context)?,
        Operation::Fence(_) => barrier::fence(context),
        Operation::FenceMbarrierInit(_) => mbarrier::announce(context),
        Operation::FenceProxyAsync(form) => barrier::fence_proxy(context, form),
        Operation::MbarrierInit(form) => mbarrier::init(context, form)?,
        Operation::MbarrierInvalidate(form) => mbarrier::invalidate(context, form)?,
        Operation::MbarrierArrive(form) => mbarrier::arrive(context, form)?,
        Operation::MbarrierExpect(form) => mbarrier::expect(context, form)?,
        Operation::MbarrierTest(form) => return mbarrier::test(context, form),
        Operation::CpAsyncArrive(form) => mbarrier::copies_arrive(context, form)?,
        Operation::TensorLoad(form) => bulk::tensor_load(context, form)?,
        Operation::TensorStore(form) => bulk::tensor_store(context, form)?,
        // Prefetches change nothing; the kernels before this one have ended.
        Operation::TensorPrefetch(_)
        | Operation::PrefetchTensorMap(_)
        | Operation::GridDependencyControl(_) => {}
        Operation::BulkLoad(form) => bulk::load(context, form)?,
        Operation::BulkStore(form) => bulk::store(context, form)?,
        Operation::BulkReduce(form) => bulk::reduce(context, form)?,
        Operation::BulkCommit(_) => bulk::commit(context),
        Operation::BulkWait(form) => bulk::wait(context, form)?,
        Operation::SetMaxRegisters(form) => return resources::set_max_registers(context, form),
        Operation::Wgmma(form) => wgmma::begin(context, form)?,
        Operation::WgmmaFence(_) => wgmma::fence(context)?,
        Operation::WgmmaCommit(_) => wgmma::commit(context)?,
        Operation::WgmmaWait(form) => wgmma::wait(context, form)?,
        Operation::LoadMatrix(form) => matrix::load(context, form)?,
        Operation::StoreMatrix(form) => matrix::store(context, form)?,
        Operation::TransposeMatrix(form) => matrix::transpose(context, form)?,
        Operation::Mma(form) => matrix::mma(context, form)?,
        Operation::CpAsync(form) => cp_async::begin(context, form)?,
        Operation::CpAsyncCommit(_) => cp_async::commit(context),
        Operation::CpAsyncWait(form) => cp_async::wait(context, form)?,
        Operation::Branch(_) | Operation::Return(_) => {
            unreachable!("the machine itself branches and ends")
        }
    }
    Ok(Flow::Next)
}
