"""What type checkers read: annotations that resolve, and a stub that is true."""

import ast
import inspect
import typing
from pathlib import Path

import pytest

import jhalak
import jhalak.flash_attn_interface as fa3
import jhalak.torch
from jhalak import _jhalak
from jhalak.flash_attn import bert_padding
from jhalak.flash_attn import flash_attn_interface as fa2
from jhalak.flash_attn.layers import rotary

PACKAGE = Path(jhalak.__file__).parent
MODULES = [jhalak, jhalak.torch, fa2, fa3, bert_padding, rotary]
FUNCTIONS = sorted(
    {
        getattr(module, name)
        for module in MODULES
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    },
    key=lambda f: (f.__module__, f.__name__),
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_every_argument_and_result_has_a_type_that_resolves(function):
    hints = typing.get_type_hints(function)
    assert set(hints) == {*inspect.signature(function).parameters, "return"}


def test_the_marker_of_types_is_shipped():
    assert (PACKAGE / "py.typed").read_text() == ""


def test_the_stub_of_the_compiled_part_is_true():
    stub = ast.parse((PACKAGE / "_jhalak.pyi").read_text())
    described = {}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            described[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.ClassDef):
            described[node.name] = {member.name for member in node.body}
    compiled = {name for name in dir(_jhalak) if not name.startswith("_")}
    assert set(described) == compiled
    for name, shape in described.items():
        actual = getattr(_jhalak, name)
        if isinstance(shape, list):
            assert list(inspect.signature(actual).parameters) == shape, name
        else:
            own = {n for n in vars(actual) if n not in ("__doc__", "__module__")}
            assert own == shape, name
    assert isinstance(_jhalak.__version__, str)
