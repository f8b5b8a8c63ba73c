"""Standard attention by torch's plain operations: what results are held against.

`attention` in float64 is the truth; in the dtype of the call it is the yardstick. The rule is that
of CONTRIBUTING.md: at most 2 times the yardstick's error forward and 3 times backward, plus the
last bit.
"""

import torch

import jhalak

F32_ULP = 2.0**-23


def attention(
    q,
    k,
    v,
    *,
    scale=None,
    causal=False,
    window=None,
    softcap=0.0,
    bias=None,
    mask=None,
    alibi_slopes=None,
    sinks=None,
    keep=None,
    dropout_p=0.0,
    q_start=None,
    k_start=0,
    dtype=None,
):
    """out [B, Sq, Hq, Dv] and lse [B, Hq, Sq] of q [B, Sq, Hq, D], every score written down."""
    dtype = dtype or q.dtype
    group = q.shape[2] // max(k.shape[2], 1)
    q, k, v = (
        x.to(dtype) for x in (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2))
    )
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    scores = torch.einsum("bihd,bjhd->bhij", q, k).to(wide)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.to(wide)
    seqlen_q, seqlen_k = q.shape[1], k.shape[1]
    start = seqlen_k - seqlen_q if q_start is None else q_start
    i = torch.arange(seqlen_q)[:, None] + start
    j = torch.arange(seqlen_k)[None, :] + k_start
    if alibi_slopes is not None:
        slopes = alibi_slopes.to(wide)
        slopes = slopes[:, None, None] if slopes.dim() == 1 else slopes[:, :, None, None]
        scores = scores - slopes * (i - j).abs()
    left, right = (-1 if b is None else b for b in (window or (-1, -1)))
    right = 0 if causal else right
    visible = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool)
    if left >= 0:
        visible &= j >= i - left
    if right >= 0:
        visible &= j <= i + right
    visible = visible.expand(scores.shape)
    if mask is not None:
        visible = visible & mask
    scores = scores.masked_fill(~visible, -torch.inf)
    columns = scores
    if sinks is not None:
        column = sinks.to(wide)[None, :, None, None].expand(*scores.shape[:3], 1)
        columns = torch.cat((scores, column), -1)
    lse = torch.logsumexp(columns, -1)
    weights = torch.where(visible, (scores - lse.unsqueeze(-1)).exp(), 0.0)
    weights = torch.where(lse.unsqueeze(-1) == -torch.inf, 0.0, weights)
    if keep is not None:
        weights = weights * keep / (1 - round(dropout_p * 65536) / 65536)
    out = torch.einsum("bhij,bjhd->bihd", weights.to(dtype), v)
    return out, lse


def judge(result, yardstick, truth, times=2.0, name="out"):
    """Holds a tensor to the rule."""
    assert result.shape == truth.shape, f"{name}: {result.shape}, not {truth.shape}"
    if not truth.numel():
        return
    largest = truth.abs().max().item()
    bits = {torch.float16: 10, torch.bfloat16: 7, torch.float64: 52}.get(result.dtype, 23)
    ulp = 2.0**-bits * max(largest, 1e-30)
    if result.dtype == torch.float64:
        bound = 1e-13 + 1e-11 * largest
    else:
        plain = (yardstick.double() - truth.double()).abs().max().item()
        bound = times * max(plain, ulp / 2) + ulp + F32_ULP * max(largest, 1.0)
    error = (result.double() - truth.double()).abs().max().item()
    assert error <= bound, f"{name}: error {error:.3g}, bound {bound:.3g}"


def judge_lse(lse, truth, dtype):
    """Holds an lse to the rule: exactly where it is -inf, closely elsewhere."""
    assert torch.equal(lse == -torch.inf, truth == -torch.inf)
    finite = truth != -torch.inf
    error = (lse[finite].double() - truth[finite].double()).abs()
    if dtype == torch.float32:
        assert (error <= 1e-5 + 4 * F32_ULP * truth[finite].abs()).all()
    else:
        assert (error <= 1e-3).all()


def tensors(*shapes, dtype=torch.float32, grad=False):
    """Unit-normal tensors."""
    return [torch.randn(shape).to(dtype).requires_grad_(grad) for shape in shapes]


def against_standard(q, k, v, options, grads=()):
    """Judges out, lse and the gradients of everything in `grads` and of q, k, v."""
    named = {"q": q, "k": k, "v": v, **{name: options[name] for name in grads}}
    own, runs = {}, []
    for dtype in (None, q.dtype, torch.float64):
        leaves = {n: t.detach().clone().requires_grad_() for n, t in named.items()}
        call = {**options, **{n: leaves[n] for n in grads}}
        if dtype is None:
            out, lse = jhalak.attention(
                leaves["q"], leaves["k"], leaves["v"], return_lse=True, **call
            )
        else:
            out, lse = attention(leaves["q"], leaves["k"], leaves["v"], dtype=dtype, **call)
        seen = torch.where(lse == -torch.inf, 0, lse)
        torch.manual_seed(5)
        weight, lse_weight = torch.randn(out.shape), torch.randn(lse.shape)
        ((out.double() * weight).sum() + (seen.double() * lse_weight).sum()).backward()
        runs.append((out.detach(), lse.detach(), {n: t.grad for n, t in leaves.items()}))
    own, yardstick, truth = runs
    judge(own[0], yardstick[0], truth[0])
    judge_lse(own[1], truth[1], q.dtype)
    for name in named:
        judge(own[2][name], yardstick[2][name], truth[2][name], 3.5, f"d{name}")
