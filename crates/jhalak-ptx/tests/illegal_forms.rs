//! What types cannot forbid is refused when the module is built, with the rule in words.

use jhalak_ptx::{
    Access, AtomicOperator, AtomicOrder, B32, B64, Comparison, Error, F32, KernelBuilder, L1,
    Major, MatrixLayout, ModuleBuilder, Order, Scope, Swizzle, Target,
};

/// The rule that the kernel breaks.
fn broken_rule(body: impl FnOnce(&mut KernelBuilder)) -> &'static str {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel("illegal", body);
    match module.build() {
        Err(Error::Illegal { rule, .. } | Error::Declaration { rule, .. }) => rule,
        other => panic!("should have been refused: {other:?}"),
    }
}

#[test]
fn a_block_has_sixteen_barriers() {
    assert_eq!(broken_rule(|k| k.bar_sync(16, 64)), "a block has barriers 0 to 15");
}

#[test]
fn a_barrier_counts_whole_warps() {
    let rule = "the threads of a barrier are whole warps: 32, 64, ... 1024";
    assert_eq!(broken_rule(|k| k.bar_sync(1, 100)), rule);
    assert_eq!(broken_rule(|k| k.bar_arrive(1, 0)), rule);
    assert_eq!(broken_rule(|k| k.bar_arrive(1, 2048)), rule);
}

#[test]
fn integers_are_never_nan() {
    let rule = broken_rule(|k| {
        let r: B32 = k.register();
        k.setp_u32(Comparison::Nan, r, 0);
    });
    assert_eq!(rule, "integers compare with Eq, Ne, Lt, Le, Gt or Ge: they are never NaN");
}

#[test]
fn a_vector_has_two_or_four_elements() {
    let rule = broken_rule(|k| {
        let place: B32 = k.register();
        let _: [F32; 3] = k.ld_vector(place);
    });
    assert_eq!(rule, "a vector has 2 or 4 elements");
}

#[test]
fn an_access_moves_sixteen_bytes_at_most() {
    let rule = broken_rule(|k| {
        let (place, values): (B64, [B64; 4]) = (k.register(), k.registers());
        k.st_vector(place, values);
    });
    assert_eq!(rule, "an access is of 16 bytes at most");
}

#[test]
fn an_access_to_a_region_is_aligned_to_its_size() {
    let rule = "an access is aligned to its own size";
    let load = broken_rule(|k| {
        let tile = k.dynamic_shared("tile", 64, 16);
        let _: [F32; 4] = k.ld_vector((tile, 8));
    });
    assert_eq!(load, rule);
    let copy = broken_rule(|k| {
        let (tile, from): (_, B64) = (k.dynamic_shared("tile", 64, 16), k.register());
        k.cp_async((tile, 4), from, 16);
    });
    assert_eq!(copy, rule);
}

#[test]
fn a_row_of_a_matrix_is_aligned_to_sixteen_bytes() {
    let rule = broken_rule(|k| {
        let tile = k.dynamic_shared("tile", 64, 16);
        let _: [B32; 4] = k.ldmatrix((tile, 8));
    });
    assert_eq!(rule, "a row of a matrix is aligned to 16 bytes");
}

#[test]
fn ldmatrix_loads_one_two_or_four_matrices() {
    let rule = broken_rule(|k| {
        let row: B32 = k.register();
        let _: [B32; 3] = k.ldmatrix(row);
    });
    assert_eq!(rule, "ldmatrix loads 1, 2 or 4 matrices");
}

#[test]
fn stmatrix_stores_one_two_or_four_matrices() {
    let rule = broken_rule(|k| {
        let row: B32 = k.register();
        k.stmatrix(row, [row; 3]);
    });
    assert_eq!(rule, "stmatrix stores 1, 2 or 4 matrices");
}

#[test]
fn orders_fit_loads_and_stores() {
    let acquire = Access::new(Order::Acquire(Scope::Gpu));
    let release = Access::new(Order::Release(Scope::Gpu));
    let read_only = Access::new(Order::ReadOnly);
    let load = |access| {
        broken_rule(move |k| {
            let (place, value): (B32, F32) = (k.register(), k.register());
            k.ld_with([value], place, access);
        })
    };
    let store = |access| {
        broken_rule(move |k| {
            let (place, value): (B64, F32) = (k.register(), k.register());
            k.st_with(place, [value], access);
        })
    };
    assert_eq!(load(release), "a load acquires, never releases");
    assert_eq!(load(read_only), "read-only loads are from global memory");
    assert_eq!(store(acquire), "a store is weak, volatile or relaxed, or releases");
    assert_eq!(store(read_only), "a store is weak, volatile or relaxed, or releases");
}

