//! FlashAttention on x86-64 CPUs: tiled online softmax, forward and backward.
