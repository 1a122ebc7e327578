"""Single changes to Python source that a good test notices: operators, comparisons, constants, signs, conditions.

`changes_of(path)` lists every change that the rules below allow in a module; `mutated(change)` is the module's syntax
tree with that one change made. Line numbers stay, so a traceback still points at the source.

Left alone is what computes nothing: annotations, decorators, error messages (`raise`, f-strings, warnings), `__repr__`,
`__str__`, and keywords that only guard (`strict=True`, `stacklevel=2`).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_PAIRS = "min max, minimum maximum, floor ceil, any all, argmin argmax, fmin fmax, cumsum cumprod, exp expm1, log log1p"
NAMES = {a: b for pair in _PAIRS.split(", ") for a, b in (pair.split(), pair.split()[::-1])}
DROPPED = {"abs", "fabs", "sqrt", "square"}
QUIET_KEYWORDS = {"strict", "stacklevel", "copy", "allow_pickle", "maxsize", "encoding"}
QUIET_FUNCTIONS = {"__repr__", "__str__"}
QUIET_CALLS = {"warn", "filterwarnings", "simplefilter", "TypeVar"}


class Change(NamedTuple):
    """One change: where it is, what it reads like, and its number among the changes of the module."""

    path: Path
    line: int
    function: str  # dotted name of what it is in; "" at module level
    text: str  # "x + 1 -> x - 1"
    number: int


class _Site(NamedTuple):
    parent: ast.AST
    field: str
    place: int | None
    old: ast.AST
    new: ast.AST
    function: str


def changes_of(path: Path) -> list[Change]:
    """Every change that the rules allow in a module, in the order of the source."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for number, site in enumerate(_sites(ast.parse(path.read_text(encoding="utf-8")), "")):
        text = _text(site)
        seen[site.function, text] += 1
        again = seen[site.function, text]
        line = getattr(site.old, "lineno", 0)
        found.append(Change(path, line, site.function, text + (f" (#{again})" if again > 1 else ""), number))
    return found


def mutated(change: Change) -> ast.Module:
    """The module's syntax tree with the change made."""
    tree = ast.parse(change.path.read_text(encoding="utf-8"))
    for number, site in enumerate(_sites(tree, "")):
        if number == change.number:
            _put(site)
            return ast.fix_missing_locations(tree)
    raise ValueError(f"change: expected one of the {number + 1} changes of {change.path}, got number {change.number}")


def _put(site: _Site) -> None:
    if site.place is None:
        setattr(site.parent, site.field, ast.copy_location(site.new, site.old))
    else:
        getattr(site.parent, site.field)[site.place] = ast.copy_location(site.new, site.old)


def _text(site: _Site) -> str:
    """`old -> new`; a constant is shown with the expression around it."""
    around = isinstance(site.old, ast.Constant) and not hasattr(site.parent, "body")
    if not around or isinstance(site.parent, ast.Expr):
        return f"{ast.unparse(site.old)} -> {ast.unparse(site.new)}"
    before = ast.unparse(site.parent)
    keep = site.old
    _put(site)
    after = ast.unparse(site.parent)
    _put(site._replace(new=keep))
    return f"{before} -> {after}"


def _sites(node: ast.AST, function: str) -> Iterator[_Site]:
    """Every place below `node` where a change can be made, each with one new node."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if not isinstance(child, ast.AST) or _quiet(child):
                continue
            for new in _variants(child, field):
                yield _Site(node, field, place if isinstance(value, list) else None, child, new, function)
            name = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
            yield from _sites(child, ".".join(filter(None, (function, name))))


def _quiet(node: ast.AST) -> bool:
    """Whether nothing inside is mathematics."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name):
            return name in QUIET_FUNCTIONS
        case ast.keyword(arg=arg):
            return arg in QUIET_KEYWORDS
        case ast.Call(func=called):
            return _called(called) in QUIET_CALLS
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
    return False


def _variants(node: ast.AST, field: str) -> Iterator[ast.AST]:
    """What may stand in place of one node."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS and not _of_types(node):
            yield _with(node, op=OPERATORS[type(op)]())
        case ast.Compare(ops=[op, *rest]):
            for other in COMPARISONS[type(op)]:
                yield _with(node, ops=[other(), *rest])
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield copy.deepcopy(operand)
        case ast.Constant(value=value):
            yield from (ast.Constant(other) for other in _other_values(value))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            if name in DROPPED and len(args) == 1:
                yield copy.deepcopy(args[0])
            elif name in NAMES:
                key = "id" if isinstance(node.func, ast.Name) else "attr"
                yield _with(node, func=_with(node.func, **{key: NAMES[name]}))
    if field == "test" and isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        yield ast.UnaryOp(ast.Not(), copy.deepcopy(node))


def _other_values(value: Any) -> Iterator[bool | int | float]:
    """Neighbours of a number; nothing for text and None."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1) if abs(value) <= 16 else (2 * value, value // 2)
    elif isinstance(value, float):
        yield from (1.0,) if value == 0 else (2 * value, value / 2)


def _of_types(node: ast.AST) -> bool:
    """Whether `a | b` unites types, as in `isinstance(x, int | float)` or an alias."""
    names = {"None", "int", "float", "str", "bool", "list", "tuple", "dict", "set", "complex"}
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
        return False
    return any(ast.unparse(side) in names or "ndarray" in ast.unparse(side) for side in (node.left, node.right))


def _called(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _with(node: Any, **fields: Any) -> Any:
    """A copy of the node with some fields changed."""
    new = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