#[test]
fn cache_hints_are_for_ordinary_accesses_to_global_memory() {
    let shared = broken_rule(|k| {
        let (place, value): (B32, F32) = (k.register(), k.register());
        k.ld_with([value], place, Access::new(Order::Weak).l1(L1::NoAllocate));
    });
    assert_eq!(shared, "cache hints are for global memory");
    let volatile = broken_rule(|k| {
        let (place, value): (B64, F32) = (k.register(), k.register());
        k.ld_with([value], place, Access::new(Order::Volatile).l1(L1::EvictLast));
    });
    assert_eq!(volatile, "a volatile access takes no cache hints");
}

#[test]
fn cp_async_copies_four_eight_or_sixteen_bytes_and_reads_no_more() {
    let copy = |bytes, read| {
        broken_rule(move |k| {
            let (to, from): (B32, B64) = (k.register(), k.register());
            k.cp_async_zero_fill(to, from, bytes, read);
        })
    };
    assert_eq!(copy(12, 0), "cp.async copies 4, 8 or 16 bytes");
    assert_eq!(copy(8, 16), "cp.async reads no more bytes than it writes");
}

#[test]
fn atomic_operators_fit_their_type_and_their_use() {
    let rule = broken_rule(|k| {
        let (place, value): (B64, B32) = (k.register(), k.register());
        k.atom_s32(AtomicOperator::Inc, place, value, AtomicOrder::Relaxed, Scope::Gpu);
    });
    assert_eq!(rule, "counting up is of unsigned 32-bit numbers");
    let rule = broken_rule(|k| {
        let (place, value): (B64, B32) = (k.register(), k.register());
        k.red_u32(AtomicOperator::Exch, place, value, AtomicOrder::Relaxed, Scope::Gpu);
    });
    assert_eq!(rule, "an exchange gives back what was there: use atom");
    let rule = broken_rule(|k| {
        let (place, value): (B64, B32) = (k.register(), k.register());
        k.red_u32(AtomicOperator::Add, place, value, AtomicOrder::Acquire, Scope::Gpu);
    });
    assert_eq!(rule, "red is relaxed or releases: it reads nothing that could be acquired");
}

#[test]
fn an_mbarrier_is_aligned_and_counts_what_it_can() {
    let place = broken_rule(|k| {
        let barriers = k.static_shared("barriers", 16, 8);
        k.mbarrier_arrive((barriers, 4));
    });
    assert_eq!(place, "an mbarrier is 8 bytes, aligned to 8");
    let init = |arrivals| {
        broken_rule(move |k| {
            let barrier: B32 = k.register();
            k.mbarrier_init(barrier, arrivals);
        })
    };
    assert_eq!(init(0), "an mbarrier expects 1 to 2^20 - 1 arrivals");
    assert_eq!(init(1 << 20), "an mbarrier expects 1 to 2^20 - 1 arrivals");
    let bytes = broken_rule(|k| {
        let barrier: B32 = k.register();
        k.mbarrier_arrive_expect_tx(barrier, 1 << 20);
    });
    assert_eq!(bytes, "a phase expects fewer than 2^20 bytes");
    let parity = broken_rule(|k| {
        let barrier: B32 = k.register();
        k.mbarrier_wait(barrier, 2);
    });
    assert_eq!(parity, "a phase has parity 0 or 1");
}

#[test]
fn setmaxnreg_takes_what_the_hardware_can_give() {
    let change = |registers| {
        broken_rule(move |k| {
            k.maxnreg(168);
            k.setmaxnreg_inc(registers);
        })
    };
    let rule = "setmaxnreg takes 24 to 256 registers, a multiple of 8";
    assert_eq!([change(16), change(100), change(264)], [rule; 3]);
    let unknown = broken_rule(|k| {
        k.reqntid(384);
        k.setmaxnreg_dec(40);
    });
    assert!(unknown.contains("say minnctapersm or maxnreg before"), "{unknown}");
}

