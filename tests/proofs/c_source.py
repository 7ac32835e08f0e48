"""The C functions of _core/simd/rounding.h as formulas of z3.

Functions are inlined: declarations, assignments, `if` with a return or assignments, loops that constants bound, and
return.  Arithmetic wraps and >> of signed numbers is arithmetic, as the build demands (-fwrapv).  Products of two
unknowns can be left open: `products` then replaces each by a fresh unknown with the sign and the size of a product.
"""
import re
from functools import cache
from pathlib import Path

import z3
from pycparser import c_ast, c_parser

HEADER = Path(__file__).parents[2] / "pylite" / "_core" / "simd" / "rounding.h"
TYPES = {"int": (32, True), "int32_t": (32, True), "uint32_t": (32, False), "int64_t": (64, True),
         "uint64_t": (64, False), "int16_t": (16, True), "int8_t": (8, True), "uint8_t": (8, False)}
CONSTANTS = {"INT32_MAX": (2**31 - 1, "int"), "INT32_MIN": (-(2**31), "int")}


@cache
def functions():
    """{name: the function's node} of all functions in the header without floats, pointers and arrays."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    found = {}
    for match in re.finditer(r"^PL_INLINE ([^\n]*\{[^\n]*\}|[^\n]*\{\n.*?^\})\s*$", text, re.S | re.M):
        source = match[1].replace("INT64_C(1)", "(int64_t)1")
        head = source.split("{")[0]
        if "*" in head or "float" in source or "double" in source or "[" in source:
            continue
        prelude = "".join(f"typedef int {name};" for name in TYPES if name != "int")     # pycparser must know them
        node = c_parser.CParser().parse(prelude + source).ext[-1]
        found[node.decl.name] = node
    return found


class Number:
    """A value of C: bits (z3 or int), width, signed."""

    def __init__(self, bits, width, signed):
        self.bits = z3.BitVecVal(bits, width) if isinstance(bits, int) else bits
        self.width, self.signed = width, signed

    def to(self, width, signed):
        if width <= self.width:
            return Number(z3.Extract(width - 1, 0, self.bits) if width < self.width else self.bits, width, signed)
        more = width - self.width
        return Number(z3.SignExt(more, self.bits) if self.signed else z3.ZeroExt(more, self.bits), width, signed)

    def promoted(self):
        return self.to(32, True) if self.width < 32 else self

    def true(self):
        return self.bits != 0

    def literal(self):
        value = z3.simplify(self.bits)
        if not z3.is_bv_value(value):
            raise ValueError("a loop or a shift depends on an unknown where a constant is needed")
        return value.as_signed_long() if self.signed else value.as_long()


def int32(bits):
    return Number(bits, 32, True)


def call(name, *arguments, products=None):
    """The result of function `name` of the header for z3 32-bit vectors or ints; see Evaluation for `products`."""
    return Evaluation(products).call(name, [a if isinstance(a, Number) else int32(a) for a in arguments]).bits


class Evaluation:
    """Evaluates functions.  products: a list that gets (a, b, p) for each product of unknowns, which p stands for."""

    def __init__(self, products=None):
        self.products = products

    def call(self, name, arguments):
        if name == "__builtin_clz":
            return int32(_leading_zeros(arguments[0].to(32, False).bits))
        node = functions()[name]
        scope = {}
        for parameter, value in zip(node.decl.type.args.params, arguments, strict=True):
            scope[parameter.name] = value.to(*_type(parameter.type))
        self.returns = []
        outer, result = self.returns, self.run(node.body.block_items, scope)
        self.returns = outer
        return result.to(*_type(node.decl.type.type))

    def run(self, statements, scope):
        """The value that is returned by the statements, or None."""
        for i, s in enumerate(statements):
            if isinstance(s, c_ast.Return):
                return self.value(s.expr, scope)
            if isinstance(s, c_ast.If):
                yes, no = dict(scope), dict(scope)
                condition = self.value(s.cond, scope).true()
                first = self.run([*_block(s.iftrue), *statements[i + 1:]], yes)
                second = self.run([*(_block(s.iffalse) if s.iffalse else []), *statements[i + 1:]], no)
                return _either(condition, first, second)
            self.step(s, scope)
        return None

    def step(self, s, scope):
        if isinstance(s, c_ast.Decl):
            scope[s.name] = self.value(s.init, scope).to(*_type(s.type)) if s.init else Number(0, *_type(s.type))
            scope[s.name, "type"] = _type(s.type)
        elif isinstance(s, c_ast.DeclList):
            for each in s.decls:
                self.step(each, scope)
        elif isinstance(s, c_ast.Assignment):
            value = self.value(s.rvalue, scope)
            if s.op != "=":
                value = self.binary(s.op[:-1], scope[s.lvalue.name], value)
            before = scope[s.lvalue.name]
            scope[s.lvalue.name] = value.to(before.width, before.signed)
        elif isinstance(s, c_ast.For):
            self.step(s.init, scope)
            while self.value(s.cond, scope).literal():
                for each in _block(s.stmt):
                    self.step(each, scope)
                self.value(s.next, scope)
        else:
            raise ValueError(f"a {type(s).__name__} is not evaluated")

    def value(self, e, scope):
        if isinstance(e, c_ast.ID):
            return Number(CONSTANTS[e.name][0], *TYPES["int"]) if e.name in CONSTANTS else scope[e.name]
        if isinstance(e, c_ast.Constant):
            return Number(int(e.value.rstrip("uUlL"), 0), 32, "u" not in e.value.lower())
        if isinstance(e, c_ast.Cast):
            return self.value(e.expr, scope).to(*_type(e.to_type.type))
        if isinstance(e, c_ast.FuncCall):
            return self.call(e.name.name, [self.value(a, scope) for a in e.args.exprs])
        if isinstance(e, c_ast.TernaryOp):
            a, b = self.balanced(self.value(e.iftrue, scope), self.value(e.iffalse, scope))
            return Number(z3.If(self.value(e.cond, scope).true(), a.bits, b.bits), a.width, a.signed)
        if isinstance(e, c_ast.UnaryOp):
            return self.unary(e, scope)
        return self.binary(e.op, self.value(e.left, scope), self.value(e.right, scope))

    def unary(self, e, scope):
        if e.op in ("p++", "++"):
            scope[e.expr.name] = self.binary("+", scope[e.expr.name], int32(1))
            return scope[e.expr.name]
        x = self.value(e.expr, scope).promoted()
        return {"-": lambda: Number(-x.bits, x.width, x.signed), "~": lambda: Number(~x.bits, x.width, x.signed),
                "!": lambda: _truth(z3.Not(x.true()))}[e.op]()

    def balanced(self, a, b):
        a, b = a.promoted(), b.promoted()
        width = max(a.width, b.width)
        signed = all(x.signed for x in (a, b) if x.width == width)
        return a.to(width, signed), b.to(width, signed)

    def binary(self, op, a, b):
        if op in ("<<", ">>"):
            a = a.promoted()
            count = b.to(a.width, b.signed).bits
            shifted = a.bits << count if op == "<<" else a.bits >> count if a.signed else z3.LShR(a.bits, count)
            return Number(shifted, a.width, a.signed)
        if op in ("&&", "||"):
            return _truth((z3.And if op == "&&" else z3.Or)(a.true(), b.true()))
        a, b = self.balanced(a, b)
        if op == "*":
            return self.product(a, b)
        x, y, signed = a.bits, b.bits, a.signed
        comparisons = {"<": lambda: x < y if signed else z3.ULT(x, y), ">": lambda: x > y if signed else z3.UGT(x, y),
                       "<=": lambda: x <= y if signed else z3.ULE(x, y),
                       ">=": lambda: x >= y if signed else z3.UGE(x, y), "==": lambda: x == y, "!=": lambda: x != y}
        if op in comparisons:
            return _truth(comparisons[op]())
        plain = {"+": lambda: x + y, "-": lambda: x - y, "&": lambda: x & y, "|": lambda: x | y, "^": lambda: x ^ y,
                 "/": lambda: x / y if signed else z3.UDiv(x, y)}
        return Number(plain[op](), a.width, signed)

    def product(self, a, b):
        if self.products is None or any(z3.is_bv_value(z3.simplify(v.bits)) for v in (a, b)):
            return Number(a.bits * b.bits, a.width, a.signed)
        p = z3.BitVec(f"product{len(self.products)}", a.width)
        self.products.append((a.bits, b.bits, p))
        return Number(p, a.width, a.signed)


def _type(node):
    while not isinstance(node, c_ast.IdentifierType):
        node = node.type
    return TYPES[" ".join(node.names)]


def _block(statement):
    return statement.block_items if isinstance(statement, c_ast.Compound) else [statement]


def _truth(condition):
    return int32(z3.If(condition, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32)))


def _either(condition, a, b):
    if a is None or b is None:
        raise ValueError("one branch returns and the other does not")
    return Number(z3.If(condition, a.bits, b.bits), a.width, a.signed)


def _leading_zeros(x):
    """Of a number that is not 0."""
    count = z3.BitVecVal(31, 32)
    for i in range(31):
        count = z3.If(z3.And(z3.LShR(x, i) != 0, z3.LShR(x, i + 1) == 0), z3.BitVecVal(31 - i, 32), count)
    return count


def prove(claim, *given):
    """Assert that `claim` holds for all values of its unknowns that meet the conditions."""
    solver = z3.Solver()
    solver.add(*given, z3.Not(claim))
    found = solver.check()
    assert found == z3.unsat, f"{found}: {solver.model() if found == z3.sat else solver.reason_unknown()}"
