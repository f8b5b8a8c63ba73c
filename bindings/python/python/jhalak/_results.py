"""What calls return."""

from typing import Any, NamedTuple


class Gradients(NamedTuple):
    """Gradients, each shaped as the tensor it belongs to; None where it was not asked for."""

    dq: Any
    dk: Any
    dv: Any
    dbias: Any
    dsinks: Any