#[test]
fn boxes_of_tensors_have_one_to_five_dimensions_and_aligned_tiles() {
    let rank = |rank: usize| {
        broken_rule(move |k| {
            let (map, tile, barrier): (B64, B32, B32) = (k.register(), k.register(), k.register());
            k.tensor_load(tile, map, &vec![0.into(); rank], barrier, None);
        })
    };
    assert_eq!([rank(0), rank(6)], ["a tensor has 1 to 5 dimensions"; 2]);
    let tile = broken_rule(|k| {
        let (map, tile): (B64, _) = (k.register(), k.dynamic_shared("tile", 256, 128));
        k.tensor_store(map, &[0.into()], (tile, 64), None);
    });
    assert_eq!(tile, "a tile is aligned to 128 bytes");
}

#[test]
fn bulk_copies_are_of_whole_chunks_of_sixteen_bytes() {
    let bytes = broken_rule(|k| {
        let (to, from): (B64, B32) = (k.register(), k.register());
        k.bulk_store(to, from, 24, None);
    });
    assert_eq!(bytes, "a bulk copy is of a multiple of 16 bytes");
    let many = broken_rule(|k| {
        let (to, from): (B64, B32) = (k.register(), k.register());
        k.bulk_store(to, from, 1 << 20, None);
    });
    assert_eq!(many, "a bulk copy is of less than 2^20 bytes");
    let place = broken_rule(|k| {
        let (to, from): (B64, _) = (k.register(), k.dynamic_shared("row", 64, 16));
        k.bulk_reduce_add_f32(to, (from, 8), 16, None);
    });
    assert_eq!(place, "a bulk copy is aligned to 16 bytes");
}

#[test]
fn wgmma_has_the_shapes_of_the_tensor_cores() {
    let columns = |registers| {
        broken_rule(move |k| {
            let (place, d): (B32, Vec<F32>) = (k.register(), k.fragment(registers));
            let tile = k.descriptor(place, MatrixLayout::k_major(Swizzle::Bytes128));
            k.wgmma_bf16(&d, tile, tile, true);
        })
    };
    let rule = "wgmma has 8 to 256 columns, a multiple of 8: d has half as many registers";
    assert_eq!([columns(0), columns(6), columns(132)], [rule; 3]);
    let transposed = broken_rule(|k| {
        let (place, d): (B32, [F32; 4]) = (k.register(), k.registers());
        let tile = k.descriptor(place, MatrixLayout::mn_major(Swizzle::Bytes128, 8192));
        k.wgmma_e4m3(&d, [place; 4], tile, true);
    });
    assert_eq!(transposed, "wgmma of 8-bit elements reads K-major matrices");
    assert_eq!(broken_rule(|k| k.wgmma_wait_group(8)), "wgmma waits for all but 0 to 7 groups");
}

#[test]
fn a_descriptor_begins_with_a_pattern_and_counts_in_chunks() {
    let place = |align, offset: u32| {
        broken_rule(move |k| {
            let tile = k.dynamic_shared("tile", 4096, align);
            k.descriptor((tile, offset), MatrixLayout::k_major(Swizzle::Bytes128));
        })
    };
    assert!(place(1024, 512).contains("begins with a pattern"));
    assert!(place(128, 0).contains("begins with a pattern"));
    let distance = broken_rule(|k| {
        let place: B32 = k.register();
        k.descriptor(place, MatrixLayout::unswizzled(Major::K, 8, 128));
    });
    assert_eq!(distance, "distances of core matrices are multiples of 16 bytes below 2^18");
    let advance = broken_rule(|k| {
        let place: B32 = k.register();
        let tile = k.descriptor(place, MatrixLayout::k_major(Swizzle::Bytes128));
        k.descriptor_advance(tile, 8);
    });
    assert_eq!(advance, "descriptors advance by a multiple of 16 bytes");
}

#[test]
fn an_error_names_the_instruction_the_kernel_and_the_rust_line() {
    let mut module = ModuleBuilder::new(Target::Sm75);
    let mut line = 0;
    module.kernel("copies", |k| {
        let (to, from): (B32, B64) = (k.register(), k.register());
        line = line!() + 1;
        k.cp_async((to, 16), from, 16);
    });
    let file = file!();
    assert_eq!(
        module.build().unwrap_err().to_string(),
        format!(
            "{file}:{line}:11: this form needs sm_80 (PTX 7.0), the module is for sm_75\n  \
             in `cp.async.cg.shared.global [%r0+16], [%rd0], 16;` of kernel `copies`"
        )
    );
}

#[test]
fn the_first_fault_is_the_one_that_is_reported() {
    let rule = broken_rule(|k| {
        k.bar_sync(99, 64);
        k.bar_sync(1, 1);
    });
    assert_eq!(rule, "a block has barriers 0 to 15");
}
