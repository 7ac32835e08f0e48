"""Checks of the micro-kernels of recurrent layers."""
import numpy as np

from tests.checkasm.core import Call, In, InOut, Out, check

S, I = np.int16, np.int32


@check("gate_s16")
def gate(draw):
    n = draw.size(200, 1024)
    yield Call(n, In(draw.array(I, n)), In(draw.array(I, n)), draw.multiplier(), draw.integer(-31, 3),
               InOut(draw.array(S, n)), work=n)


@check("peephole_s16")
def peephole(draw):
    n = draw.size(200, 1024)
    yield Call(n, In(draw.array(S, n)), In(draw.array(S, n)), draw.multiplier(), draw.integer(-31, 0),
               InOut(draw.array(S, n)), work=n)


@check("norm_s16")
def norm(draw):
    n = draw.size(200, 1024, least=1)
    yield Call(n, In(draw.array(S, n)), In(draw.array(I, n, -2**20, 2**20)), draw.multiplier(), draw.integer(-20, -1),
               draw.integer(1, 1000), InOut(draw.array(S, n)), work=n)


@check("logistic_q3")
def logistic(draw):
    n = draw.size(300)
    x = draw.array(S, n)
    yield Call(n, In(x), Out(n, S), work=n)


@check("tanh_qm")
def tanh(draw):
    n = draw.size(300)
    yield Call(n, 3 if draw.bench else draw.integer(0, 6), In(draw.array(S, n)), Out(n, S), work=n)


@check("cell_s16")
def cell(draw):
    n = draw.size(200, 1024)
    i, f, g = (In(draw.array(S, n)) for _ in range(3))
    yield Call(n, draw.choice(i, i, None), f, g, draw.integer(0, 30), InOut(draw.array(S, n)), work=n)


@check("hidden_s8")
def hidden(draw):
    n = draw.size(200, 1024)
    yield Call(n, In(draw.array(S, n)), In(draw.array(S, n)), draw.multiplier(), draw.integer(-31, -8),
               draw.integer(-128, 127), Out(n, np.int8), work=n)


@check("filter_s16")
def filter(draw):
    n, steps = draw.size(40, 64, least=1), draw.integer(1, 20)
    time = draw.array(S, (n, steps))
    yield Call(n, steps, In(draw.array(S, n)), In(time), InOut(draw.array(S, (n, steps))), Out(n, I), work=n * steps)
