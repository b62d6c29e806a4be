"""The sentences that stand under a struct's fields in its source, for the readers of the API."""

import ast
import inspect
from itertools import pairwise
from textwrap import dedent

from msgspec import Struct


def field_sentences(struct: type[Struct]) -> dict[str, str]:
    """What is said about each field; nothing where the source is not at hand, as in a frozen program."""
    sentences: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            sentences |= _sentences_of(base)
    return sentences


def _sentences_of(struct: type[Struct]) -> dict[str, str]:
    try:
        tree = ast.parse(dedent(inspect.getsource(struct)))
    except (OSError, TypeError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    sentences = {}
    for field, sentence in pairwise(body):
        match field, sentence:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                sentences[name] = inspect.cleandoc(text)
            case _:
                pass
    return sentences
