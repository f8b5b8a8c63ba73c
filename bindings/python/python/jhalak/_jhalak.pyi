"""The compiled part: tensors are integers here, and the package makes them."""

from typing import Any, TypeAlias

__version__: str

# (address, dtype code, device or -1, shape, strides in elements)
Descriptor: TypeAlias = tuple[int, int, int, tuple[int, ...], tuple[int, ...]]

def forward(
    q: Descriptor,
    k: Descriptor,
    v: Descriptor,
    options: tuple[Any, ...],
    out: Descriptor,
    lse: Descriptor,
    threads: int,
) -> None: ...
def backward(
    dout: Descriptor,
    q: Descriptor,
    k: Descriptor,
    v: Descriptor,
    out: Descriptor | None,
    delta: Descriptor | None,
    lse: Descriptor,
    dlse: Descriptor | None,
    options: tuple[Any, ...],
    targets: tuple[Descriptor | None, ...],
    accumulate: bool,
    threads: int,
) -> None: ...
def merge(
    parts: list[tuple[Descriptor, Descriptor]], out: Descriptor, lse: Descriptor, threads: int
) -> None: ...
def dropout_mask(
    q: Descriptor, k: Descriptor, v: Descriptor, options: tuple[Any, ...]
) -> tuple[list[int], bytes]: ...
def instruction_set() -> str: ...

class Borrowed:
    def __new__(cls, array: Any, name: str) -> Borrowed: ...
    @property
    def descriptor(self) -> Descriptor: ...
    @property
    def writable(self) -> bool: ...

class Array:
    def __new__(cls, dtype: int, shape: list[int]) -> Array: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def descriptor(self) -> Descriptor: ...
    def swapaxes(self, a: int, b: int) -> Array: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
