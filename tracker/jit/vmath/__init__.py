"""stub"""
from collections.abc import Iterable
from tracker.jit.vmath import exponential, logarithm
from tracker.jit.vmath.text import *
from tracker.jit.vmath.text import FORMATS
_T={n:getattr(m,n) for m in (exponential,logarithm) for n in 'exp exp2 expm1 tanh sigmoid log log2 log10 log1p softplus'.split() if hasattr(m,n) and getattr(m,n).__module__==m.__name__}
NAMES={n:f.__code__.co_argcount for n,f in _T.items()}
def symbol(n,t): return f"@vm.{n}.{FORMATS[t].suffix}"
def _body(n,t):
    b=Body(FORMATS[t]); r=_T[n](*[Value(b,f'%x{i}',t) for i in range(NAMES[n])]); b.lines.append(f'  ret {r}'); return b
def definitions(w):
    s=''
    for n,t in w:
        b=_body(n,t)
        s+=f"define internal {t} {symbol(n,t)}({', '.join(f'{t} %x{i}' for i in range(NAMES[n]))}) alwaysinline {{\n"+'\n'.join(b.lines)+'\n}\n'
    return s
def intrinsics(w): return frozenset(i for n,t in w for i in _body(n,t).intrinsics)
