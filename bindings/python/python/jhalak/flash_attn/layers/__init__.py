"""flash-attn's layers that jhalak has: rotary."""
