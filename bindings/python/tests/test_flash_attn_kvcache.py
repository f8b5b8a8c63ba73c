"""flash_attn_with_kvcache: what it writes into the cache, and attention over it, in f64."""

import pytest
import torch

import jhalak.flash_attn_interface as fa3
from jhalak.flash_attn import flash_attn_with_kvcache
from standard import attention, judge, judge_lse, tensors

LENGTHS = torch.tensor([5, 0, 9], dtype=torch.int32)


def caches(slots=3, room=16, heads=2, dim=16, dtype=torch.float32):
    """A cache whose unused rows would show in a result: they are NaN beyond the longest use."""
    k, v = tensors((slots, room, heads, dim), (slots, room, heads, dim), dtype=dtype)
    k[:, 13:], v[:, 13:] = torch.nan, torch.nan
    return k, v


def turned(x, position, cos, sin, interleaved):
    """A vector turned by its position's angles: pairs as complex numbers."""
    half = cos.shape[1]
    part = x[..., : 2 * half].double()
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    angle = torch.complex(cos[position].double(), sin[position].double())
    pairs = torch.complex(first, second) * angle
    both = torch.stack((pairs.real, pairs.imag), -1 if interleaved else -2).flatten(-2)
    return torch.cat((both, x[..., 2 * half :].double()), -1)


def against_standard(result, q, keys, **options):
    """Judges (out, lse) with each sequence's keys and values, lists of [S, Hk, D]."""
    out, lse = result
    for b, (k, v) in enumerate(keys):
        one = [x[None] for x in (q[b], k, v)]
        truth, truth_lse = attention(*one, dtype=torch.float64, **options)
        yardstick, _ = attention(*one, dtype=out.dtype, **options)
        judge(out[b], yardstick[0], truth[0])
        judge_lse(lse[b], truth_lse[0], out.dtype)


@pytest.mark.parametrize("num_splits", [0, 1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_only_the_used_rows_of_a_cache_count(dtype, num_splits):
    k, v = caches(dtype=dtype)
    (q,) = tensors((3, 2, 4, 16), dtype=dtype)
    result = flash_attn_with_kvcache(
        q, k, v, cache_seqlens=LENGTHS, causal=True, num_splits=num_splits, return_softmax_lse=True
    )
    keys = [(k[b, :n], v[b, :n]) for b, n in enumerate(LENGTHS)]
    against_standard(result, q, keys, causal=True)


def test_options_reach_the_call():
    k, v = caches()
    (q,) = tensors((3, 2, 4, 16))
    slopes, sinks = torch.rand(4), torch.randn(4)
    result = flash_attn_with_kvcache(
        q, k, v, cache_seqlens=torch.tensor([5, 1, 9]), softmax_scale=0.4, causal=True,
        window_size=(3, -1), softcap=2.0, alibi_slopes=slopes, s_aux=sinks, return_softmax_lse=True,
    )  # fmt: skip
    keys = [(k[b, :n], v[b, :n]) for b, n in enumerate((5, 1, 9))]
    against_standard(
        result, q, keys, scale=0.4, causal=True, window=(3, -1), softcap=2.0,
        alibi_slopes=slopes, sinks=sinks,
    )  # fmt: skip


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS.long(), 5])
def test_new_keys_go_behind_the_used_rows_and_nowhere_else(lengths):
    k, v = caches()
    before = k.clone(), v.clone()
    q, new_k, new_v = tensors((3, 2, 4, 16), (3, 3, 2, 16), (3, 3, 2, 16))
    result = flash_attn_with_kvcache(
        q, k, v, new_k, new_v, cache_seqlens=lengths, causal=True, return_softmax_lse=True
    )
    starts = [5] * 3 if isinstance(lengths, int) else lengths.tolist()
    for cache, old, new in ((k, before[0], new_k), (v, before[1], new_v)):
        expected = old.clone()
        for b, start in enumerate(starts):
            expected[b, start : start + 3] = new[b]
        assert torch.equal(cache.nan_to_num(7.0), expected.nan_to_num(7.0))
    keys = [(k[b, : n + 3], v[b, : n + 3]) for b, n in enumerate(starts)]
    against_standard(result, q, keys, causal=True)


