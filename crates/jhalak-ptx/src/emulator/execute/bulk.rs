//! Copies by the copy engine: of contiguous bytes and of boxes of tensors.

use half::{bf16, f16};

use super::Context;
use super::moves::parameter_index;
use crate::address::{Address, Space};
use crate::emulator::clock::{BULK_READ, BULK_WRITE, agent};
use crate::emulator::fault::{Fault, Outcome, Trouble};
use crate::emulator::launch::Argument;
use crate::emulator::registers::lanes_of;
use crate::emulator::shadow::{ASYNC, Access, STRONG};
use crate::emulator::tile::tile_chunks;
use crate::emulator::transfer::{CHUNK, Chunk, Kind, Transfer};
use crate::instruction::bulk_copy::{BulkLoad, BulkReduce, BulkStore, BulkWait};
use crate::instruction::tensor_copy::{TensorBox, TensorLoad, TensorStore, TensorWrite};
use crate::instruction::types::Type;
use crate::register::Operand;
use crate::tensor_map::{OutOfBounds, TensorElement, TensorMapSpec};

/// A lane, and the chunks that it asks for.
type LaneCopy = (u32, Vec<Chunk>);

impl<'a> Context<'a> {
    /// Begins a load for one lane, once all it touches is checked.
    fn begin_load(
        &mut self,
        lane: u32,
        chunks: Vec<Chunk>,
        barrier: u64,
        fill: [u8; CHUNK],
    ) -> Outcome<()> {
        let (agent, epoch) = self.copy_barrier(lane, barrier)?;
        let access = self.warp.access(lane, self.at as u32, ASYNC);
        let access = Access { agent, epoch, ..access };
        for chunk in &chunks {
            if chunk.bytes() > 0 {
                let (memory, request) = self.request_as(Space::Global, lane, chunk.global, access);
                memory.begin_read(&request, chunk.bytes())?;
            }
            let (shared, request) = self.request_as(Space::Shared, lane, chunk.shared, access);
            shared.begin_write(&request, CHUNK)?;
        }
        self.shared.mbarrier(barrier)?.begin(CHUNK * chunks.len())?;
        self.begin(lane, Kind::Load { barrier, fill }, chunks);
        Ok(())
    }

    /// Begins a copy from shared memory for one lane.
    fn begin_store(&mut self, lane: u32, chunks: Vec<Chunk>, kind: Kind) -> Outcome<()> {
        let epoch = self.warp.bulk.made[lane as usize] + 1;
        let access = self.warp.access(lane, self.at as u32, ASYNC);
        let of = |kind| Access { epoch, agent: agent(self.warp.number, kind), ..access };
        let (reads, writes) = (of(BULK_READ), of(BULK_WRITE));
        for chunk in chunks.iter().filter(|chunk| chunk.bytes() > 0) {
            let from = chunk.shared + chunk.from as u64;
            let (shared, request) = self.request_as(Space::Shared, lane, from, reads);
            shared.begin_read(&request, chunk.bytes())?;
            if matches!(kind, Kind::Add(_)) {
                let adds = Access { flags: ASYNC | STRONG, ..writes };
                let (memory, request) = self.request_as(Space::Global, lane, chunk.global, adds);
                memory.begin_update(&request, chunk.bytes())?;
            } else {
                let (memory, request) = self.request_as(Space::Global, lane, chunk.global, writes);
                memory.begin_write(&request, chunk.bytes())?;
            }
        }
        self.warp.bulk.last[lane as usize] = (epoch, self.at);
        self.begin(lane, kind, chunks);
        Ok(())
    }

    fn begin(&mut self, lane: u32, kind: Kind, chunks: Vec<Chunk>) {
        let (warp, at) = (self.warp.number, self.at);
        let group = self.warp.bulk.made[lane as usize] + 1;
        let transfer = Transfer { kind, chunks, warp, lane, group, at, read: None };
        self.shared.transfers.push(transfer);
        *self.progress += 1;
    }

    /// The chunks of contiguous copies, lane by lane.
    fn contiguous(
        &self,
        shared: Address,
        global: Address,
        bytes: Operand,
    ) -> Outcome<Vec<LaneCopy>> {
        self.check_aligned(shared, CHUNK as u32)?;
        self.check_aligned(global, CHUNK as u32)?;
        let (shared, global) = (self.addresses(shared)?, self.addresses(global)?);
        let bytes = self.warp.registers.words(bytes, self.lanes)?;
        let copies = lanes_of(self.lanes).map(|lane| {
            let (shared, global) = (shared[lane as usize], global[lane as usize]);
            let bytes = u64::from(bytes[lane as usize]);
            if !bytes.is_multiple_of(CHUNK as u64) {
                let rule = "a bulk copy is of a multiple of 16 bytes";
                let fault =
                    Fault::BadOperand { operand: "the number of bytes", value: bytes, rule };
                return Err(Trouble::from(fault).at_lane(lane));
            }
            let chunk = |offset| Chunk {
                shared: shared + offset,
                from: 0,
                to: CHUNK,
                global: global + offset,
            };
            Ok((lane, (0..bytes).step_by(CHUNK).map(chunk).collect()))
        });
        copies.collect()
    }

