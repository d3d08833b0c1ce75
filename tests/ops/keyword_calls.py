"""Calls of NumPy's functions with rarely used keywords, as text, two spaces apart.

The arrays in `ARRAYS` are differentiated, those in `GIVEN` are not. They avoid ties and jumps,
except in calls with integers. Calls that must raise are in `refused_calls.py`.
"""

import re

import numpy as np

_RNG = np.random.default_rng(3)
A = _RNG.permutation(12).reshape(3, 4) / 4.1 - 1.313
B = _RNG.permutation(12).reshape(3, 4) / 5 + 0.35
_S = _RNG.standard_normal((3, 3)) + 3 * np.eye(3)
_V, _W = np.array([0.31, -1.23, 2.13, 0.72]), np.array([1.53, -0.42, 0.81, 2.24])
ARRAYS = {
    "A": A,
    "B": B,
    "Bp": B + 0.2,
    "C": (_RNG.permutation(24).reshape(2, 3, 4) - 11.4) / 7,
    "S": _S,
    "SS": np.stack([_S, _S.T + 1]),
    "P": _S @ _S.T,
    "H": _S @ _S.T + 1j * (_S - _S.T),
    "Z": A + 1j * B,
    "v": _V,
    "w": _W,
    "u": np.array([0.21, -0.33, 0.54, 0.95]),
    "zv": _V + 1j * _W,
    "ps": np.abs(_V) + 0.1,
    "s": 1.7,
    "a0": np.array(0.7),
    "f4": A.astype("f4"),
}
M = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1]], dtype=bool)
ARRAYS["N"] = np.where(M, A, np.nan)
ARRAYS["X"] = np.array([[1.0, np.inf, -np.inf, 2.0], [np.inf, np.nan, 3.0, np.inf]])
ARRAYS["empty"] = np.zeros((0, 3))
ARRAYS["F"] = np.asfortranarray(A)
GIVEN = {
    "np": np,
    "M": M,
    "mv": np.array([True, False, True, True]),
    "I": np.array([2, 0, 2, 1]),
    "i8": np.arange(4),
    "ints": np.arange(12).reshape(3, 4),
}