def test_a_cache_that_is_a_view_is_written_in_place():
    buffer = torch.zeros(3, 2, 16, 2, 16)
    cache = buffer.transpose(1, 2)
    k, v = cache[:, :, 0], cache[:, :, 1]
    q, new_k, new_v = tensors((3, 1, 4, 16), (3, 1, 2, 16), (3, 1, 2, 16))
    flash_attn_with_kvcache(q, k, v, new_k, new_v, cache_seqlens=LENGTHS)
    for b, n in enumerate(LENGTHS):
        assert torch.equal(buffer[b, 0, n], new_k[b, 0]) and torch.equal(
            buffer[b, 1, n], new_v[b, 0]
        )
    assert int((buffer != 0).any(-1).any(-1).sum()) == 6


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window_size": (4, 0)}])
@pytest.mark.parametrize("rotary_dim", [8, 16])
def test_rotary_turns_new_keys_by_position_and_queries_as_documented(
    options, interleaved, rotary_dim
):
    k, v = caches()
    q, new_k, new_v = tensors((3, 3, 4, 16), (3, 3, 2, 16), (3, 3, 2, 16))
    angles = torch.outer(torch.arange(16.0), 10.0 ** -torch.linspace(0, 3, rotary_dim // 2))
    cos, sin = angles.cos(), angles.sin()
    result = flash_attn_with_kvcache(
        q, k, v, new_k, new_v, cos, sin, cache_seqlens=LENGTHS, rotary_interleaved=interleaved,
        return_softmax_lse=True, **options,
    )  # fmt: skip
    turned_q = torch.zeros_like(q, dtype=torch.float64)
    for b, start in enumerate(LENGTHS.tolist()):
        for i in range(3):
            position = start + i if options else start
            turned_q[b, i] = turned(q[b, i], position, cos, sin, interleaved)
            wanted = turned(new_k[b, i], start + i, cos, sin, interleaved)
            torch.testing.assert_close(k[b, start + i].double(), wanted, atol=1e-6, rtol=1e-6)
    names = {"window_size": "window"}
    options = {names.get(name, name): value for name, value in options.items()}
    for b, n in enumerate(LENGTHS.tolist()):
        keys = k[b : b + 1, : n + 3], v[b : b + 1, : n + 3]
        truth, _ = attention(turned_q[b : b + 1], *keys, dtype=torch.float64, **options)
        torch.testing.assert_close(result[0][b].double(), truth[0], atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotary_in_16_bits_rounds_once(dtype):
    k, v = caches(dtype=dtype)
    q, new_k, new_v = tensors((3, 1, 4, 16), (3, 1, 2, 16), (3, 1, 2, 16), dtype=dtype)
    angles = torch.outer(torch.arange(16.0), 10.0 ** -torch.linspace(0, 3, 8))
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    flash_attn_with_kvcache(q, k, v, new_k, new_v, cos, sin, cache_seqlens=LENGTHS, causal=True)
    for b, n in enumerate(LENGTHS.tolist()):
        wanted = turned(new_k[b, 0], n, cos, sin, True).to(dtype)
        assert torch.equal(k[b, n], wanted)


def test_slots_of_the_cache_are_chosen_by_cache_batch_idx():
    k, v = caches(slots=6)
    before = k.clone()
    q, new_k, new_v = tensors((3, 1, 4, 16), (3, 1, 2, 16), (3, 1, 2, 16))
    slots = torch.tensor([4, 0, 3], dtype=torch.int32)
    result = flash_attn_with_kvcache(
        q, k, v, new_k, new_v, cache_seqlens=LENGTHS, cache_batch_idx=slots, return_softmax_lse=True
    )
    for b, (slot, n) in enumerate(zip(slots.tolist(), LENGTHS.tolist(), strict=True)):
        before[slot, n] = new_k[b, 0]
    assert torch.equal(k.nan_to_num(7.0), before.nan_to_num(7.0))
    used = zip(slots.tolist(), LENGTHS.tolist(), strict=True)
    against_standard(result, q, [(k[s, : n + 1], v[s, : n + 1]) for s, n in used])


def test_rows_before_cache_leftpad_are_not_seen():
    k, v = caches()
    pads = torch.tensor([2, 0, 9], dtype=torch.int32)
    k[0, :2], v[2, :9] = torch.nan, torch.nan
    q, new_k, new_v = tensors((3, 2, 4, 16), (3, 2, 2, 16), (3, 2, 2, 16))
    angles = torch.outer(torch.arange(16.0), 10.0 ** -torch.linspace(0, 3, 8))
    cos, sin = angles.cos(), angles.sin()
    out, lse = flash_attn_with_kvcache(
        q, k, v, new_k, new_v, cos, sin, cache_seqlens=LENGTHS, cache_leftpad=pads, causal=True,
        return_softmax_lse=True,
    )  # fmt: skip
    for b, (pad, n) in enumerate(zip(pads.tolist(), LENGTHS.tolist(), strict=True)):
        # Positions are those in the cache, the padding included.
        one = torch.stack([turned(q[b, i], n + i, cos, sin, True) for i in range(2)])[None]
        keys = k[b : b + 1, pad : n + 2], v[b : b + 1, pad : n + 2]
        truth, truth_lse = attention(one, *keys, causal=True, dtype=torch.float64)
        torch.testing.assert_close(out[b].double(), truth[0], atol=5e-6, rtol=1e-5)
        judge_lse(lse[b], truth_lse[0], torch.float32)


def test_padding_as_long_as_the_cache_leaves_nothing_to_see():
    k, v = caches()
    (q,) = tensors((3, 1, 4, 16))
    out, lse = flash_attn_with_kvcache(
        q, k, v, cache_seqlens=LENGTHS, cache_leftpad=LENGTHS, return_softmax_lse=True
    )
    assert (out == 0).all() and (lse == -torch.inf).all()


def paged(k, v, page_size):
    """The first 12 rows of each sequence's cache as pages in a shuffled pool, and the table."""
    pages = 12 // page_size
    table = torch.randperm(3 * pages + 2)[: 3 * pages].view(3, pages).to(torch.int32)
    pools = []
    for cache in (k, v):
        pool = torch.full((3 * pages + 2, page_size, *cache.shape[2:]), torch.nan)
        for b in range(3):
            pool[table[b].long()] = cache[b, :12].unflatten(0, (pages, page_size))
        pools.append(pool)
    return *pools, table


@pytest.mark.parametrize("length", [LENGTHS, 5])
@pytest.mark.parametrize("page_size", [1, 3, 4, 12])
@pytest.mark.parametrize("generation", [2, 3])
def test_pages_are_the_cache_they_hold(page_size, length, generation):
    k, v = caches()
    q, new_k, new_v = tensors((3, 2, 4, 16), (3, 2, 2, 16), (3, 2, 2, 16))
    k_pages, v_pages, table = paged(k, v, page_size)
    options = {"cache_seqlens": length, "causal": True, "return_softmax_lse": True}
    if generation == 2:
        function, name = flash_attn_with_kvcache, "block_table"
    else:
        function, name = fa3.flash_attn_with_kvcache, "page_table"
    result = function(q, k_pages, v_pages, new_k, new_v, **options, **{name: table})
    starts = [5] * 3 if isinstance(length, int) else length.tolist()
    for b, start in enumerate(starts):
        k[b, start : start + 2], v[b, start : start + 2] = new_k[b], new_v[b]
    for pool, cache in ((k_pages, k), (v_pages, v)):
        for b, start in enumerate(starts):
            assert torch.equal(
                pool[table[b].long()].flatten(0, 1)[: start + 2], cache[b, : start + 2]
            )
    against_standard(
        result, q, [(k[b, : n + 2], v[b, : n + 2]) for b, n in enumerate(starts)], causal=True
    )


def test_pages_of_keys_and_values_of_different_width():
    k, _ = caches(dim=24)
    _, v = caches(dim=16)
    (q,) = tensors((3, 1, 4, 24))
    k_pages, v_pages, table = paged(k, v, 4)
    result = flash_attn_with_kvcache(
        q, k_pages, v_pages, cache_seqlens=LENGTHS, block_table=table, return_softmax_lse=True
    )
    against_standard(result, q, [(k[b, :n], v[b, :n]) for b, n in enumerate(LENGTHS)])


def test_unused_entries_of_the_block_table_are_never_read():
    k, v = caches()
    (q,) = tensors((3, 1, 4, 16))
    k_pages, v_pages, table = paged(k, v, 4)
    for b, n in enumerate(LENGTHS):
        table[b, -(-int(n) // 4) :] = torch.tensor([-1, 10_000, -(2**31)])[: 3 - -(-int(n) // 4)]
    result = flash_attn_with_kvcache(
        q, k_pages, v_pages, cache_seqlens=LENGTHS, block_table=table, return_softmax_lse=True
    )
    against_standard(result, q, [(k[b, :n], v[b, :n]) for b, n in enumerate(LENGTHS)])


@pytest.mark.parametrize("entry", [-1, 11])
def test_a_used_page_that_is_none_is_an_error(entry):
    k, v = caches()
    q, new = tensors((3, 1, 4, 16), (3, 1, 2, 16))
    k_pages, v_pages, table = paged(k, v, 4)
    table[0, 1] = entry
    kept = k_pages.clone()
    with pytest.raises(ValueError, match=f"block_table must name pages 0 to 10, but has {entry}"):
        flash_attn_with_kvcache(
            q, k_pages, v_pages, new, new, cache_seqlens=LENGTHS, block_table=table
        )
    assert torch.equal(kept.nan_to_num(7.0), k_pages.nan_to_num(7.0))


@pytest.mark.parametrize("page_size", [None, 4])
def test_appending_past_the_end_is_an_error_and_writes_nothing(page_size):
    k, v = caches(room=12)
    q, new = tensors((3, 1, 4, 16), (3, 2, 2, 16))
    table = None
    if page_size:
        k, v, table = paged(k, v, page_size)
    kept = k.clone()
    lengths = torch.tensor([0, 11, 3])
    with pytest.raises(ValueError, match="cache_seqlens .* must be from 0 to 12.* but is 13"):
        flash_attn_with_kvcache(q, k, v, new, new, cache_seqlens=lengths, block_table=table)
    assert torch.equal(kept.nan_to_num(7.0), k.nan_to_num(7.0))


def test_bad_arguments_are_named():
    k, v = caches()
    q, new = tensors((3, 1, 4, 16), (3, 1, 2, 16))
    with pytest.raises(ValueError, match="cache_seqlens must be given with k"):
        flash_attn_with_kvcache(q, k, v, new, new)
    with pytest.raises(ValueError, match="k and v must be given together"):
        flash_attn_with_kvcache(q, k, v, new, cache_seqlens=3)
    with pytest.raises(ValueError, match=r"cache_seqlens must be \[3\], but has \[2\]"):
        flash_attn_with_kvcache(q, k, v, cache_seqlens=torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="cache_seqlens .* but is -1"):
        flash_attn_with_kvcache(q, k, v, cache_seqlens=-1)
    with pytest.raises(ValueError, match="cache_batch_idx must be .* of slots 0 to 2"):
        flash_attn_with_kvcache(q, k, v, cache_batch_idx=torch.tensor([0, 1, 3]))
    with pytest.raises(ValueError, match=r"block_table must be \[3, pages\], but has \[2, 4\]"):
        flash_attn_with_kvcache(q, k, v, block_table=torch.zeros(2, 4, dtype=torch.int32))
    with pytest.raises(ValueError, match="cos must have a row for position 9, but has 4"):
        table = torch.ones(4, 8)
        flash_attn_with_kvcache(q, k, v, new, new, table, table, cache_seqlens=LENGTHS)


def test_decoding_token_by_token_is_one_causal_call():
    k, v = torch.zeros(2, 12, 2, 16), torch.zeros(2, 12, 2, 16)
    q, new_k, new_v = tensors((2, 12, 4, 16), (2, 12, 2, 16), (2, 12, 2, 16))
    truth, _ = attention(q, new_k, new_v, causal=True, dtype=torch.float64)
    yardstick, _ = attention(q, new_k, new_v, causal=True)
    for chunk in (1, 5):
        steps = [
            flash_attn_with_kvcache(
                q[:, n : n + chunk], k, v, new_k[:, n : n + chunk], new_v[:, n : n + chunk],
                cache_seqlens=n, causal=True,
            )
            for n in range(0, 12, chunk)
        ]  # fmt: skip
        judge(torch.cat(steps, 1), yardstick, truth)
