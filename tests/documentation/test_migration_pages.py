"""The pages for people who come from elsewhere: every row does what it says."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.special as sc

import tracker
from tracker import special
from tracker.testing import gradcheck

PAGES = Path(__file__).parents[2] / "docs" / "migration"

NUMBERS = {
    "x": 0.7, "y": 1.9, "p": 0.8, "q": 1.3, "u": 0.4, "w": 2.6,
    "A": np.array([[2.0, 0.3], [0.1, 1.5]]), "B": np.array([[1.2, -0.4], [0.6, 0.9]]),
    "v": np.array([0.5, 1.4, -0.8]), "image": np.random.default_rng(0).normal(size=(1, 2, 4, 4)),
    "kernel": np.random.default_rng(1).normal(size=(3, 2, 2, 2)),
}  # fmt: skip
NAMES = {"np": np, "sc": sc, "special": special, "tracker": tracker, "n": 2, "abs": abs}


def calls():
    """The expressions of the last column, of the tables whose variables are explained."""
    page = (PAGES / "tracker_jl.md").read_text().split("## Numbers")[1]
    for line in page.splitlines():
        if line.startswith("| ") and not line.startswith(("| Tracker.jl", "|---")):
            column = line.strip("| ").split(" | ")[-1]
            yield from re.findall(r"`([^`]+)`", column)


CALLS = list(calls())


def test_the_table_is_read():
    assert len(CALLS) > 150
    assert {"np.sin(x)", "special.sinpi(x)", "A @ B"} <= set(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_row_resolves_and_differentiates(call):
    code = compile(call, call, "eval")
    inner = [c.co_names for c in code.co_consts if hasattr(c, "co_names")]
    found = dict.fromkeys(name for names in (code.co_names, *inner) for name in names)
    used = [name for name in found if name in NUMBERS]
    assert used, call

    def f(*args):
        return eval(code, {**NAMES, **dict(zip(used, args, strict=True))})

    args = [NUMBERS[name] for name in used]
    assert gradcheck(f, *args)


NAMED = re.compile(r"`([^`]+)`")


def test_every_rule_of_tracker_jl_has_a_row():
    """The list of its functions, from DiffRules and src/lib, against the first column."""
    page = (PAGES / "tracker_jl.md").read_text()
    first = " ".join(
        line.strip("| ").split(" | ")[0] for line in page.splitlines() if line.startswith("| `")
    )
    first += " ".join(line for line in page.splitlines() if line.startswith("| NaNMath"))
    have = set(re.findall(r"[a-z_][a-z0-9_]*", first, re.IGNORECASE))
    assert sorted(set(LIST.split()) - have) == []


LIST = """
sqrt cbrt abs2 inv log log10 log2 log1p exp exp2 exp10 expm1 sin cos tan sec csc cot sind cosd tand
secd cscd cotd sinpi cospi asin acos atan asec acsc acot asind acosd atand asecd acscd acotd sinh
cosh tanh sech csch coth asinh acosh atanh asech acsch acoth sinc deg2rad rad2deg mod2pi abs hypot
ldexp mod rem rem2pi max min gamma loggamma logabsgamma digamma invdigamma trigamma polygamma beta
logbeta zeta erf erfc logerfc erfcx logerfcx erfi erfinv erfcinv dawson expint sinint cosint ellipk
ellipe airyai airyaiprime airyaix airyaiprimex airybi airybiprime airybix airybiprimex besselj0
besselj1 bessely0 bessely1 besselj besseljx besseli besselix bessely besselyx besselk besselkx
besselh besselhx hankelh1 hankelh1x hankelh2 hankelh2x pow lgamma xlogx xlogy xlog1py logistic logit
log1psq log1pexp log1mexp log2mexp logexpm1 log1pmx logmxp1 logaddexp logsubexp view transpose
adjoint det logdet logabsdet dot kron repeat vcat hcat cat reduce reshape permutedims
PermutedDimsArray reverse sum prod mean var std norm maximum minimum diagm softmax logsoftmax
collect hook checkpoint nobacksies forwarddiff conv depthwiseconv maxpool meanpool dropout
"""


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_names_of_ours_are_there(page):
    """Every `tracker.name` that a page mentions exists."""
    text = (PAGES / page).read_text()
    for name in set(re.findall(r"`@?(tracker(?:\.\w+)+)", text)):
        thing = tracker
        for part in name.split(".")[1:]:
            thing = getattr(thing, part)
