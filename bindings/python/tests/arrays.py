"""Arrays of every kind that jhalak takes, made from torch tensors, and back."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

NUMPY_DTYPES = {
    torch.float32: np.float32,
    torch.float16: np.float16,
    torch.bfloat16: ml_dtypes.bfloat16,
    torch.float64: np.float64,
}


class Producer:
    """An array of a library nobody knows, which speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **request):
        return self.array.__dlpack__(**request)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class LegacyProducer(Producer):
    """One from before the protocol had versions."""

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


def to_numpy(tensor):
    """The tensor as an array of its own, of the same dtype."""
    return tensor.detach().double().numpy().astype(NUMPY_DTYPES[tensor.dtype])


KINDS = {
    "numpy": to_numpy,
    "jax": lambda x: jnp.asarray(to_numpy(x)),
    "dlpack": lambda x: Producer(x.detach().clone()),
    "legacy dlpack": lambda x: LegacyProducer(x.detach().clone()),
}
RESULTS = {"numpy": np.ndarray, "jax": jax.Array}


def to_torch(array):
    """Any array as a tensor of the same dtype."""
    if isinstance(array, np.ndarray | jax.Array):
        array = np.asarray(array)
        dtype = {v: k for k, v in NUMPY_DTYPES.items()}[array.dtype.type]
        return torch.from_numpy(array.astype(np.float64)).to(dtype)
    return torch.from_dlpack(array)