CALLS = {
    "elementwise": """
np.add(A,w,dtype='f8',casting='safe')  np.add(A,w,signature='dd->d')
np.add(f4,w,sig=(None,None,'f4'))  np.add(f4,1,casting='no')  np.less(A,w,dtype=bool)
np.absolute(Z,dtype='f8')  np.absolute(Z,signature='D->d')  np.ldexp(A,i8,dtype='f8')
np.frexp(A,signature='d->di')  np.add(f4,w,dtype='f4',casting='unsafe')
np.multiply(A,B,order='F')  np.power(ps,[1,2,3,0])  np.float_power(ps,2)
np.sqrt(Bp,dtype=complex)  np.exp(A,subok=False)  np.remainder(A,-.7)  np.divmod(A,.7)
np.floor_divide(A,.7)  np.modf(A)  np.frexp(A)  np.ldexp(A,i8)  np.heaviside(A,.5)
np.angle(zv,deg=True)  np.real_if_close(v+0j)  np.nan_to_num(N,nan=3.)
np.nan_to_num(A,copy=False)  np.clip(A,-1,1)  np.clip(A,None,w)  np.clip(A,a_min=-w*w,a_max=None)
np.clip(A,min=-.5,max=.6)  np.clip(A,None,None)  np.clip(A,-1,1,out=np.stack([A,A]))
np.clip(A,-1,1,order='F',subok=True,casting='same_kind')  np.clip(A,None,w,casting='safe')
np.clip(A,-1,1,where=M,out=A*2)  np.clip(A,min=0,where=M,out=A*2)  np.clip(A,None,None,dtype='f4')
np.round(A,-1)  np.round(A,decimals=1)  np.around(A,-1)  np.i0(v)  np.isclose(A,B)
np.clip(v,-1,1,dtype='f4',casting='unsafe')
""",
    "reductions": """
np.sum(A,axis=-1,keepdims=True)  np.sum(C,axis=(0,2))
np.sum(C,axis=(-1,0),keepdims=True,initial=2.)  np.sum(A,where=M,initial=1.,axis=0)
np.sum(A,0,float,None,True)  np.sum(A,dtype=complex)  np.sum(f4,dtype='f8')
np.prod(A,axis=1,where=M,initial=2.,keepdims=True)  np.prod(C,axis=(0,1))
np.mean(C,axis=(0,1),keepdims=True)  np.mean(A,where=M,axis=1)  np.mean(f4,dtype='f8')
np.std(A,axis=0,ddof=1)  np.std(A,axis=1,correction=1,keepdims=True)  np.std(A,where=M)
np.std(A,axis=0,mean=None)  np.var(A*3,axis=0,dtype=int)  np.mean(A*3,dtype=int)
np.std(A*3,dtype=int)  np.mean(A*3,axis=0,dtype='i4')
np.std(A,axis=0,mean=np.mean(A,axis=0,keepdims=True))  np.var(Z,axis=0)
np.var(A,axis=(0,1),ddof=2)  np.max(A,axis=1,keepdims=True)  np.max(A,initial=.4,axis=0)
np.max(A,where=M,initial=-5.,axis=1)  np.max(ints,where=M,initial=-5.,axis=1)
np.min(ints,initial=2.7)  np.amin(C,axis=(0,2))  np.ptp(A,axis=1,keepdims=True)
np.average(A,axis=0,weights=[1,2,3])  np.average(A,weights=Bp)
np.average(A,axis=1,weights=w,returned=True)  np.average(C,axis=(1,2),weights=Bp,keepdims=True)
np.median(A,axis=1,keepdims=True)  np.median(C,axis=(0,2))  np.median(A,overwrite_input=True)
np.percentile(A,[10,35.],axis=1)  np.percentile(A,30,method='hazen',axis=0,keepdims=True)
np.quantile(A,.3,axis=0)  np.quantile(A,s/5)  np.quantile(A,[.2,.6],method='lower')
np.quantile(A,[.22,.61],method='midpoint',axis=1)  np.quantile(A,.3,method='nearest')
np.quantile(A,.37,method='weibull')  np.nanquantile(N,.4,axis=1)  np.nanpercentile(N,40)
np.nanmedian(N,axis=0)  np.nansum(N,axis=0,keepdims=True)  np.nansum(N,where=M,initial=1.)
np.nanprod(N,axis=1)  np.nanmean(N,axis=1,keepdims=True)  np.nanstd(N,axis=1,ddof=1)
np.nanvar(N,axis=0)  np.nanmax(N,axis=1)  np.nanmin(N,axis=0,keepdims=True)
np.count_nonzero(A,axis=1,keepdims=True)  np.argmax(A,axis=1,keepdims=True)
np.nanargmin(N,axis=1)  np.nanmax(N,initial=5.,where=M)  np.nansum(N,dtype='f4',axis=1)
np.var(A,axis=0,keepdims=True,where=M,ddof=1)
""",
    "running and differences": """
np.nancumsum(N,axis=1)  np.nancumprod(N,axis=0)  np.cumsum(A,axis=-1,dtype='f8')
np.cumprod(A,axis=0)  np.cumulative_sum(v,include_initial=True)
np.cumulative_sum(A,axis=1,include_initial=True)  np.cumulative_prod(A,axis=0)
np.diff(A,n=2,axis=0)  np.diff(A,prepend=0.,append=1.)  np.diff(v,prepend=w[:2])
np.ediff1d(A,to_begin=1.,to_end=[2.,3.])  np.gradient(v)  np.gradient(A,.5,axis=1)
np.gradient(A,np.array([0.,1.,3.]),np.array([0.,.5,2.,3.]))  np.gradient(A,edge_order=2)
np.gradient(C,axis=(0,2))  np.trapezoid(A,dx=.3,axis=0)  np.trapezoid(v,x=np.cumsum(ps))
""",
    "products": """
np.einsum('ii->i',S,dtype='f4')  np.einsum('ij->ji',A,dtype=complex,order='C')
np.matmul(A,B.T,dtype='f8',casting='unsafe',subok=False)  np.matmul(f4,B.T,casting='safe')
np.matvec(A,v,order='C',signature='dd->d')  np.vecdot(A,B,casting='same_kind',axes=[0,0,()])
np.cross(A[:,:3],B[:,:3])  np.cross(A.T,B.T)  np.cross(A[:,:3],B[:,:3],axis=0)  np.dot(A,B.T)
np.vdot(A,B)  np.vdot(Z,Z*2)  np.vecdot(A,B)  np.vecdot(Z,Z*1j,axis=0)  np.matvec(A,w)
np.vecmat(w,A.T)  np.inner(A,B)  np.outer(A,w)  np.kron(A[:2,:2],B[:1])  np.matmul(C,A.T)
np.matmul(A,B,axes=[(0,1),(1,0),(0,1)])  np.tensordot(C,A,axes=([1,2],[0,1]))  np.tensordot(v,w,0)
np.einsum('ij,kj->ik',A,B)  np.einsum('ij,kj->ik',A,B,optimize=True)  np.einsum(A,[0,1],w,[1],[0])
np.einsum('ii->i',S)  np.einsum('ii',S)  np.einsum('...j,j',C,w)  np.einsum('ij->ji',A)
np.einsum('i,j,k->kji',v,w,u)  np.einsum('ij,ij',A,B,dtype='f8',order='F')
np.trace(C,offset=1,axis1=1,axis2=2)  np.trace(A,-1)  np.trace(S,dtype='f4')
""",
    "shapes": """
np.linspace(f4[0,0],3.,4)  np.linspace(f4[0],2,3,retstep=True)  np.logspace(f4[0],2.,3)
np.logspace(f4[0],2.,3,base=np.float64(2))  np.geomspace(f4[0]*f4[0],2.,3)
np.geomspace(np.astype(ps,'f2'),2.,3,dtype='f4')  np.delete(C,np.array([True,False,True]),1)
np.full_like(F,2.,shape=(4,),order='A')  np.diag(A,1)  np.diag(v,-1)  np.diagflat(A,1)
np.diagonal(C,1,0,2)  np.tril(A,-1)  np.triu(C,1)  np.vander(v,3,increasing=True)
np.reshape(A,(2,-1),order='F')  np.reshape(A,shape=(4,3),copy=True)  np.ravel(A,order='F')
np.transpose(C,axes=(2,0,1))  np.permute_dims(C,(1,2,0))  np.swapaxes(C,0,-1)
np.moveaxis(C,[0,1],[-1,0])  np.rollaxis(C,2,1)  np.expand_dims(A,(0,-1))
np.squeeze(A[None,:,None],axis=(0,2))  np.atleast_1d(s,v)  np.broadcast_to(v,(2,4),subok=True)
np.broadcast_to(v,4)  np.broadcast_to(v[0],())  np.broadcast_arrays(v,w)  np.broadcast_arrays(A,w)
np.flip(C,(0,2))  np.rot90(A,-1)  np.rot90(C,3,axes=(0,2))  np.roll(A,2)
np.roll(A,(1,-2),axis=(0,1))  np.roll(C,[1,2,3],axis=(0,1,0))  np.tile(A,(2,1,3))  np.tile(v,2)
np.repeat(A,2)  np.repeat(A,[1,0,2],axis=0)  np.concatenate([A,B],axis=1,dtype='f8')
np.concatenate((A,B),axis=None)  np.concat([A,B])
np.stack([v,w],axis=-1,dtype=complex,casting='same_kind')  np.vstack([v,A])  np.hstack([A,B])
np.dstack([A,B])  np.column_stack([v,A.T])  np.block([[A,B],[B,A*2]])  np.append(A,B,axis=0)
np.append(A,1.)  np.insert(A,[1,3],9.,axis=1)  np.insert(v,1,w)  np.insert(A,-1,w,axis=0)
np.delete(A,1,axis=0)  np.delete(v,[0,2])  np.delete(A,np.s_[::2],1)  np.resize(v,(3,3))
np.trim_zeros(np.concatenate([[0.],v,[0.]]),'f')  np.pad(A,1)  np.pad(A,((1,0),(0,2)),mode='edge')
np.pad(A,2,mode='reflect')  np.pad(A,1,mode='reflect',reflect_type='odd')
np.pad(A,2,mode='symmetric')  np.pad(v,(5,6),mode='wrap')
np.pad(A,1,mode='constant',constant_values=((1,2),(3,4)))
np.pad(A,1,mode='linear_ramp',end_values=1.)  np.pad(A,1,mode='mean')
np.pad(A,1,mode='mean',stat_length=2)  np.pad(A,1,mode='maximum')  np.pad(A,1,mode='minimum')
np.pad(A,1,mode='median')  np.pad(A,{0:1})  np.split(A,[1,2],axis=1)  np.split(v,2)
np.array_split(A,3,axis=1)  np.hsplit(A,2)  np.vsplit(A,3)  np.dsplit(C,2)  np.unstack(A)
np.unstack(A,axis=1)  np.meshgrid(v,w,indexing='ij')  np.meshgrid(v,w,sparse=True)
np.linspace(v,w,5,axis=1)  np.linspace(s,3.,4,endpoint=False)  np.linspace(0,s,4,retstep=True)
np.logspace(s,2.,4,base=3.)  np.geomspace(s,20.,4)  np.full_like(A,s)  np.ones_like(A,dtype='f4')
np.copyto(np.zeros_like(A),A,where=M)  np.fill_diagonal(np.zeros_like(S),v[:3])  np.astype(A,'f4')
np.asarray(A,like=A)  np.block([v,w])  np.tri(3)*S
""",
    "selecting and sorting": """
np.where(M,A,B)  np.where(M,A,0)  np.select([A>0,A>-1],[A,B],default=3.)
np.choose([0,1,0,1],[v,w])  np.choose([0,3,-1,1],[v,w],mode='wrap')
np.piecewise(v,[v<0,v>=0],[lambda x:x*x,lambda x:3*x])  np.piecewise(v,[v<0],[2.,lambda x:x])
np.extract(mv,v)  np.compress([True,False,True],A,axis=0)  np.take(A,I,axis=1,mode='clip')
np.take(A,[[0,11],[-1,3]])  np.take(A,[1.7,True])  np.take(A,M)  np.take(A,np.float64(2),axis=1)
np.take_along_axis(A,np.argsort(A,axis=1),axis=1)
np.take_along_axis(A,np.array([1,5,2]),axis=None)  np.sort(A,axis=None)
np.sort(A,axis=0,kind='stable')  np.sort_complex(zv)  np.partition(A,2,axis=1)
np.partition(v,[0,2])  np.unique(v)  np.unique(A,return_index=True,return_counts=True)
np.unique_values(A)  np.unique(np.vstack([N,N]),True,True,True,axis=0)
np.unique(np.ravel(N),axis=0)  np.delete(v,())  np.dot(C[:,:,:0],np.zeros((3,0,2)))
np.dot(empty.T,np.zeros((2,0,2)))  np.broadcast_to(v[:3,None],(2,3,2)).ravel('K')
np.broadcast_to(A.T[:,None],(4,2,3)).flatten('K')
np.broadcast_to(v[:2],(2,3,2)).transpose(2,0,1).ravel('K')
np.piecewise(v,np.stack([v<0,v>1]),w[:3])  np.piecewise(v,True,[3.])  np.einsum('',a0)
np.einsum('',s)  np.histogramdd(f4.T,3,range=[(-2,2)]*3)  np.histogramdd(f4.T,3)
np.histogramdd([v,f4[0]],[2,[0,1,2]])  f4.astype('e')[np.zeros((3,0),bool)]
A[np.zeros((3,0),bool)]  np.insert(v,(),3.)  np.union1d(v,w)  np.setxor1d(v,w)
np.digitize(v,[-1,0,1])  np.searchsorted(np.sort(v),.5)  np.apply_along_axis(np.cumsum,1,A)
np.apply_over_axes(np.sum,C,[0,2])  np.lexsort((v,w))  np.isin(v,[.3])  np.argpartition(v,2)
""",
    "signals, statistics and polynomials": """
np.linspace(s,-w,5,dtype=int)  np.cov(f4,aweights=w*w,dtype='f4')  np.average(A,returned=True)
np.average(A,weights=B,returned=True)  np.unwrap(v*4)  np.unwrap(A*4,axis=0,discont=2.,period=5.)
np.convolve(v,w)  np.convolve(v,w[:3],mode='same')  np.convolve(v,w[:2],'valid')
np.correlate(v,w[:3],mode='full')  np.correlate(zv,zv[:2])  np.interp(u,np.sort(v),w)
np.interp(u,[0,.4,1.],w[:3],left=-1.,right=s)  np.interp(u,[0,.4,1.],w[:3],period=.8)  np.cov(A)
np.cov(A,rowvar=False,bias=True)  np.cov(v,w,ddof=0)
np.cov(A,fweights=[1,2,3,1],aweights=[.1,.2,.3,.4])  np.corrcoef(A)  np.corrcoef(A,B,rowvar=False)
np.polyval(v,w)  np.polyval([1,2,3],A)  np.polyfit(v,w,2)  np.polyfit(v,A.T,1,w=ps)
np.polyadd(v,w[:2])  np.polysub(v,w[:2])  np.polymul(v,w[:2])  np.polydiv(v,w[:2])
np.polyder(v,2)  np.polyint(v,2,k=[1.,2.])  np.poly(v)  np.roots(v)
np.histogram(v,bins=3,range=(-2,3),weights=w)
np.histogram(v,density=True,bins=[-2,0,3],weights=ps)  np.histogram2d(v,w,bins=2,weights=u)
np.bincount(I,weights=v)  np.bincount(I,v,minlength=5)
""",
    "methods of ufuncs": """
np.add.reduce(A,axis=1,keepdims=True)  np.add.reduce(A,axis=(0,1),initial=3.,where=M)
np.multiply.reduce(A,axis=None)  np.maximum.reduce(A,axis=1,where=M,initial=-9.)
np.logaddexp.reduce(A,axis=0)  np.subtract.reduce(A,axis=0)  np.divide.reduce(B,axis=0)
np.hypot.reduce(A,axis=1)  np.add.accumulate(A,axis=1)  np.multiply.accumulate(A)
np.maximum.accumulate(A,axis=1)  np.subtract.accumulate(A,1)  np.add.reduceat(A,[0,2],axis=1)
np.multiply.reduceat(v,[0,2,1])  np.maximum.reduceat(v,[0,3])  np.multiply.outer(A,w)
np.subtract.outer(v,w)  np.arctan2.outer(v,w)
""",
    "lists with tracked values in them": """
np.concatenate([[s,1.],v])  np.concatenate(([s],[1.],w))  np.hstack([[s],v])
np.vstack([[s,1.,2.,3.],v])  np.column_stack([[s,1.,2.,3.],v])  np.dstack([[s,1.,2.,3.],v])
np.stack([[s,1.,2.,3.],v])  np.maximum([s,1.,2.,3.],v)  np.add([[s],[1.]],v,dtype=float)
v*[s,1.,2.,3.]  [[s],[2.]]-v  (s,1.,2.,3.)/ps  v[range(1,3)]*v[range(0)].size  A[range(3),[0,2,1]]
A[1:,range(2)]
""",
    "into an array that is there": """
np.matmul(v,w,out=np.zeros_like(v))  np.vecdot(A,B,out=np.zeros_like(A,shape=(2,3)))
np.add(A,w,out=np.zeros_like(A,shape=(3,4),order='F'))  np.sin(v[0],out=np.zeros(4)*v)
np.add(A[0],1,out=A*0)  np.negative(A,where=M,out=np.zeros_like(A))
np.clip(A,-1,1,out=np.zeros_like(A))  np.sum(A,out=np.zeros_like(A[0]),axis=0)
np.dot(A,w,out=None)  np.mean(A,axis=1,out=np.zeros_like(A[:,0]))
np.cumsum(A,axis=1,out=np.zeros_like(A))  np.matmul(A,B.T,out=np.zeros_like(S))
np.dot(A,B.T,out=np.zeros_like(S))  np.take(A,[1,2],out=np.zeros_like(v[:2]))
np.round(A,1,out=np.zeros_like(A))  np.concatenate([v,w],out=np.zeros_like(A.ravel()[:8]))
np.concatenate([v,w],out=np.zeros(8,int),casting='unsafe')
np.stack([v,w],out=np.zeros((2,4),int),casting='unsafe')  np.sum(A,axis=1,out=np.zeros(3,int))
np.sum(A>0,axis=1,out=np.zeros(3,bool))  np.mean(A,axis=1,out=np.zeros(3,int))
np.mean(ints,out=np.zeros((),int))  np.var(A,axis=1,out=np.zeros(3,int))
np.max(A,axis=1,out=np.zeros(3,int))  np.prod(A,axis=1,out=np.zeros_like(v[:3].astype('f4')))
np.cumsum(v,out=np.zeros(4,int))  np.take(v,[0,1],out=np.zeros(2,int))
np.trace(A,out=np.zeros((),int))  np.median(v,out=np.zeros((),int))
np.stack([v,w],out=np.zeros_like(A[:2]))  np.median(A,axis=0,out=np.zeros_like(w))
np.percentile(A,30,axis=0,out=np.zeros_like(w))  np.max(A,axis=0,out=np.zeros_like(w))
np.prod(A,axis=0,out=np.zeros_like(w))  np.std(A,axis=0,out=np.zeros_like(w))
np.einsum('ij,jk',A,B.T,out=np.zeros_like(S))  np.compress([1,0,1,1],v,out=np.zeros_like(w[:3]))
np.choose([0,1,0,1],[v,w],out=np.zeros_like(u))  np.outer(v,w,out=np.zeros_like(np.outer(u,u)))
np.nanmean(N,axis=0,out=np.zeros_like(w))
""",
    "other namespaces": """
np.lib.stride_tricks.sliding_window_view(A,(2,2))
np.lib.stride_tricks.sliding_window_view(v,3)[::-1]  np.emath.sqrt(v)  np.emath.log(v)
np.emath.power(v,2)
""",
    "array methods, subscripts and operators": """
A.clip(-1,1)  A.item((1,2))  A.reshape((4,3),order='f')  A.ravel('f')  A.flatten('f')
A.ravel(order=None)  A.reshape(np.int64(12))  A.item(5)  A.item((5,))
A.astype('f4','C','same_kind')  A.astype(dtype='f8',copy=False)  np.reshape(A,-1,copy=True)
np.reshape(A,(4,3),copy=False)  np.choose([0,0,0,0],[v])  A.clip(max=.3)  A.round(-1)  A.sum(0)
A.sum(axis=1,keepdims=True,where=M)  A.prod(0)  A.max(0)  A.min(axis=1,initial=-.2)  A.cumsum(1)
A.cumprod()  A.dot(w)  A.trace(1)  A.diagonal(offset=1)  A.reshape(2,6)
A.reshape((6,2),order='A')  A.T.reshape(-1,order='A')  A.flatten('K')  C.transpose(1,0,2)  C.mT
A.repeat(3,axis=1)  A.compress([0,1,1],axis=0)  A.take([0,5],mode='wrap')  A[...,None,1]  A[M]
A[[0,2]][:,[1,1]]  A[np.ix_([0,2],[1,3])]  A[:,None,I]  A[[0,1],1:3]  A[1:,[0,0]]  C[0,:,[1,2]]
C[:,[0,1],[1,2]]  C[mv[:2]]  A[mv[:3],1]  A[::-1,-2:0:-1]  v[np.newaxis]  A[()]  A.item(3)  A.real
Z.imag  Z.conj()  np.conj(A>0)  A.astype(complex)  A.copy(order='F')  A.ravel('K')  A.squeeze()
A.swapaxes(0,1)  A.std(axis=1,ddof=1)  A.var(0)  A.mean(1)  A.argmax(axis=1)  A.nonzero()  A.any()
abs(A)  -A  +A  A//.7  A%w  2**v  divmod(A,.7)  A@w  (A>0)&(A<1)  ~(A>0)  A<w  round(s,1)
A.sum().item()*2  sum(v)  max(v)  [*v][1]
""",
    "arrays without axes": """
a0.sum(0)  a0.max(-1,keepdims=True)  a0.any(0)  np.all(a0,axis=-1,keepdims=True)  a0.cumsum(0)
np.cumprod(a0,axis=-1)  np.nancumsum(a0,0)  a0.repeat(2,0)  np.take(a0,[0,0],axis=-1)
np.take(a0,0,axis=0)  a0.compress([True],axis=0)  a0.argsort(0)  np.logaddexp.reduce(a0)
np.logaddexp.reduce(a0,axis=-1,keepdims=True)  np.nan_to_num(a0)  a0[...]  a0[()]  a0[None]  a0+1
a0.item()  a0.copy()  a0.reshape(1,1)  a0.T  np.atleast_1d(a0)
""",
    "linear algebra": """
np.linalg.qr(S,mode='raw')  np.linalg.qr(C,mode='raw')  np.linalg.qr(A,mode='raw')
np.linalg.qr(A.T+1j*B.T,mode='raw')  np.linalg.qr(f4,mode='raw')  np.linalg.norm(A,ord=1,axis=1)
np.linalg.norm(A,np.inf,axis=0,keepdims=True)  np.linalg.norm(A,-np.inf)  np.linalg.norm(A,2)
np.linalg.norm(A,-2)  np.linalg.norm(A,'nuc')  np.linalg.norm(C,'fro',axis=(0,2))
np.linalg.norm(v,3)  np.linalg.norm(v,0)  np.linalg.norm(v,-1)  np.linalg.norm(v,.5)
np.linalg.norm(C,1,axis=(1,2),keepdims=True)  np.linalg.vector_norm(C,axis=(0,1),ord=3)
np.linalg.vector_norm(A,keepdims=True)  np.linalg.matrix_norm(C,ord=1,keepdims=True)
np.linalg.slogdet(SS)  np.linalg.pinv(A,rcond=1e-10)  np.linalg.pinv(P,hermitian=True)
np.linalg.solve(S,A)  np.linalg.solve(SS,A)  np.linalg.lstsq(A.T,w,rcond=None)[0]
np.linalg.cholesky(P,upper=True)  np.linalg.eigh(P)[0]  np.linalg.eigvalsh(P,UPLO='U')
np.linalg.eigvalsh(H,'U')  np.linalg.svd(A,full_matrices=False)[1]
np.linalg.svd(A,compute_uv=False)  np.linalg.svd(P,hermitian=True)[1]  np.linalg.qr(A.T,mode='r')
np.linalg.qr(A.T,mode='complete')[1]  np.linalg.matrix_power(S,3)  np.linalg.matrix_power(S,-2)
np.linalg.multi_dot([A,B.T,S])  np.linalg.cond(S,1)
np.linalg.tensorinv(C.reshape(6,2,2)[:4],ind=1)  np.linalg.tensorsolve(S,v[:3])
np.linalg.tensorsolve(A[:1,:1],B[:1,:1])  np.linalg.cross(A[:,:3],B[:,:3])  np.linalg.outer(v,w)
np.linalg.trace(C,offset=1)  np.linalg.diagonal(C,offset=-1)  np.linalg.vecdot(A,B,axis=0)
np.linalg.tensordot(A,B,axes=((0,),(0,)))  np.linalg.matmul(A,B.T)  np.linalg.eigh(P,'U')[0]
np.linalg.eig(P)[0]
""",
    "transforms": """
np.fft.irfftn(Z,s=(3,-1))  np.fft.irfft2(A,s=(-1,-1))  np.fft.rfft2(A,axes=(0,0))
np.fft.irfftn(A,axes=(0,1,0))  np.fft.fft(v,6,norm='ortho')
np.fft.fft(A,n=3,axis=0,norm='forward')  np.fft.ifft(zv,norm='forward')  np.fft.rfft(v,n=3)
np.fft.rfft(A,axis=0,norm='ortho')  np.fft.irfft(zv,5)  np.fft.irfft(zv,norm='forward')
np.fft.hfft(zv,n=5)  np.fft.ihfft(v,norm='ortho')  np.fft.fft2(A,s=(2,5))
np.fft.ifft2(Z,axes=(1,0))  np.fft.fftn(C,axes=(0,2),norm='forward')
np.fft.fftn(C,s=(3,3),axes=(0,1))  np.fft.rfft2(A,norm='ortho')
np.fft.rfftn(C,s=(2,3),axes=(2,1))  np.fft.irfft2(Z,s=(3,5))  np.fft.irfftn(Z,axes=(1,0))
np.fft.fftshift(A,axes=1)  np.fft.fft(v,out=np.zeros_like(zv))
""",
    "laid out as NumPy's": """
np.correlate(v[:2],w)  np.delete(C,[0,2],-1)  np.delete(C,[0,2],1)  np.delete(C,[0],1)
np.zeros_like(v,shape=(3,4),order='F')  np.zeros_like(F,shape=(2,3,4),order='A')
np.matmul(A,B.T,order='F')  np.delete(F,[0,2],1)  np.delete(F,1,0)  np.insert(F,1,v,0)
np.pad(F,1,mode='reflect')  np.pad(F,((1,0),(0,2)),mode='mean')  np.pad(F,2,mode='constant')
np.tile(v,(4,1))  np.tile(F,(1,1))  np.tile(F,2)  np.meshgrid(v,w[:3])
""",
    "edges": """
np.subtract(f4,2,dtype=np.dtypes.Float64DType)  np.sum(A,axis=0,dtype=np.dtypes.Float32DType)
np.subtract(A,w,where=np._NoValue)  np.sum(f4,initial=np.float64(3))
np.max(empty,axis=0,initial=0,keepdims=True)  np.maximum.reduce(empty,initial=2)
np.minimum.reduce(empty,axis=None,initial=2)  np.fmax.reduce(f4,initial=100)
np.fmax.reduce(empty,axis=1,keepdims=True)  np.linalg.norm(empty,np.inf)
np.linalg.vector_norm(empty,ord=np.inf)  np.linalg.matrix_norm(empty,ord=2)
np.linalg.matrix_rank(empty)  np.tensordot(empty,empty,((0,),(0,)))  np.tensordot(empty.T,empty,1)
np.nanpercentile(empty,40,axis=0)  np.nanmax(N+1j,axis=0)  np.nanmin(Z,initial=-3)
np.nanvar(N,axis=1,ddof=2)  np.nanstd(N,axis=0,correction=1)  np.percentile(ints,s*20,axis=1)
np.percentile(ints,A[1]*15+40,axis=0)  np.quantile(ints,v/4+.4,method='nearest')
np.percentile(f4,np.float32(40),method='averaged_inverted_cdf')  np.median(X[:,::3],axis=0)
np.median(X[:1,1:2],axis=1)  np.nanmedian(X,axis=0)  np.nanmedian(X,axis=1,keepdims=True)
np.cov(v[None],rowvar=False,ddof=0)  np.cov(f4,rowvar=False,dtype='f2')
np.cov(A,v,fweights=[1,2,1,3])  np.corrcoef(A,rowvar=False,dtype='f4')
np.nan_to_num(X,nan=np.inf,posinf=9)  np.nan_to_num(X*1j,copy=True)
np.nan_to_num(X.astype("f4"),nan=np.float64(.5),posinf=np.full_like(X,2.))
np.nan_to_num(np.float32(np.nan)*v[0].astype("f4"),nan=np.float64(.5))
np.interp(v*.3+1.4,[1,2,3,4],X[0,[0,0,1,3]])  np.delete(A,[],1)  np.insert(A,[],[],1)
np.interp([1,2,2.5,3,4],[1,2,3,4],X[0])  np.interp(v,[-np.inf,np.inf],[10.,10.])
np.pad(empty,((0,0),(1,1)),mode='edge')  np.histogram(v,range=(-1.,1.))
np.histogram(v,2,range=(s-3,s))  np.histogram(v,3,weights=[1,2,3,4])
np.histogramdd(A.T,bins=[[-2,0,2],[0,1],[-1,0,1,2]],density=True)
np.histogramdd(A.T,bins=[3,2,[-1,s-1,s]])  np.histogramdd(A.T,range=[[0.,1],[.25,.75],[.25,.5]])
np.histogram(v,3,weights=np.arange(4)+1j)  np.histogram2d(v,w,((-2,0,2),3))
np.histogram2d(v,w,[3,[-1.,s-1,s]])  np.histogram2d(v,w,[-1.,s-1,s])  np.einsum('ij,j',A,[2.])
np.einsum('ij,jk->ik',A[:,:1],B.T)  np.einsum('iij,i->j',C[:1,:1],v)
np.einsum('ijk,kl,jl,i->i',C[:1],A.T,A[:,:3],v)  np.einsum('ij,j',A,v,dtype='f4',casting='unsafe')
np.einsum('ij->j',f4,dtype='f8')  np.logical_or.reduce(A>0,1,bool)  np.trim_zeros(np.array(1.)*s)
np.argwhere(s)  np.piecewise(v,np.array([1,0,1,0]),[2.,np.exp])
np.piecewise(s,[s<1,(s>1)*(s<2)],[np.sin,np.exp])  np.linalg.cond(0*S)
np.geomspace(np.array([-3.,2.]),[3.,5.],4,axis=1)  np.geomspace(-s,3,num=4)
np.geomspace(s,3,num=1)  np.geomspace(s,3,num=0)  np.iscomplex(s)  np.isreal(s)
np.dot(s,2)+np.inner(3,s)  np.dot(np.uint8(200),int(100*s/s))  np.inner(np.uint8(int(s*100)),100)
np.inner([3,1,2],int(s))  np.conj(s)  np.conjugate(int(s))  np.block(s)  np.broadcast_arrays(s)
np.flip(s)  np.atleast_1d([3,1,2],s)  np.atleast_2d([3,1,2],s)
np.intersect1d([True,False],np.atleast_1d(s)>0)  np.intersect1d(np.int8(1),int(s))
np.histogramdd([s,1.,2.],bins=[[0.,1.2,3.]])  np.histogramdd(a0)  np.linspace([3,1,2],s,3)
np.hsplit(v,s/s+1)  np.multiply.outer(i8.astype('u1')*60,int(s)*7)  np.multiply.outer(f4,s)
np.polyval(i8.astype('u1')*60,int(s)*7)  np.polyval(f4[0],s)  np.polyint(f4[0],s/s+1)
np.roots(np.array([3,1,2],'u1')*int(s))  np.roots(mv*s)  np.roots(mv&(s>0))  np.real_if_close(s)
np.bitwise_and.reduce(np.zeros(0,'u1'),initial=int(s))  np.isreal(3j*s)
np.array_split(list(range(8)),int(s)+2)  np.percentile(v,5,out=np.zeros(1)*v[:1])
np.quantile(v,.5,weights=u*u,method='inverted_cdf')
np.quantile(A,.5,axis=1,weights=B,method='inverted_cdf')
np.nanquantile(A,.5,weights=B,method='inverted_cdf')
""",
}


def calls(text):
    """The calls that stand in a text."""
    return re.split(r"  |\n", text.strip())
