"""What a function reads of objects of libraries, of places that were empty, of what hides it."""

import collections
import concurrent.futures
import ctypes
import decimal
import functools
import queue
import threading
import types
import weakref

import numpy as np
import pytest
from read_routes import check, collector, nothing
from scipy.interpolate import PPoly

from tracker import CompileError, jit

PROGRAMS, program = collector()


# Objects of libraries: their methods read attributes that no code of the user's names ------------


@program
def a_flag_of_a_thread():
    event = threading.Event()

    def poke(i):
        (event.set if i % 2 else event.clear)()

    return lambda x: 2 * x if event.is_set() else x, poke, event.is_set


@program
def a_result_that_comes():
    future = concurrent.futures.Future()

    def poke(i):
        if i == 2:
            future.set_result(7.0)

    return lambda x: future.result() * x if future.done() else x, poke, nothing


@program
def a_polynomial():
    p = np.poly1d([1.0, 2.0])

    def poke(i):
        p.coeffs[0] = i

    return lambda x: p(2.0) * x, poke, nothing


@program
def a_polynomial_of_a_basis():
    p = np.polynomial.Chebyshev([1.0, 2.0])

    def poke(i):
        p.coef[0] = i

    return lambda x: p(2.0) * x, poke, nothing


@program
def a_polynomial_in_pieces():
    p = PPoly(np.ones((2, 1)), np.array([0.0, 1.0]))

    def poke(i):
        p.c[0, 0] = i

    return lambda x: float(p(0.5)) * x, poke, nothing


@program
def a_vectorized_function():
    scale = [1.0]
    each = np.vectorize(lambda y: y * scale[0])

    def poke(i):
        scale[0] = float(i)

    return lambda x: each(np.ones(2)).sum() * x, poke, nothing


@program
def indices_that_go_on():
    at = np.ndindex(3, 4)
    return lambda x: sum(next(at)) * x, nothing, nothing


@program
def items_that_go_on():
    a = np.arange(20.0)
    items = np.ndenumerate(a)

    def poke(i):
        a[:] += i

    return lambda x: next(items)[1] * x, poke, nothing


@program
def text_that_is_wrapped():
    text = collections.UserString("ab")

    def poke(i):
        text.data += "c"

    return lambda x: len(text) * x, poke, nothing


@program
def a_set_of_references():
    class Model:
        pass

    one, other = Model(), Model()
    one.k, other.k = 1.0, 3.0
    held = weakref.WeakSet([one])

    def poke(i):
        one.k += 1
        (held.add if i % 2 else held.discard)(other)

    return lambda x: sum(m.k for m in held) * x, poke, nothing


# Places that were empty, or not looked at -------------------------------------------------------


@program
def a_closure_variable_that_comes_and_goes():
    n = 1.0

    def f(x):
        nonlocal n
        try:
            found = n
        except NameError:
            found = 5.0
        n = 2.0
        del n
        return found * x

    def poke(i):
        nonlocal n
        if i == 2:
            n = 7.0

    return f, poke, nothing


@program
def attributes_of_a_partial():
    inner = functools.partial(lambda x: 2 * x)
    inner.calls = 1.0

    def f(x):
        inner.calls += 1
        return inner(x) * inner.calls

    def poke(i):
        inner.calls *= 2

    return f, poke, lambda: inner.calls


@program
def a_module_that_computes_its_names():
    module, scale = types.ModuleType("tracker_test_computed"), [1.0]
    module.__getattr__ = lambda name: scale[0]

    def poke(i):
        scale[0] = float(i)

    return lambda x: module.has_requirements * x, poke, nothing


# What hides its contents ------------------------------------------------------------------------


@program
def a_pointer():
    a = np.arange(3.0)
    pointer = a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))

    def poke(i):
        a[1] = i

    return lambda x: pointer[1] * x, poke, nothing


@program
def a_python_object_of_ctypes():
    numbers = [1.0]
    held = ctypes.py_object(numbers)

    def poke(i):
        numbers[0] = float(i)

    return lambda x: held.value[0] * x, poke, nothing


@program
def a_queue_in_c():
    numbers = queue.SimpleQueue()

    def f(x):
        numbers.put(x)
        return numbers.qsize() * x

    return f, nothing, lambda: [numbers.get() for _ in range(numbers.qsize())]


@program
def a_precision():
    context = decimal.Context(prec=3)

    def f(x):
        return float(context.divide(decimal.Decimal(1), decimal.Decimal(3))) * x

    def poke(i):
        context.prec = 2 + i

    return f, poke, nothing


@program
def a_ufunc_of_a_function():
    scale = [1.0]
    each = np.frompyfunc(lambda y: y * scale[0], 1, 1)

    def poke(i):
        scale[0] = float(i)

    return lambda x: each(2.0) * x, poke, nothing


# The test of all of them ------------------------------------------------------------------------


def test_what_hides_its_contents_is_refused_where_the_function_is_strict():
    context = decimal.Context(prec=3)
    with pytest.raises(CompileError, match="or what hides its contents"):
        jit(lambda x: x * context.prec, strict=True)(1.0)


@pytest.mark.filterwarnings("ignore:.*runs in plain Python:RuntimeWarning")
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_each_call_is_that_of_the_plain_function(make):
    check(make)
