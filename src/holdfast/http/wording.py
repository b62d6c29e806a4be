"""The sentences that stand under a struct's fields in its source, for the readers of the API."""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from msgspec import Struct


def field_sentences(struct: type[Struct]) -> dict[str, str]:
    """What is said about each field; nothing where the source is not at hand, as in a frozen program."""
    sentences: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        sentences |= _in_module(base.__module__).get(base.__name__, {})
    return sentences


@cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError):
        return {}
    return {node.name: _in_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _in_class(node: ast.ClassDef) -> dict[str, str]:
    sentences = {}
    for field, sentence in pairwise(node.body):
        match field, sentence:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                sentences[name] = inspect.cleandoc(text)
            case _:
                pass
    return sentences
