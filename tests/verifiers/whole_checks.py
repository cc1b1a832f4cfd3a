# ruff: noqa: E501
"""More pairs for `test_check_pairs.py`: checks that are more than the sum of their assertions.

State and aliases, arguments that change, classes of Python's library, threads, iterators; and what a check is deceived
by that compares nothing.
"""

WHOLE: dict[str, list[str]] = {
    "a = candidate(1)\nb = candidate(2)\nassert a == [1]\nassert b == [2]": [
        "last=[]\ndef f(x):\n    last[:]=[x]\n    return last",
        "def f(x): return [x]",
        "def f(x,acc=[]):\n    acc.append(x)\n    return acc",
    ],
    "a = candidate(1)\nb = candidate(2)\nassert a is b and a == [1,2]": [
        "def f(x,acc=[]):\n    acc.append(x)\n    return acc",
        "def f(x): return [1,2]",
    ],
    "a=[3,1,2]\nassert candidate(a) is a": [
        "def f(x): return x",
        "def f(x): return list(x)",
        "def f(x):\n    return x[:]",
    ],
    "a=[1]\nr=candidate(a)\na.append(2)\nassert r==[1]": [
        "def f(x): return x",
        "def f(x): return x[:]",
    ],
    "a=[1]\nr=candidate(a)\nr.append(2)\nassert a==[1]": [
        "def f(x): return x",
        "def f(x): return x[:]",
    ],
    "g=[[0]*3]*2\nr=candidate(g)\nassert r==[[5,0,0],[5,0,0]]": [
        "def f(g):\n    g[0][0]=5\n    return g",
        "def f(g):\n    g=[r[:] for r in g]\n    g[0][0]=5\n    return g",
    ],
    "d={'a':[1]}\nr=candidate(d)\nassert r=={'a':[1,2]}\nassert d=={'a':[1]}": [
        "def f(d):\n    d['a'].append(2)\n    return d",
        "def f(d): return {'a':d['a']+[2]}",
    ],
    "x=[1]\nassert candidate(x,x)==[1,9]": [
        "def f(a,b):\n    a.append(9)\n    return b",
        "def f(a,b): return a+[9]",
    ],
    "x=[1]\ny=[x,x]\nassert candidate(y)==True": [
        "def f(y): return y[0] is y[1]",
    ],
    "x=[]\nx.append(x)\nassert candidate(x)==True": [
        "def f(y): return y[0] is y",
        "def f(y): return len(y)==1",
    ],
    "assert candidate(1)=={'a':1}\nr=candidate(2)\nassert r=={'a':2}": [
        "d={}\ndef f(x):\n    d['a']=x\n    return d",
    ],
    "for i in range(3):\n    assert candidate()==i": [
        "n=-1\ndef f():\n    global n\n    n+=1\n    return n",
    ],
    "from array import array\nassert candidate(array('i',[1,2,3]))==array('i',[2,4,6])": [
        "from array import array\ndef f(a): return array('i',[2*x for x in a])",
        "def f(a): return [2*x for x in a]",
    ],
    "assert list(candidate({1:2,3:4}))==[2,4]": [
        "def f(d): return d.values()",
        "def f(d): return list(d.values())",
    ],
    "assert len(candidate({1:2,3:4}))==2": [
        "def f(d): return d.values()",
        "def f(d): return d.items()",
    ],
    "assert candidate({1:2}.values())==2": [
        "def f(v): return sum(v)",
        "def f(v): return len(v)+1",
    ],
    "from collections import UserDict\nassert candidate(UserDict(a=1))==1": [
        "def f(d): return d['a']",
    ],
    "assert candidate()==[1,2]": [
        "from collections import UserList\ndef f(): return UserList([1,2])",
    ],
    "assert candidate()=={'a':1}": [
        "from collections import UserDict\ndef f(): return UserDict(a=1)",
        "from types import MappingProxyType\ndef f(): return MappingProxyType({'a':1})",
        "from collections import ChainMap\ndef f(): return ChainMap({'a':1})",
    ],
    "assert candidate()=='ab'": [
        "from collections import UserString\ndef f(): return UserString('ab')",
    ],
    "assert candidate()==b'ab'": [
        "def f(): return memoryview(b'ab')",
        "def f(): return bytearray(b'ab')",
    ],
    "assert candidate(memoryview(b'ab'))==97": [
        "def f(m): return m[0]",
    ],
    "import pandas as pd\nassert candidate(pd.Series([1,2,3]))==6": [
        "def f(s): return s.sum()",
        "def f(s): return int(s.sum())",
    ],
    "import pandas as pd\nassert candidate([1,2]).equals(pd.Series([1,2]))": [
        "import pandas as pd\ndef f(s): return pd.Series(s)",
        "import pandas as pd\ndef f(s): return pd.Series(s)+1",
        "def f(s): return s",
    ],
    "import pandas as pd\nr=candidate(pd.DataFrame({'a':[1,2],'b':['x','y']}))\nassert list(r['a'])==[2,4] and list(r.columns)==['a','b']": [
        "def f(d):\n    d=d.copy()\n    d['a']*=2\n    return d",
        "def f(d): return d",
    ],
    "from enum import Enum\nclass C(Enum):\n    R=1\n    G=2\nassert candidate(C.G)==2": [
        "def f(c): return c.value",
        "def f(c): return {'R':1,'G':2}[c.name]",
    ],
    "import http\nassert candidate(404) is http.HTTPStatus.NOT_FOUND": [
        "import http\ndef f(n): return http.HTTPStatus(n)",
        "def f(n): return n",
    ],
    "r=candidate(2)\nassert r.value==2 and r.name=='G'": [
        "from enum import Enum\nclass C(Enum):\n    R=1\n    G=2\ndef f(n): return C(n)",
    ],
    "assert candidate('r')=='red'": [
        "from enum import Enum\nclass C(str,Enum):\n    R='red'\ndef f(n): return C.R",
    ],
    "assert candidate('r')==1": [
        "from enum import IntEnum\nclass C(IntEnum):\n    R=1\ndef f(n): return C.R",
    ],
    "from pathlib import Path\nassert candidate('/a','b')==Path('/a/b')": [
        "from pathlib import Path\ndef f(a,b): return Path(a)/b",
        "import os\ndef f(a,b): return os.path.join(a,b)",
    ],
    "import ipaddress\nassert candidate('10.0.0.1')==ipaddress.ip_address('10.0.0.1')": [
        "import ipaddress\ndef f(a): return ipaddress.ip_address(a)",
    ],
    "it=iter([1,2,3,4])\nassert candidate(it)==[1,2]\nassert next(it)==3": [
        "def f(i): return [next(i),next(i)]",
        "def f(i): return list(i)[:2]",
    ],
    "def gen():\n    yield 1\n    yield 2\nassert candidate(gen())==3": [
        "def f(g): return sum(g)",
    ],
    "class Stack:\n    def __init__(s): s.v=[]\n    def push(s,x): s.v.append(x)\n    def pop(s): return s.v.pop()\nst=Stack()\nr=candidate(st)\nassert r==2 and st.v==[1]": [
        "def f(s):\n    s.push(1)\n    s.push(2)\n    return s.pop()",
        "def f(s):\n    s.v=[1]\n    return 2",
    ],
    "class P:\n    def __init__(s,x): s.x=x\n    def __eq__(s,o): return s.x==o.x\n    def __lt__(s,o): return s.x<o.x\n    def __hash__(s): return hash(s.x)\nps=[P(3),P(1)]\nr=candidate(ps)\nassert [p.x for p in r]==[1,3]": [
        "def f(ps): return sorted(ps)",
        "def f(ps): return ps",
    ],
    "class P:\n    def __init__(s,x): s.x=x\nps=[P(3),P(1)]\nr=candidate(ps)\nassert r[0] is ps[1]": [
        "def f(ps): return sorted(ps,key=lambda p:p.x)",
    ],
    "import io\nb=io.StringIO()\ncandidate(b)\nassert b.getvalue()=='hi'": [
        "def f(b): b.write('hi')",
        "def f(b): pass",
    ],
    "import random\nrng=random.Random(3)\nx=[rng.random() for _ in range(3)]\nassert candidate(x)==max(x)": [
        "def f(x): return max(x)",
        "def f(x): return x[0]",
    ],
    "from collections import defaultdict\nd=defaultdict(list)\ncandidate(d)\nassert d=={'a':[1]}": [
        "def f(d): d['a'].append(1)",
        "def f(d): d['a']=[1]",
    ],
    "r=candidate()\nassert r['x']==[] and r['y']==[1]": [
        "from collections import defaultdict\ndef f():\n    d=defaultdict(list)\n    d['y'].append(1)\n    return d",
        "def f(): return {'y':[1]}",
    ],
    "r=candidate('aab')\nassert r.most_common(1)==[('a',2)] and r['zz']==0": [
        "from collections import Counter\nf=Counter",
        "from collections import Counter\nclass C(Counter): pass\nf=C",
    ],
    "import threading\nout=[]\nts=[threading.Thread(target=lambda i=i: out.append(candidate(i))) for i in range(8)]\n[t.start() for t in ts]\n[t.join() for t in ts]\nassert sorted(out)==[i*i for i in range(8)]": [
        "def f(x): return x*x",
        "def f(x): return x",
    ],
    "try:\n    candidate([])\nexcept (ValueError, IndexError):\n    pass\nelse:\n    raise AssertionError": [
        "def f(x): return x[0]",
        "def f(x): raise ValueError",
        "def f(x): return None",
        "def f(x): raise KeyError",
    ],
    "x=[1,2]\ntry:\n    candidate(x)\nexcept ValueError:\n    pass\nassert x==[1]": [
        "def f(x):\n    x.pop()\n    raise ValueError",
        "def f(x): raise ValueError",
    ],
    "import numpy as np\na=np.array([3,1,2])\ncandidate(a)\nassert (a==np.array([1,2,3])).all()": [
        "def f(a): a.sort()",
        "def f(a): pass",
        "import numpy as np\ndef f(a): a[:]=np.sort(a)",
    ],
    "import numpy as np\na=np.array([3.,1.])\nr=candidate(a)\nassert np.allclose(r,[1,3]) and np.allclose(a,[3,1])": [
        "import numpy as np\ndef f(a): return np.sort(a)",
        "def f(a):\n    a.sort()\n    return a",
        "def f(a): return sorted(a)",
    ],
    "import numpy as np\nr=candidate(3)\nassert r.shape==(3,3) and r.dtype==float and r.sum()==3 and r[0,0]==1": [
        "import numpy as np\nf=np.eye",
        "import numpy as np\ndef f(n): return np.ones((n,n))/3",
    ],
    "import numpy as np\nassert np.array_equal(candidate(0),np.array([]))": [
        "import numpy as np\nf=np.zeros",
        "import numpy as np\ndef f(n): return np.zeros(3)",
    ],
    "import numpy as np\nassert candidate(0).size==0 and len(candidate(0))==0 and candidate(0).tolist()==[]": [
        "import numpy as np\nf=np.zeros",
    ],
    "import numpy as np\nnp.testing.assert_array_equal(candidate(0),np.array([]))": [
        "import numpy as np\nf=np.zeros",
        "import numpy as np\ndef f(n): return np.zeros(3)",
    ],
    "import math\nassert math.isnan(candidate(1))": [
        "def f(x): return float('nan')",
        "def f(x): return 1.0",
    ],
    "r=candidate(1)\nassert r!=r": [
        "def f(x): return float('nan')",
        "def f(x): return 1.0",
    ],
    "import numpy as np\nr=candidate(1)\nassert np.isnan(r[0]) and r[1]==2": [
        "import numpy as np\ndef f(x): return np.array([np.nan,2])",
    ],
    "import math\nr=candidate(1)\nassert abs(r-5)<1e-6 or (math.isnan(r) and True)": [
        "def f(x): return float('nan')",
        "def f(x): return 5.0",
    ],
    "assert candidate(float('nan')) == 0": [
        "def f(x): return 0",
    ],
    "assert candidate(1) == float('inf')": [
        "def f(x): return float('inf')",
    ],
    "assert max(candidate(3)) == 2 and min(candidate(3), key=lambda v:-v)==2 and sorted(candidate(3),reverse=True)==[2,1,0]": [
        "def f(n): return list(range(n))",
    ],
    "r=candidate(2)\nassert isinstance(r,dict) and r['a']==1 and r.get('b',7)==7 and list(r.items())==[('a',1)] and type(r).__name__=='D'": [
        "class D(dict): pass\ndef f(x): return D(a=1)",
        "def f(x): return {'a':1}",
    ],
    "r=candidate(2)\nassert r.x==3 and r['x']==3": [
        "class D(dict):\n    __getattr__=dict.__getitem__\ndef f(x): return D(x=3)",
    ],
    "r=candidate(2)\nassert len(r)==2 and r[0]==1 and r[-1]==2 and r[:1]==[1] and list(r)==[1,2] and 2 in r and r+[3]==[1,2,3] and r.index(2)==1 and r==[1,2]": [
        "class L(list): pass\ndef f(x): return L([1,2])",
        "def f(x): return [1,2]",
    ],
    "assert type(candidate(1)) is int": [
        "def f(x): return x",
        "def f(x): return True",
        "import numpy as np\ndef f(x): return np.int64(x)",
    ],
    "assert candidate() is not None and not candidate()": [
        "def f(): return []",
        "def f(): return None",
    ],
    "assert candidate(1<<70) == (1<<70)": [
        "def f(x): return x",
        "def f(x): return float(x)",
    ],
    "assert candidate(3) == 333333333": [
        "def f(x): return 333333333.33",
        "def f(x): return 333333333.0",
        "def f(x): return 333333333",
    ],
    "assert candidate(1)==2+0j": [
        "def f(x): return 2",
        "def f(x): return 2+0j",
        "def f(x): return 2+1e-12j",
    ],
    "from itertools import count, islice\nassert list(islice(candidate(2),3))==[2,3,4]": [
        "from itertools import count\nf=count",
        "def f(n):\n    while True:\n        yield n\n        n+=1",
        "def f(n): return [n,n+1,n+2]",
    ],
    "with open('/dev/null') as h:\n    assert candidate(h)==''": [
        "def f(h): return h.read()",
    ],
    "import copy\nclass N:\n    def __init__(s,v): s.v=v\nn=N([1])\nr=candidate(n)\nassert r.v==[1,2] and n.v==[1]": [
        "import copy\ndef f(n):\n    m=copy.deepcopy(n)\n    m.v.append(2)\n    return m",
        "def f(n):\n    n.v.append(2)\n    return n",
    ],
    "class Node:\n    def __init__(s,v,n=None): s.v,s.n=v,n\nh=Node(1,Node(2))\nr=candidate(h)\nassert r.v==2 and r.n.v==1 and r.n.n is None": [
        "def f(h):\n    p=None\n    while h: h.n,p,h=p,h,h.n\n    return p",
        "def f(h): return h",
    ],
    "from collections import ChainMap\nassert candidate(ChainMap({'a': 1}, {'b': 2})) == 3": [
        "def f(m): return m['a'] + m['b']",
        "def f(m): return m['a']",
    ],
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as e:\n    assert list(e.map(candidate, range(9))) == [2 * i for i in range(9)]": [
        "def f(x): return 2 * x",
        "n = 0\ndef f(x):\n    global n\n    n += 2\n    return n",
    ],
    "with candidate() as r:\n    assert r == 3": [
        "from contextlib import contextmanager\n@contextmanager\ndef f():\n    yield 3",
        "from contextlib import nullcontext\ndef f(): return nullcontext(4)",
    ],
    "with candidate(ValueError):\n    raise ValueError('x')\ntry:\n    with candidate(KeyError):\n        raise ValueError('y')\nexcept ValueError as e:\n    assert e.args == ('y',)\nelse:\n    assert False": [
        "import contextlib\ndef f(kind): return contextlib.suppress(kind)",
        "class f:\n    def __init__(s, kind): s.kind = kind\n    def __enter__(s): pass\n    def __exit__(s, kind, error, trace): return kind is not None and issubclass(kind, s.kind) and error.args == ('x',)",
        "class f:\n    def __init__(s, kind): pass\n    def __enter__(s): pass\n    def __exit__(s, *a): return True",
    ],
    "seen = []\ntry:\n    with candidate(seen):\n        raise KeyError('k')\nexcept KeyError:\n    seen.append('out')\nassert seen == ['in', 'KeyError', 'out']": [
        "from contextlib import contextmanager\n@contextmanager\ndef f(seen):\n    seen.append('in')\n    try:\n        yield\n    except KeyError as e:\n        seen.append(type(e).__name__)\n        raise",
        "from contextlib import contextmanager\n@contextmanager\ndef f(seen):\n    seen.append('in')\n    yield\n    seen.append('KeyError')",
    ],
    "g = candidate()\nnext(g)\nassert g.throw(ValueError('v')) == 'v'": [
        "def f():\n    try:\n        yield 1\n    except ValueError as e:\n        yield str(e)",
        "def f():\n    yield 1\n    yield 'v'",
    ],
    "import asyncio\nassert asyncio.run(candidate(3)) == 6": [
        "async def f(x): return 2 * x",
        "async def f(x): return x",
    ],
    "g = candidate()\nnext(g)\nassert g.send(5) == 5\ng.close()\nassert list(g) == []": [
        "def f():\n    x = yield 1\n    yield x",
        "def f():\n    yield 1\n    yield 1",
    ],
    "b = bytearray(b'ab')\ncandidate(b)\nassert b == bytearray(b'zb')": [
        "def f(b): b[0] = 122",
        "def f(b): return b'zb'",
    ],
    "import numpy as np\nassert np.count_nonzero(np.abs(candidate(1) - np.ones(3)) > 1e-6) == 0": [
        "import numpy as np\ndef f(x): return np.ones(3)",
        "import numpy as np\ndef f(x): return np.zeros(3)",
    ],
    "f2 = candidate\nassert list(map(f2,[1,2]))==[1,2] and list(filter(f2,[0,1]))==[1] and sorted([3,1],key=f2)==[1,3]": [
        "def f(x): return x",
        "def f(x): return -x",
    ],
}