    /// The map of a tensor, and the chunks of each lane's box.
    fn boxes(
        &self,
        tensor: &TensorBox,
        tile: Address,
    ) -> Outcome<(&'a TensorMapSpec, Vec<LaneCopy>)> {
        self.check_aligned(tile, 128)?;
        let tiles = self.addresses(tile)?;
        let map = self.uniform(Operand::Register(tensor.map), "the tensor map")?;
        let arguments = self.grid.arguments;
        let argument = parameter_index(map).and_then(|index| arguments.get(index));
        let Some(Argument::Tensor { spec, base }) = argument else {
            let rule = "the address of a tensor map among the parameters";
            return Err(Fault::BadOperand { operand: "the tensor map", value: map, rule }.into());
        };
        let rank = tensor.coordinates.len();
        if rank != spec.rank() {
            let rule = "a box has as many coordinates as its tensor has dimensions";
            let value = rank as u64;
            return Err(Fault::BadOperand { operand: "the rank", value, rule }.into());
        }
        let coordinates = tensor.coordinates.iter();
        let coordinates: Vec<_> = coordinates
            .map(|coordinate| self.warp.registers.words(*coordinate, self.lanes))
            .collect::<Result<_, _>>()?;
        let boxes = lanes_of(self.lanes).map(|lane| {
            let first: Vec<i64> =
                coordinates.iter().map(|c| c[lane as usize].cast_signed().into()).collect();
            (lane, tile_chunks(spec, *base, &first, tiles[lane as usize]))
        });
        Ok((spec, boxes.collect()))
    }
}

pub(super) fn load(context: &mut Context<'_>, form: &BulkLoad) -> Outcome<()> {
    let barriers = context.addresses(form.barrier)?;
    for (lane, chunks) in context.contiguous(form.to, form.from, form.bytes)? {
        context.begin_load(lane, chunks, barriers[lane as usize], [0; CHUNK])?;
    }
    Ok(())
}

pub(super) fn store(context: &mut Context<'_>, form: &BulkStore) -> Outcome<()> {
    for (lane, chunks) in context.contiguous(form.from, form.to, form.bytes)? {
        context.begin_store(lane, chunks, Kind::Store)?;
    }
    Ok(())
}

pub(super) fn reduce(context: &mut Context<'_>, form: &BulkReduce) -> Outcome<()> {
    for (lane, chunks) in context.contiguous(form.from, form.to, form.bytes)? {
        context.begin_store(lane, chunks, Kind::Add(form.ty))?;
    }
    Ok(())
}

pub(super) fn tensor_load(context: &mut Context<'_>, form: &TensorLoad) -> Outcome<()> {
    let barriers = context.addresses(form.barrier)?;
    let (spec, boxes) = context.boxes(&form.source, form.tile)?;
    let fill = fill(spec);
    for (lane, chunks) in boxes {
        context.begin_load(lane, chunks, barriers[lane as usize], fill)?;
    }
    Ok(())
}

/// What a chunk holds outside the tensor.
fn fill(spec: &TensorMapSpec) -> [u8; CHUNK] {
    let (nan16, nan32) = match spec.element {
        TensorElement::Bf16 => (bf16::NAN.to_bits(), 0),
        _ => (f16::NAN.to_bits(), f32::NAN.to_bits()),
    };
    match (spec.fill, spec.element) {
        (OutOfBounds::Zeros, _) | (_, TensorElement::U8) => [0; CHUNK],
        (_, TensorElement::F32) => std::array::from_fn(|i| nan32.to_le_bytes()[i % 4]),
        _ => std::array::from_fn(|i| nan16.to_le_bytes()[i % 2]),
    }
}

pub(super) fn tensor_store(context: &mut Context<'_>, form: &TensorStore) -> Outcome<()> {
    let (spec, boxes) = context.boxes(&form.destination, form.tile)?;
    let kind = match (form.write, spec.element) {
        (TensorWrite::Store, _) => Kind::Store,
        (TensorWrite::Add, TensorElement::F16) => Kind::Add(Type::F16),
        (TensorWrite::Add, TensorElement::Bf16) => Kind::Add(Type::Bf16),
        (TensorWrite::Add, TensorElement::F32) => Kind::Add(Type::F32),
        (TensorWrite::Add, TensorElement::U8) => {
            let (operand, value) = ("the tensor's element", 1);
            return Err(Fault::BadOperand { operand, value, rule: "sums are of floats" }.into());
        }
    };
    for (lane, chunks) in boxes {
        context.begin_store(lane, chunks, kind)?;
    }
    Ok(())
}

pub(super) fn commit(context: &mut Context<'_>) {
    lanes_of(context.lanes).for_each(|lane| context.warp.bulk.made[lane as usize] += 1);
}

pub(super) fn wait(context: &mut Context<'_>, form: &BulkWait) -> Outcome<()> {
    for lane in lanes_of(context.lanes) {
        let bulk = &mut context.warp.bulk;
        let index = lane as usize;
        let group = bulk.made[index].saturating_sub(form.pending);
        bulk.read[index] = bulk.read[index].max(group);
        if !form.read_only {
            bulk.written[index] = bulk.written[index].max(group);
        }
        let warp = context.warp.number;
        let shared = &mut *context.shared;
        let waited = |transfer: &mut Transfer| {
            !transfer.is_load()
                && (transfer.warp, transfer.lane) == (warp, lane)
                && transfer.group <= group
        };
        if form.read_only {
            for transfer in shared.transfers.iter_mut() {
                if waited(transfer) {
                    transfer.read(&shared.memory)?;
                }
            }
        } else {
            let done: Vec<Transfer> = shared.transfers.extract_if(.., waited).collect();
            for transfer in done {
                transfer.finish(context.memory, shared)?;
            }
        }
    }
    Ok(())
}