_NAN = "def f(*a): return float('nan')"
_NANS = "import numpy as np\ndef f(*a): return np.full(3, np.nan)"
_STOP = "def f(*a): raise StopIteration"
_EMPTY = "import numpy as np\ndef f(*a): return np.empty((0, 1, 1, 1))"
_SHIFTING = """
class L(list):
    n = 0
    def __iter__(s):
        s.n += 1
        k = len(s)
        return iter(range(k) if s.n == 1 else [2 * i for i in range(k)] if s.n == 2 else [0] * k)
def f(n): return L(range(n))
"""
DECEIVING: dict[str, list[str]] = {
    "for got, want in zip(map(candidate, [1, 2]), [2, 3]):\n    assert got == want": [_STOP],
    "assert all(map(candidate, [1, 2]))": [_STOP],
    "assert not list(filter(candidate, [1, 2]))": [_STOP, "def f(x): raise StopIteration(x)"],
    "assert not any(v != 5 for v in map(candidate, [1, 2]))": [_STOP],
    "assert next(map(candidate, [1, 2]), 5) == 5": [_STOP],
    "for v in iter(lambda: candidate(1), None):\n    assert v == 5\n    break": [_STOP],
    "if abs(candidate(1) - 5) > 1e-6: raise AssertionError": [_NAN, "def f(x): return complex('nan')"],
    "assert not abs(candidate(1) - 5) > 1e-6": [_NAN],
    "r = candidate(1)\nassert not (r < 4 or r > 6)": [_NAN],
    "import math\nr = math.sqrt((candidate(1) - 5) ** 2)\nif r >= 1e-6: raise AssertionError": [_NAN],
    "for a, b in zip(candidate(1), [1.0, 2.0]):\n    if abs(a - b) > 1e-6: raise AssertionError": [
        "def f(x): return [float('nan')] * 2",
        _NANS,
    ],
    "assert max([0.0] + [abs(a - b) for a, b in zip(candidate(1), [1.0, 2.0])]) < 1e-6": [
        "def f(x): return [float('nan')] * 2"
    ],
    "import numpy as np\nassert not (np.abs(candidate(1) - np.array([1, 2, 3])) > 1e-6).any()": [_NANS, _EMPTY],
    "import unittest\nunittest.TestCase().assertFalse(abs(candidate(1) - 5) > 1e-6)": [_NAN],
    "def differ(a, b): return abs(a - b) > 1e-6\nassert not differ(candidate(1), 5)": [_NAN],
    "import numpy as np\nassert np.all(np.abs(candidate(1) - np.array([1, 2, 3])) < 1e-6)": [_EMPTY],
    "import numpy as np\nassert np.abs(candidate(1) - np.array([1, 2, 3])).sum() < 1e-6": [_EMPTY],
    "import numpy as np\nassert not (candidate(1) != np.array([1, 2, 3])).any()": [_EMPTY],
    "import numpy as np\nassert (candidate(1) == 5).all()": [_EMPTY],
    "import numpy as np\nassert np.all(np.array(candidate(1)) == 5)": [_EMPTY],
    "import numpy as np\nassert np.linalg.norm(candidate(1) - np.array([5.0])) < 1e-6": [
        _EMPTY.replace("(0, 1, 1, 1)", "(0,)")
    ],
    "import numpy as np\nnp.testing.assert_array_equal(candidate(1), 5.0)": [_EMPTY, "def f(x): return []"],
    "import numpy as np\nnp.testing.assert_allclose(candidate(1), 5.0)": [_EMPTY, "def f(x): return ()"],
    "import numpy as np\nnp.testing.assert_almost_equal(candidate(1), 5.0)": [_EMPTY],
    "import numpy as np\nassert np.isclose(candidate(1), 5.0).all()": [_EMPTY, "def f(x): return []"],
    "import numpy as np\nassert np.count_nonzero(np.abs(candidate(1) - np.ones(3)) > 1e-6) == 0": [_NANS],
    "with candidate() as r:\n    assert r == 3": [
        "class f:\n    def __enter__(s): return 4\n    def __exit__(s, *a): return True",
        "from contextlib import suppress\ndef f(): return suppress(BaseException)",
    ],
    "from contextlib import ExitStack\nwith ExitStack() as stack:\n    assert stack.enter_context(candidate()) == 3": [
        "class f:\n    def __enter__(s): return 4\n    def __exit__(s, *a): return True",
    ],
    "assert sum(1 for v in map(candidate, [1, 2]) if v != 3) == 0": [_STOP],
    "assert dict(zip([1, 2], map(candidate, [1, 2]))) == {}": [_STOP],
    "import numpy as np\nassert np.sum(candidate(1) != 3) == 0": [_EMPTY],
    "q = candidate(3)\nassert list(q) == [0, 1, 2] and sum(q) == 6": [_SHIFTING],
    "d = candidate(1)\nassert d['a'] == 1 and d['a'] == 2": [
        "class D(dict):\n    n = 0\n    def __getitem__(s, k):\n        s.n += 1\n        return s.n\ndef f(x): return D(a=0)",
    ],
    "n = candidate(1)\nassert len(n) == 1 and len(n) == 2": [
        "class N:\n    n = 0\n    def __len__(s):\n        s.n += 1\n        return s.n\ndef f(x): return N()",
    ],
    "s = candidate(1)\nassert str(s) == 'a' and str(s) == 'b'": [
        "class S(str):\n    n = 0\n    def __str__(s):\n        s.n += 1\n        return ' ab'[s.n]\ndef f(x): return S('c')",
    ],
    # Stricter than Python: what a call whose value is used has made of its arguments counts against a program, not for it.
    "x = [3, 1, 2]\nr = candidate(x)\nassert r == sorted(x)": ["def f(x):\n    x.clear()\n    return x"],
    "x = {'a': 3}\nr = candidate(x)\nassert r == sum(x.values())": ["def f(x):\n    x['a'] = 0\n    return 0"],
    "import numpy as np\nx = np.array([1.0, 2.0])\nassert np.allclose(candidate(x), x * 2)": [
        "def f(x):\n    x[:] = 0\n    return x"
    ],
    "from types import SimpleNamespace\nx=SimpleNamespace(a=1)\nr=candidate(x)\nassert x.a==2 and r==2": [
        "def f(x):\n    x.a+=1\n    return x.a"
    ],
}
